"""The checks of copies of slots can fail, and tolerate what they must."""

from __future__ import annotations

import random

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import View
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.copies_watch import CopiesWatch
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict


def row(text: str, epoch: int = 1) -> Slot:
    """Such as ``a bc+d``: a leads, b and c follow, d learns."""
    leader, _, others = text.partition(" ")
    followers, _, learners = others.partition("+")
    return Slot(0, leader, epoch, tuple(followers), tuple(learners))


def watched(
    *story: tuple[str, str], replicas: int = 2, leaving: tuple[str, ...] = (), again: str = ""
) -> tuple[str, list[set[int]]]:
    """What the watch finds in a story of rows of slot 0 and the servers that live, and after each view the slots of
    which no member lived. ``again``: servers of which the last view has another process."""

    async def body(_rng: random.Random) -> tuple[str, list[set[int]]]:
        trace = Trace(lambda: 0.0)
        verdict = RunVerdict(trace)
        servers = ServersWatch(ScenarioCluster(Scenario(), 1), replicas, lambda: 0.0, trace, verdict)
        servers.leaving.update(leaving)
        watch = CopiesWatch(replicas, servers, verdict)
        lost = []
        for revision, (text, living) in enumerate(story, 1):
            is_last = revision == len(story)
            nodes = [
                Node(name, Role.DATA, name, f"{name}@{1 + (is_last and name in again)}") for name in sorted(living)
            ]
            servers.views[revision] = View(1, revision, SlotTable(revision, (row(text, revision),)), nodes, [])
            lost.append(watch.look())
        return str(verdict.violation or ""), lost

    return run(body, seed=1)


def test_a_server_that_was_not_in_sync_and_leads_is_a_violation_where_one_that_was_lives() -> None:
    assert "view 2: slot 0 is led by c, which was not in sync; b were" in watched(("a b+c", "abc"), ("c b", "bc"))[0]
    assert watched(("a b+c", "abc"), ("b +c", "bc")) == ("", [set(), set()])


def test_where_no_member_lives_any_server_may_lead_and_what_was_nowhere_else_is_lost() -> None:
    assert watched(("a b+c", "abcd"), ("c +d", "cd")) == ("", [set(), {0}])
    assert watched(("a b", "abc"), ("c", "c")) == ("", [set(), {0}])
    assert watched(("a", "a"), ("a", "a"), again="a") == ("", [set(), {0}]), "it was started again"


def test_a_leader_that_lives_may_hand_over_to_a_follower_and_to_a_learner_that_is_ready() -> None:
    assert watched(("a b", "ab"), ("b a", "ab"))[0] == ""
    assert watched(("a b+c", "abc"), ("c ba", "abc"))[0] == ""
    assert "is led by c" in watched(("a b", "abc"), ("c ab", "abc"))[0]


def test_a_follower_that_did_not_learn_is_a_violation() -> None:
    assert "has the follower c, which did not learn" in watched(("a b", "abc"), ("a bc", "abc"))[0]
    assert "has the follower b, which did not learn" in watched(("a b", "ab"), ("a b", "ab"), again="b")[0]
    assert watched(("a b+c", "abc"), ("a bc", "abc"))[0] == ""


def test_a_server_that_lives_is_dropped_only_where_enough_others_are_in_sync() -> None:
    assert "is dropped by b; in sync are a" in watched(("a b", "abc"), ("a +c", "abc"))[0]
    assert watched(("a b+c", "abc"), ("a c", "abc"))[0] == ""
    assert watched(("a b", "ac"), ("a +c", "ac"))[0] == "", "b is dead"
    assert watched(("a b", "abc"), ("a +bc", "abc"))[0] == "", "it learns again"
    assert watched(("a b", "abc"), ("a", "abc"), replicas=1)[0] == ""
    assert watched(("a b", "ab"), ("a", "ab"), leaving=("b",))[0] == ""


def test_in_sync_are_those_of_the_newest_view_and_live() -> None:
    async def body(_rng: random.Random) -> list[tuple[str, str]]:
        trace = Trace(lambda: 0.0)
        verdict = RunVerdict(trace)
        servers = ServersWatch(ScenarioCluster(Scenario(), 1), 2, lambda: 0.0, trace, verdict)
        watch = CopiesWatch(2, servers, verdict)
        assert watch.in_sync(0) == []
        nodes = [Node(name, Role.DATA, name, f"{name}@1") for name in "ac"]
        servers.views[1] = View(1, 1, SlotTable(1, (row("a b+c"),)), nodes, [])
        watch.look()
        return watch.in_sync(0)

    assert run(body, seed=1) == [("a", "a@1")]


def test_a_view_that_nobody_saw_is_said_and_does_not_end_the_watch_in_silence() -> None:
    async def body(_rng: random.Random) -> str:
        trace = Trace(lambda: 0.0)
        verdict = RunVerdict(trace)
        servers = ServersWatch(ScenarioCluster(Scenario(), 1), 2, lambda: 0.0, trace, verdict)
        watch = CopiesWatch(2, servers, verdict)
        servers.views[3] = View(1, 3, SlotTable(1, (row("a"),)), [], [])
        servers.newest = 3
        watch.look()
        return str(verdict.violation)

    assert "nobody saw view 1" in run(body, seed=1)
