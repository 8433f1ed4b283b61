"""Whatever happens to a minority of the directories: no acknowledged write is lost, and a centre is led (I3, I20, I23).

Hypothesis draws what happens, and shrinks it where something is broken. More is drawn in
``soak/test_fle_more_damage.py``.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import slotreeve_election_fle
from hypothesis import example, given, settings
from hypothesis import strategies as st
from slotreeve.errors import SlotreeveError, StorageError
from slotreeve.ports import Context, Election
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.election_directories import Files, put
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.topologies import is_led_under, links_of
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.disk import EPOCHS, Disk
from slotreeve_election_fle.vote import epoch_of

import tests.conformance.fle_disk_bugs  # noqa: F401 - adds its bugs
from tests.conformance.election_bugs import BUGS
from tests.election_fle.test_fle_lost_votes import votes
from tests.simulation.planting import replaced

PATIENCE_SECONDS = 40.0
SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class Step:
    """Something that happens: to the node ``node`` (a number, of all or of those whose disks are damaged)."""

    what: str
    node: int = 0
    other: int = 0


@dataclass(frozen=True)
class Story:
    """What happens to an ensemble of so many nodes. The first ``damaged`` of them, a minority, may lose their
    directories. If ``late``, the last one has never run when the others begin. At the end the links ``cut`` are."""

    nodes: int
    damaged: int
    late: bool
    steps: list[Step]
    cut: list[bool] = field(default_factory=list)
    one_way: bool = False


NODE = st.integers(0, 4)
STEPS = st.one_of(
    st.builds(Step, st.sampled_from(["kill", "start", "write", "write"]), NODE),
    st.builds(Step, st.sampled_from(["lose", "put back", "older epochs"]), NODE),
    st.builds(Step, st.sampled_from(["copy", "cut", "cut one way"]), NODE, NODE),
    st.sampled_from([Step("heal"), Step("wait"), Step("wait longer")]),
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    nodes = draw(st.sampled_from([3, 5]))
    return Story(
        nodes,
        draw(st.integers(1, nodes // 2)),
        draw(st.booleans()),
        draw(st.lists(STEPS, max_size=25)),
        draw(st.lists(st.booleans(), min_size=20, max_size=20)),
        draw(st.booleans()),
    )


class Teller:
    """Plays a story on an ensemble."""

    def __init__(self, ensemble: Ensemble, story: Story) -> None:
        self._ensemble, self._story = ensemble, story
        self._lost: dict[str, Files] = {}
        self._epochs: dict[str, bytes] = {}

    async def tell(self) -> None:
        """All steps; then all run and are linked, and later some links are cut for good."""
        names = self._ensemble.names
        await self._ensemble.start(*names[: len(names) - self._story.late])
        await self._ensemble.write(await self._ensemble.agreed(), "k", b"first")
        for name in self._ensemble.running:
            self._epochs[name] = self._ensemble.storages[name].files[EPOCHS]
        for step in self._story.steps:
            await self._step(step)
            self._ensemble.check()
        self._ensemble.network.heal()
        for name in names:
            if name not in self._ensemble.running:
                await self._ensemble.start(name)
        await asyncio.sleep(SETTLE_SECONDS)
        if 2 * sum(votes(self._ensemble, name) for name in names) <= len(names):
            assert not self._ensemble.leading()  # one that is late is as new as one that was lost: an operator decides
            return
        await self._ensemble.agreed(within_seconds=PATIENCE_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        self._ensemble.check()
        links = links_of(names) if self._story.one_way else [(a, b) for a, b in links_of(names) if a < b]
        cut = {link for link, is_cut in zip(links, self._story.cut, strict=False) if is_cut}
        both_ways = cut if self._story.one_way else cut | {(b, a) for a, b in cut}
        await is_led_under(self._ensemble, frozenset(both_ways))

    async def _step(self, step: Step) -> None:
        ensemble, names = self._ensemble, self._ensemble.names
        name, other = names[step.node % len(names)], names[step.other % len(names)]
        damaged = names[step.node % self._story.damaged]
        match step.what:
            case "kill" if name in ensemble.running:
                ensemble.kill(name)
            case "start" if name not in ensemble.running:
                await ensemble.start(name)
            case "write":
                await self._write()
            case "lose":
                if self._is_led_by_all(damaged):
                    self._lost[damaged] = self._files(damaged)
                self._end(damaged)
                put(ensemble, damaged)
            case "put back" if damaged in self._lost:
                await self._put_back(damaged)
            case "older epochs" if name in self._epochs:
                await self._older_epochs(name)
            case "copy":
                await self._copy(damaged, other)
            case "cut" | "cut one way" if name != other:
                ensemble.network.partition([name], [other], one_way=step.what != "cut")
            case "heal":
                ensemble.network.heal()
            case "wait":
                await asyncio.sleep(0.4)
            case "wait longer":
                await asyncio.sleep(3.0)
            case _:
                pass
        await asyncio.sleep(0.02)

    def _end(self, name: str) -> None:
        if name in self._ensemble.running:
            self._ensemble.kill(name)

    async def _write(self) -> None:
        for name in self._ensemble.leading():
            try:
                async with asyncio.timeout(2.0):
                    await self._ensemble.write(name, "k", b"%d" % self._ensemble.samples)
            except (SlotreeveError, TimeoutError):
                pass  # its outcome is not known

    async def _put_back(self, name: str) -> None:
        """The directory that was lost and replaced: nobody may take part with it."""
        lost = self._lost[name]
        was_replaced = self._is_led_by_all(name) and lost["identity"] != self._files(name)["identity"]
        self._end(name)
        own = self._files(name)
        put(self._ensemble, name, self._lost[name])
        await self._ensemble.start(name)
        await asyncio.sleep(3.0)
        assert not was_replaced or self._ensemble.election(name).leadership().leader is None, f"{name} was replaced"
        self._end(name)
        put(self._ensemble, name, own)

    def _files(self, name: str) -> Files:
        return dict(self._ensemble.storages[name].files)

    def _is_led_by_all(self, name: str) -> bool:
        """Whether the node has its vote again, and all know that its earlier directory counts no more."""
        leaders = {self._ensemble.election(each).leadership().leader for each in self._ensemble.running}
        is_whole = self._ensemble.running == self._ensemble.names and None not in leaders and len(leaders) == 1
        return is_whole and votes(self._ensemble, name)

    async def _older_epochs(self, name: str) -> None:
        """The first ``epochs`` of all, beside a log that has writes of later epochs: refused."""
        self._end(name)
        own = self._files(name)
        put(self._ensemble, name, own)
        ledger = Disk(self._ensemble.storages[name]).read_ledger()
        is_older = ledger.entries and epoch_of(ledger.entries[-1].zxid) > 1
        if is_older:
            put(self._ensemble, name, {**own, EPOCHS: self._epochs[name]})
            with pytest.raises(StorageError, match="an older file was put back"):
                await self._ensemble.start(name)
            self._ensemble.kill(name)
        put(self._ensemble, name, own)

    async def _copy(self, name: str, other: str) -> None:
        files = self._files(other)
        if name == other or "identity" not in files:
            return
        self._end(name)
        own = self._files(name)
        put(self._ensemble, name, files)
        with pytest.raises(StorageError, match=f"belongs to {other}"):
            await self._ensemble.start(name)
        self._ensemble.kill(name)
        put(self._ensemble, name, own)


def without(*names: str) -> Callable[[Context], Election]:
    def build(context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions(data_dir="data", begins_without=list(names)), context)

    return build


def tell(story: Story) -> None:
    """Play the story. Raises AssertionError if something is broken."""

    async def main(rng: random.Random) -> None:
        names = [f"meta-{number}" for number in range(1, story.nodes + 1)]
        build = without(*names[story.nodes - story.late :])
        async with Ensemble(build, Wires(), names, VirtualClock(), rng) as ensemble:
            await Teller(ensemble, story).tell()
            ensemble.check()

    run(main, 1)


LATE_AND_LOST = Story(
    3,
    1,
    True,
    [Step("write"), Step("lose", 0), Step("kill", 1), Step("start", 0), Step("start", 2), Step("wait longer")],
)
PUT_BACK = Story(3, 1, False, [Step("lose", 0), Step("start", 0), Step("wait longer"), Step("put back", 0)])
OLDER_EPOCHS = Story(3, 1, False, [Step("kill", 2), Step("wait longer"), Step("write"), Step("older epochs", 0)])
COPIED = Story(3, 1, False, [Step("copy", 0, 1)])
MIDDLE = [(1, 2), (1, 3), (2, 3), (3, 4), (3, 5)]
PAIRS = list(itertools.combinations(range(1, 6), 2))
THREE_AND_TWO = Story(5, 1, False, [], [pair not in MIDDLE for pair in PAIRS])


@settings(derandomize=True, max_examples=10)
@given(stories())
@example(LATE_AND_LOST)
@example(PUT_BACK)
@example(OLDER_EPOCHS)
@example(COPIED)
@example(THREE_AND_TWO)
def test_no_acknowledged_write_is_lost_and_a_centre_is_led(story: Story) -> None:
    tell(story)


@pytest.mark.parametrize(
    ("name", "story"),
    [
        ("knows_whom_it_met", LATE_AND_LOST),
        ("replaced_directory_is_taken", PUT_BACK),
        ("older_epochs_will_do", OLDER_EPOCHS),
        ("any_directory_will_do", COPIED),
        ("stands_without_links", THREE_AND_TWO),
    ],
)
def test_each_story_finds_the_defect_that_it_was_told_of_first(name: str, story: Story) -> None:
    # A link of one direction is no connection for long: that masks the last defect.
    with (
        replaced("slotreeve_election_fle.links", "SILENT_BEATS", 10**9),
        BUGS[name].make(),
        pytest.raises((AssertionError, pytest.fail.Exception)),
    ):
        tell(story)
