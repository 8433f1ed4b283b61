"""Faults of connections: of all that lead to one server, or of the link between two processes alone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from slotreeve.model.nodes import Role

from slotreeve_chaos.proxy import Proxy, ProxyCut
from slotreeve_chaos.targets import ChaosTargets

CUT_LEASES = (1.0, 5.0)
"""A cut between roles lasts so many leases: some are long enough that a server loses its membership."""
HERD = "herd"
"""Name of the process with many clients, as one end of a link."""


class ServerConnectionFaults:
    """Faults of all connections that lead to one server."""

    def __init__(self, targets: ChaosTargets, proxies: Mapping[str, Sequence[Proxy]]) -> None:
        self._targets, self._proxies = targets, proxies

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Every kind, by name."""
        return {
            "reset connections": self._reset,
            "stall both ways": lambda: self._cut("stall both ways", ProxyCut()),
            "stall one way": self._stall_one_way,
            "refuse connections": lambda: self._cut("refuse connections", ProxyCut(refuses=True)),
            "delay": self._delay,
            "throttle": self._throttle,
        }

    async def _reset(self) -> None:
        victim = self._targets.victim()
        with self._targets.recorder.fault("reset connections", victim.name):
            for proxy in self._proxies[victim.name]:
                proxy.reset()

    async def _stall_one_way(self) -> None:
        to_server = self._targets.rng.random() < 0.5
        await self._cut("stall one way", ProxyCut(to_server=to_server, to_client=not to_server))

    async def _cut(self, what: str, cut: ProxyCut) -> None:
        await self._with_proxies(what, self._targets.short_seconds(), lambda proxy: proxy.cut(cut))

    async def _delay(self) -> None:
        delay = self._targets.rng.uniform(0.005, 0.1)

        def change(proxy: Proxy) -> None:
            proxy.delay_seconds = delay

        await self._with_proxies("delay", 3.0, change)

    async def _throttle(self) -> None:
        def change(proxy: Proxy) -> None:
            proxy.bytes_per_second = 100_000

        await self._with_proxies("throttle", 3.0, change)

    async def _with_proxies(self, what: str, seconds: float, change: Callable[[Proxy], None]) -> None:
        victim = self._targets.victim()
        with self._targets.recorder.fault(what, f"{victim.name} {seconds:.1f} s"):
            for proxy in self._proxies[victim.name]:
                change(proxy)
            try:
                await asyncio.sleep(seconds)
            finally:
                for proxy in self._proxies[victim.name]:
                    proxy.heal()


def link_cuts(one: str, other: str, there: bool, back: bool) -> list[tuple[str, ProxyCut]]:
    """What stalls the link of two processes from ``one`` to ``other`` (``there``), and from ``other`` to ``one``
    (``back``): for the proxies of each, a cut of the connections that the other one made."""
    return [
        (other, ProxyCut(one, to_server=there, to_client=back)),
        (one, ProxyCut(other, to_server=back, to_client=there)),
    ]


class LinkFaults:
    """Faults of the links between two processes: the connections that either of them made to the other.

    Everything else that the two do is untouched. The herd only makes connections; it is reached through none.
    """

    def __init__(self, targets: ChaosTargets, proxies: Mapping[str, Sequence[Proxy]]) -> None:
        self._targets, self._proxies = targets, proxies

    def kinds(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Every kind, by name."""
        return {
            "stall link": lambda: self._one_link("stall link", True, True),
            "stall link one way": lambda: self._one_link("stall link one way", True, False),
            "refuse link": self._refuse_link,
            "cut sessions off from meta": self._cut_sessions_off,
            "cut data off from meta": self._cut_data_off,
            "cut herd off from session": self._cut_herd_off,
        }

    async def _one_link(self, what: str, there: bool, back: bool) -> None:
        one, other = self._pair()
        await self._stall(what, [(one, other)], there, back)

    async def _refuse_link(self) -> None:
        one, other = self._pair()
        seconds = self._targets.rng.uniform(*CUT_LEASES) * self._targets.lease_seconds
        with self._targets.recorder.fault("refuse link", f"{one} {other} {seconds:.1f} s"):
            await self._identify([(one, other)])
            self._refuse([(one, other)])
            try:
                await asyncio.sleep(seconds)
            finally:
                self._heal()

    async def _cut_sessions_off(self) -> None:
        """The links between session and data servers stay whole."""
        pairs = itertools.product(self._names(Role.SESSION), self._names(Role.META))
        await self._stall("cut sessions off from meta", pairs, True, True)

    async def _cut_data_off(self) -> None:
        """One data server; its links to session servers and other data servers stay whole."""
        pairs = itertools.product([self._targets.victim(Role.DATA).name], self._names(Role.META))
        await self._stall("cut data off from meta", pairs, True, True)

    async def _cut_herd_off(self) -> None:
        """The clients of the herd lose one session server, which serves others; they move all at once."""
        pair = (HERD, self._targets.victim(Role.SESSION).name)
        await self._stall("cut herd off from session", [pair], True, True)

    async def _stall(self, what: str, pairs: Iterable[tuple[str, str]], there: bool, back: bool) -> None:
        """Stall these links from the first to the second process (``there``) and from the second to the first
        (``back``). At the end what was stalled arrives late, or is lost together with its connections."""
        chosen = list(pairs)
        seconds = self._targets.rng.uniform(*CUT_LEASES) * self._targets.lease_seconds
        is_lost = self._targets.rng.random() < 0.5
        names = ", ".join(f"{one} {other}" for one, other in chosen)
        with self._targets.recorder.fault(what, f"{names} {seconds:.1f} s, then {'lost' if is_lost else 'late'}"):
            await self._identify(chosen)
            for one, other in chosen:
                for server, cut in link_cuts(one, other, there, back):
                    self._cut(server, cut)
            try:
                await asyncio.sleep(seconds)
                if is_lost:
                    self._refuse(chosen)
            finally:
                self._heal()

    def _refuse(self, pairs: Iterable[tuple[str, str]]) -> None:
        for one, other in pairs:
            self._cut(other, ProxyCut(one, refuses=True))
            self._cut(one, ProxyCut(other, refuses=True))

    async def _identify(self, pairs: Iterable[tuple[str, str]]) -> None:
        names = sorted(set(itertools.chain.from_iterable(pairs)) & self._proxies.keys())
        await asyncio.gather(*(proxy.identify() for name in names for proxy in self._proxies[name]))

    def _cut(self, server: str, cut: ProxyCut) -> None:
        for proxy in self._proxies.get(server, ()):
            proxy.cut(cut)

    def _heal(self) -> None:
        for proxy in itertools.chain.from_iterable(self._proxies.values()):
            proxy.heal()

    def _pair(self) -> tuple[str, str]:
        """Two servers with a link between them: every two but two session servers."""
        one = self._targets.victim()
        others = [server for server in self._targets.cluster.servers.values() if server is not one]
        if one.role is Role.SESSION:
            others = [server for server in others if server.role is not Role.SESSION]
        return one.name, self._targets.rng.choice(others).name

    def _names(self, role: Role) -> list[str]:
        return [server.name for server in self._targets.cluster.of(role)]
