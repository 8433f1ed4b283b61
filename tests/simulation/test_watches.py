"""The checks of what clients see, and of the order of slot tables."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from slotreeve import Slot, SlotTable
from slotreeve.model.nodes import Node, Role
from slotreeve_client import Provider, Publication
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import View
from slotreeve_simulator.clients_watch import ClientsWatch, Registration, Watcher, read
from slotreeve_simulator.followers import follower_difference
from slotreeve_simulator.servers_watch import given_up, table_order
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.spared import Core, Spared
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict


class Scene:
    """A watch with two registrations of one service, and a subscriber that saw both."""

    def __init__(self) -> None:
        trace = Trace(lambda: 0.0)
        self.verdict = RunVerdict(trace)
        self.version = 7
        self.watch = ClientsWatch(trace, self.verdict, version_of=lambda _: self.version)
        self.first, self.second = (self.register() for _ in range(2))
        self.watcher = Watcher(self.watch, "client-2", "service-1")
        self.watcher.seen = {0: 1, 1: 1}

    def register(self) -> Registration:
        def publish(data: str) -> Publication:
            return Publication(data, "service-1", "", (data.encode(),), lambda _publication: None)

        made = self.watch.register("client-1", "service-1", publish)
        made.publication.settle(1, made.publication.data)
        return made

    def end(self, registration: Registration) -> None:
        registration.publication.unpublish()
        self.watch.ended(registration)
        registration.publication.settle(registration.publication.version, None)
        self.watch.look()

    def broken(self) -> str | None:
        return None if self.verdict.violation is None else self.verdict.violation.invariant


def in_a_scene(story: Callable[[Scene], None]) -> None:
    async def scenario() -> None:
        story(Scene())

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("seen", "invariant"), [({0: 1, 1: 1}, None), ({0: 2, 1: 1}, None), ({0: 1}, "I7"), ({0: 1, 1: 0}, "I10")]
)
def test_a_push_may_not_lose_a_live_registration_or_go_back(seen: dict[int, int], invariant: str | None) -> None:
    def story(scene: Scene) -> None:
        scene.watch.compare(scene.watcher, seen, set(), 7)
        assert scene.broken() == invariant

    in_a_scene(story)


def test_at_one_version_all_clients_see_the_same() -> None:
    def story(scene: Scene) -> None:
        other = Watcher(scene.watch, "client-3", "service-1")
        for version, seen in ((7, {0: 1, 1: 1}), (8, {0: 1, 1: 1}), (9, {0: 1})):
            scene.watch.pushed(scene.watcher, version, seen)
        scene.watch.pushed(other, 8, {0: 1, 1: 1})
        assert scene.broken() is None
        scene.watch.pushed(other, 9, {0: 1, 1: 1})
        assert scene.broken() == "I11"

    in_a_scene(story)


def test_a_client_that_reads_late_may_see_what_was_so_before_the_end() -> None:
    def story(scene: Scene) -> None:
        scene.end(scene.second)
        scene.watch.compare(scene.watcher, {0: 1, 1: 1}, {1}, 6)
        assert scene.broken() is None
        scene.watch.compare(scene.watcher, {0: 1, 1: 1}, {1}, 8)
        assert scene.broken() == "I10"

    in_a_scene(story)


def test_a_registration_that_has_ended_may_disappear_but_not_come_back() -> None:
    def story(scene: Scene) -> None:
        scene.end(scene.second)
        scene.watch.compare(scene.watcher, {0: 1}, set(), 7)
        assert scene.broken() is None
        scene.watch.compare(scene.watcher, {0: 1, 1: 1}, {1}, 7)
        assert scene.broken() == "I10"

    in_a_scene(story)


@pytest.mark.parametrize(
    ("spared", "client", "loss", "age", "ghost"),
    [
        (Spared.DATA, "client-1", "I7", "I10", "I10"),
        (Spared.SESSIONS, "client-1", "I7", "I10", "I10"),
        (Spared.HOLDERS, "client-1", "I7", None, None),
        (Spared.LIVES, "client-1", None, None, "I10"),
        (Spared.DATA, "client-3", None, None, None),
        (Spared.NOBODY, "client-3", None, None, None),
    ],
)
def test_what_a_client_that_is_not_spared_loses_is_no_violation(
    spared: Spared, client: str, loss: str | None, age: str | None, ghost: str | None
) -> None:
    def loses(scene: Scene) -> None:
        scene.watch.compare(scene.watcher, {}, set(), 7)
        assert scene.broken() == loss

    def goes_back(scene: Scene) -> None:
        scene.watch.compare(scene.watcher, {0: 0, 1: 1}, set(), 7)
        assert scene.broken() == age

    def comes_again(scene: Scene) -> None:
        scene.end(scene.second)
        scene.watch.compare(scene.watcher, {0: 1, 1: 1}, {1}, 7)
        assert scene.broken() == ghost

    for story in (loses, goes_back, comes_again):

        def with_core(scene: Scene, story: Callable[[Scene], None] = story) -> None:
            scene.watch.core = Core(spared, clients=frozenset({client}))
            story(scene)

        in_a_scene(with_core)


def test_a_read_must_hold_what_was_stored_before_and_nothing_that_had_ended() -> None:
    def story(scene: Scene) -> None:
        before = scene.watch.stored("service-1")
        assert before == ({0, 1}, set())
        scene.watch.answered("client-2", "service-1", before, {0: 1, 1: 1})
        assert scene.broken() is None
        scene.end(scene.second)
        scene.watch.answered("client-2", "service-1", scene.watch.stored("service-1"), {0: 1, 1: 1})
        assert scene.broken() == "I10"

    def lost(scene: Scene) -> None:
        scene.watch.answered("client-2", "service-1", scene.watch.stored("service-1"), {0: 1})
        assert scene.broken() == "I7"

    in_a_scene(story)
    in_a_scene(lost)


def test_the_difference_names_what_is_missing_what_is_left_and_what_is_old() -> None:
    def story(scene: Scene) -> None:
        third = scene.register()
        assert scene.watch.expected("service-1") == {0: 1, 1: 1, 2: 1}
        assert scene.watch.difference({0: 1}, {0: 1}) is None
        assert scene.watch.difference({0: 1, 2: 2}, {1: 1, 2: 1}) == (
            "does not see 0.1 of client-1 in service-1; still sees 1.1 of client-1 in service-1; "
            f"sees an old state of {third.payload} of client-1 in service-1"
        )

    in_a_scene(story)


def test_payloads_are_read_as_serial_and_count() -> None:
    assert read((Provider("a", "", (b"3.7",)), Provider("b", "", (b"12.1",)))) == {3: 7, 12: 1}


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        (SlotTable(5, (Slot(0, "a", 3, ()),)), None),
        (SlotTable(9, (Slot(0, "b", 9, ()),)), None),
        (SlotTable(4, (Slot(0, "a", 3, ()),)), "the epoch fell from 5 to 4"),
        (SlotTable(5, (Slot(0, "a", 3, ("b",)),)), "there are two tables of epoch 5"),
        (SlotTable(6, ()), "there were 1 slots and are 0"),
        (SlotTable(6, (Slot(0, "a", 2, ()),)), "slot 0: the leader epoch fell from 3 to 2"),
        (SlotTable(6, (Slot(0, "b", 3, ()),)), "slot 0 went from a to b under leader epoch 3"),
    ],
)
def test_a_table_that_may_not_follow_is_reported_with_the_reason(after: SlotTable, problem: str | None) -> None:
    before = SlotTable(5, (Slot(0, "a", 3, ()),))
    assert table_order(before, after) == problem
    assert table_order(SlotTable(), after) is None


@pytest.mark.parametrize(
    ("live", "now", "is_given_up"),
    [
        ("bc", Slot(0, "c", 2, ("b",)), True),
        ("bc", Slot(0, "b", 2, ("c",)), False),
        ("c", Slot(0, "c", 2, ()), False),
        ("abc", Slot(0, "c", 2, ("a",)), False),
    ],
    ids=["to an outsider", "to the follower", "no follower lives", "the leader lives"],
)
def test_a_slot_whose_leader_died_belongs_to_a_follower_that_lives(live: str, now: Slot, is_given_up: bool) -> None:
    nodes = {name: Node(name, Role.DATA, f"{name}:1", f"{name}@1") for name in "abc"}
    before = View(1, 1, SlotTable(1, (Slot(0, "a", 1, ("b",)),)), data=list(nodes.values()), sessions=[])
    after = View(2, 1, SlotTable(2, (now,)), data=[nodes[name] for name in live], sessions=[])
    expected = "slot 0 lost a and went to c; b followed it" if is_given_up else None
    assert given_up(before, after) == expected


def test_a_follower_that_keeps_what_its_leader_removed_is_a_difference() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client = cluster.client()
            client.publish("s", "1")
            await client.flush()
            await asyncio.sleep(1.0)
            assert follower_difference(cluster) is None
            for name in ("data-1", "data-2", "data-3"):
                for slot in cluster.data(name).core.slots.led():
                    slot.store.services.clear()
            assert "which follows slot" in (follower_difference(cluster) or "")

    run(scenario, seed=1)
