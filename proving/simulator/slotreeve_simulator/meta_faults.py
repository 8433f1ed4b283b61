"""Faults of the directories of meta servers and of the links between them, in several steps each (I20, I23)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from slotreeve.errors import SlotreeveError
from slotreeve_conformance.topologies import LED_WITHIN_SECONDS, centres, neighbours
from slotreeve_servers.meta.server import MetaServer

from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict

MOST_KEPT = 16
"""Earlier states of one directory that are kept."""
CALM_SECONDS = 1.0
"""So long all meta servers follow one leader before a directory is touched: a new one has its vote by then."""
SAMPLE_SECONDS = 0.05
LED_AGAIN_SECONDS = 20.0
EPOCHS = "epochs"


@dataclass(frozen=True)
class _EarlierDirectory:
    """A directory at an earlier moment.

    Attributes:
        term: the term that the server had followed a leader in.
        number: how many directories the server had lost before.
    """

    files: dict[str, bytes]
    term: int
    number: int


class MetaFaults:
    """Plays the faults that take place alone. The injector sees to it that no other one lasts meanwhile."""

    def __init__(self, cluster: ScenarioCluster, watch: ServersWatch, trace: Trace, verdict: RunVerdict) -> None:
        self._cluster, self._watch, self._trace, self._verdict = cluster, watch, trace, verdict
        self._names = [name for name in cluster.names if name.startswith("meta-")]
        self._kept: dict[str, list[_EarlierDirectory]] = {name: [] for name in self._names}
        self._lost: dict[str, int] = dict.fromkeys(self._names, 0)

    def keep(self) -> None:
        """Keep the directories of those that follow a leader or lead: they may be set back to that."""
        for name in self._names:
            disk, server = self._cluster.disk(name), self._cluster.servers.get(name)
            if disk is not None and isinstance(server, MetaServer) and server.leadership().leader is not None:
                kept = _EarlierDirectory(dict(disk.files), server.leadership().term, self._lost[name])
                self._kept[name] = [*self._kept[name], kept][-MOST_KEPT:]

    def lose(self, name: str) -> None:
        """A server that was killed has lost its disk."""
        self._cluster.wipe(name)
        self._lost[name] += 1
        self._watch.wiped(name)

    def may_begin(self, fault: Fault) -> bool:
        """Whether the fault is possible now."""
        if not self._is_calm():
            return False
        name = fault.first[0]
        match fault.kind:
            case FaultKind.SET_BACK_META:
                return bool(self._kept[name])
            case FaultKind.SET_BACK_EPOCHS:
                return self._older_epochs(name) is not None
            case FaultKind.COPY_META:
                return len(self._names) > 1
            case FaultKind.STRANGERS_META:
                return len(self._names) == 3
        return True

    async def play(self, fault: Fault) -> None:
        """Play the fault to its end: all meta servers run, and nothing is cut."""
        name = fault.first[0]
        match fault.kind:
            case FaultKind.TOPOLOGY:
                await self._topology(frozenset(zip(fault.first, fault.others, strict=False)), fault.seconds)
                return
        await asyncio.sleep(CALM_SECONDS)
        if not self._is_calm():
            return
        match fault.kind:
            case FaultKind.COPY_META:
                other = self._names[self._names.index(name) - 1]
                self._kill(name)
                await self._is_refused(name, self._files(other), f"a copy of the directory of {other}")
            case FaultKind.SET_BACK_EPOCHS:
                if (older := self._older_epochs(name)) is not None:
                    self._kill(name)
                    files = {**self._files(name), EPOCHS: older}
                    await self._is_refused(name, files, "a file epochs that is older than its last write")
            case FaultKind.SET_BACK_META:
                kept = self._kept[name]
                await self._set_back(name, kept[int(fault.amount * (len(kept) - 1))], fault.seconds)
            case FaultKind.STRANGERS_META:
                await self._strangers(name, fault.seconds)
        await self._until_calm()

    # --- directories -------------------------------------------------------------------------------------------------

    def _older_epochs(self, name: str) -> bytes | None:
        """The file ``epochs`` of an earlier term than that of the last write; None where there is none."""
        written = self._watch.state.term_of_writes(name)
        older = [kept for kept in self._kept[name] if kept.number == self._lost[name] and kept.term < written]
        return older[-1].files[EPOCHS] if older else None

    async def _is_refused(self, name: str, files: dict[str, bytes], what: str) -> None:
        """Start the server with these files, which must not be possible, and then with its own."""
        own = self._files(name)
        self._put(name, files)
        if await self._start(name):
            self._verdict.violate("I20", f"{name} starts with {what}")
            self._kill(name)
        self._put(name, own)
        await self._start(name)

    async def _set_back(self, name: str, kept: _EarlierDirectory, seconds: float) -> None:
        self._kill(name)
        newest, was_replaced = self._files(name), kept.number < self._lost[name]
        self._put(name, kept.files)
        self._watch.wiped(name)
        if await self._start(name):
            await self._cluster.until_or_not(
                lambda: self._leader_of(name) is not None, max(seconds, LED_WITHIN_SECONDS)
            )
            if self._leader_of(name) is not None:
                if was_replaced:
                    self._verdict.violate("I20", f"{name} takes part with a directory that it lost, and was replaced")
                return
            self._kill(name)
        if not was_replaced:
            self._verdict.violate("I20", f"{name} does not take part with its directory as it was earlier")
        self._put(name, newest)
        await self._start(name)

    async def _strangers(self, name: str, seconds: float) -> None:
        third = self._cluster.leader
        if third is None:
            return
        name, other = (name if name != third else next(n for n in self._names if n != third)), ""
        other = next(n for n in self._names if n not in (name, third))
        network = self._cluster.network
        self._kill(name)
        self.lose(name)
        network.partition([name], [other])
        await self._start(name)
        met = await self._cluster.until_or_not(lambda: self._leader_of(name) == third, LED_AGAIN_SECONDS)
        if met:
            await asyncio.sleep(CALM_SECONDS)
            network.partition([name], [third])
            await asyncio.sleep(max(seconds, CALM_SECONDS))
            self._kill(other)
            self.lose(other)
            self._kill(third)
        network.heal()
        if met:
            await self._start(other)
            await asyncio.sleep(max(seconds, LED_WITHIN_SECONDS))
            await self._start(third)

    def _files(self, name: str) -> dict[str, bytes]:
        disk = self._cluster.disk(name)
        assert disk is not None
        return dict(disk.files)

    def _put(self, name: str, files: dict[str, bytes]) -> None:
        disk = self._cluster.disk(name)
        assert disk is not None
        disk.files = dict(files)

    # --- processes ---------------------------------------------------------------------------------------------------

    def _kill(self, name: str) -> None:
        self._trace.note(Weight.FAULT, f"{name} is killed")
        self._watch.forget(name)
        self._cluster.kill(name)

    async def _start(self, name: str) -> bool:
        """Start it; False if it is refused, and ended."""
        self._trace.note(Weight.FAULT, f"{name} starts")
        try:
            await self._cluster.start(name)
        except SlotreeveError as error:
            self._trace.note(Weight.FAULT, f"{name} is refused: {error}")
            self._cluster.kill(name)
            return False
        return True

    def _leader_of(self, name: str) -> str | None:
        server = self._cluster.servers.get(name)
        return server.leadership().leader if isinstance(server, MetaServer) else None

    def _is_calm(self) -> bool:
        """Whether all meta servers run and follow one leader."""
        leaders = {self._leader_of(name) for name in self._names}
        return len(leaders) == 1 and None not in leaders and self._cluster.leader in leaders

    async def _until_calm(self) -> None:
        if not await self._cluster.until_or_not(self._is_calm, LED_AGAIN_SECONDS):
            self._verdict.violate("convergence", f"the meta servers follow no leader {LED_AGAIN_SECONDS:g} s later")

    # --- links -------------------------------------------------------------------------------------------------------

    async def _topology(self, topology: frozenset[tuple[str, str]], seconds: float) -> None:
        for source, target in sorted(topology):
            self._cluster.network.partition([source], [target], one_way=True)
        await asyncio.sleep(LED_WITHIN_SECONDS)
        possible = centres(self._names, topology)
        left = seconds
        while left > 0:
            leading = [name for name in self._names if self._leads(name)]
            if possible and not any(self._is_followed(name, topology) for name in leading):
                self._verdict.violate("I23", f"nobody leads its neighbours, although {', '.join(possible)} could")
                break
            if leading and not possible:
                self._verdict.violate("I23", f"{', '.join(leading)} leads without a majority")
                break
            await asyncio.sleep(SAMPLE_SECONDS)
            left -= SAMPLE_SECONDS
        self._cluster.network.heal()
        await self._until_calm()

    def _leads(self, name: str) -> bool:
        server = self._cluster.servers.get(name)
        return isinstance(server, MetaServer) and server.leadership().leading

    def _is_followed(self, leader: str, topology: frozenset[tuple[str, str]]) -> bool:
        return all(self._leader_of(name) == leader for name in neighbours(leader, self._names, topology))
