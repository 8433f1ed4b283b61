"""The checks of copies of slots can fail, and tolerate what they must."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from slotreeve.model.slots import Slot
from slotreeve_conformance.virtual_time import run
from slotreeve_servers.data.slots import HeldSlot
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.copies_watch import CopiesWatch
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict

STEP_SECONDS = 0.01


@dataclass(frozen=True)
class Moment:
    """Who leads and follows slot 0 under which leader epoch, which followers are in sync, and who runs."""

    leader: str
    epoch: int
    followers: tuple[str, ...]
    synced: tuple[str, ...] = ()
    living: tuple[str, ...] = ("a", "b", "c")
    complete_until: dict[str, float] = field(default_factory=dict)

    def held(self) -> dict[str, HeldSlot]:
        row = Slot(0, self.leader, self.epoch, self.followers)
        copies = {}
        for name in (self.leader, *self.followers):
            if name in self.living:
                copies[name] = HeldSlot(row, name == self.leader, synced=name in self.synced)
                copies[name].complete_until = self.complete_until.get(name, copies[name].complete_until)
        return copies


class WithoutB(ServersWatch):
    """The meta leader took b for gone."""

    def was_given_up(self, name: str, slot: int) -> bool:
        return name == "b"


def watched(
    *story: tuple[float, Moment], replicas: int = 2, leaves: bool = False, given_up: bool = False
) -> tuple[str, list[bool]]:
    """What the watch finds in a story of seconds and what is the case for so long, and for each part of it whether all
    complete copies were lost."""

    async def body(_rng: random.Random) -> tuple[str, list[bool]]:
        now = 0.0

        def clock() -> float:
            return now

        trace = Trace(clock)
        verdict = RunVerdict(trace)
        watch_of_servers = WithoutB if given_up else ServersWatch
        servers = watch_of_servers(ScenarioCluster(Scenario(), 1), replicas, clock, trace, verdict)
        servers.somebody_leaves = leaves
        watch = CopiesWatch(1.0, replicas, servers, clock, verdict)
        lost = []
        for seconds, moment in story:
            looks = []
            for _ in range(round(seconds / STEP_SECONDS)):
                now += STEP_SECONDS
                looks.append(watch.look(0, moment.held(), moment.living))
            lost.append(any(looks))
        return str(verdict.violation or ""), lost

    return run(body, seed=1)


BOTH_FOLLOW = Moment("a", 1, ("b", "c"), synced=("b",))
A_IS_DEAD = Moment("a", 1, ("b", "c"), living=("b", "c"))


def test_an_empty_follower_that_leads_in_the_place_of_a_complete_one_is_a_violation() -> None:
    empty_leads = Moment("c", 2, ("b",), living=("b", "c"))
    found, lost = watched((5, BOTH_FOLLOW), (0.5, A_IS_DEAD), (1, empty_leads))
    assert "c leads slot 0 without a complete copy; b had one 0.5" in found
    assert lost == [True, False, True], "the first leader of a slot has nothing either"


def test_the_complete_follower_may_lead() -> None:
    complete_leads = Moment("b", 2, ("c",), living=("b", "c"))
    assert watched((5, BOTH_FOLLOW), (0.5, A_IS_DEAD), (1, complete_leads)) == ("", [True, False, False])


def test_a_copy_that_was_complete_too_shortly_or_too_long_ago_may_be_passed_over() -> None:
    empty_leads = Moment("c", 2, ("b",), living=("b", "c"))
    nobody = Moment("a", 1, ("b", "c"))
    assert watched((5, nobody), (1, BOTH_FOLLOW), (0.5, A_IS_DEAD), (1, empty_leads))[0] == ""
    assert watched((5, BOTH_FOLLOW), (4, A_IS_DEAD), (1, empty_leads))[0] == ""


def test_where_all_complete_copies_are_lost_a_server_without_one_leads() -> None:
    c_leads = Moment("c", 2, (), living=("c",))
    assert watched((5, BOTH_FOLLOW), (0.5, Moment("a", 1, ("b", "c"), living=("c",))), (1, c_leads)) == (
        "",
        [True, False, True],
    )


def test_a_leader_whose_copy_was_complete_between_two_looks_has_lost_nothing() -> None:
    c_leads = Moment("c", 2, ("b",), complete_until={"c": 5.004})
    assert watched((5, BOTH_FOLLOW), (1, c_leads)) == ("", [True, False])


def test_a_living_server_that_drops_the_second_complete_copy_is_a_violation_unless_a_server_leaves() -> None:
    b_is_replaced = Moment("a", 1, ("c",))
    assert (
        "b drops its copy of slot 0; complete ones are left at ['a']"
        in watched((5, BOTH_FOLLOW), (1, b_is_replaced))[0]
    )
    assert watched((5, BOTH_FOLLOW), (1, b_is_replaced), leaves=True)[0] == ""
    assert watched((5, BOTH_FOLLOW), (1, b_is_replaced), replicas=1)[0] == ""


def test_a_copy_may_go_where_the_meta_leader_cannot_know_yet_that_another_one_has_died() -> None:
    all_synced = Moment("a", 1, ("b", "c"), ("b", "c"))
    b_is_dropped = Moment("a", 1, ("c",), living=("a", "b"))
    c_is_dead = Moment("a", 1, ("b", "c"), ("b",), living=("a", "b"))
    assert watched((5, all_synced), (0.3, c_is_dead), (1, b_is_dropped))[0] == ""
    assert "b drops its copy" in watched((5, all_synced), (2, c_is_dead), (1, b_is_dropped))[0]
    assert watched((5, all_synced), (1, Moment("a", 1, ("c",), living=("a", "b"))))[0] == ""


def test_a_server_that_was_cut_off_may_learn_late_that_it_was_given_up() -> None:
    b_is_replaced = Moment("a", 1, ("c",))
    assert watched((5, BOTH_FOLLOW), (1, b_is_replaced), given_up=True)[0] == ""


def test_a_copy_may_go_once_two_others_are_complete_and_with_the_death_of_its_server() -> None:
    all_synced, b_is_dead = Moment("a", 1, ("b", "c"), ("b", "c")), Moment("a", 1, ("b", "c"), living=("a", "c"))
    assert watched((5, all_synced), (1, Moment("a", 1, ("c",), ("c",))))[0] == ""
    assert watched((5, BOTH_FOLLOW), (1, b_is_dead), (1, Moment("a", 1, ("c",), living=("a", "c"))))[0] == ""
