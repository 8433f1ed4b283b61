"""How a cluster is, in sentences; and asked of a whole cluster on virtual time."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest
from slotreeve.clock import LoopClock
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_client.condition import ClusterCondition, MetaSeen, cluster_condition
from slotreeve_client.delays import AllDelays
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.delay_messages import DelayPage, Lagging, ObjectiveWindow
from slotreeve_protocol.meta_messages import ElectionIs, MemberIs, MemberLeft, Members, Stopping, View
from slotreeve_protocol.orders import Orders
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

DATA = Node("data-1", Role.DATA, "data-1:1", "d1")
SESSION = Node("session-1", Role.SESSION, "session-1:1", "s1")
VIEW = View(3, 12, SlotTable(9, (Slot(0, "data-1", 1, ()), Slot(1, "data-1", 1, ()))), [DATA], [SESSION])
GONE = Slot(5, "data-9", 1, ())
LEADS = MetaSeen("meta-1", "meta-1:1", ElectionIs("meta-1", "fle", "fle", 0, "meta-1", 3))
FOLLOWS = MetaSeen("meta-2", "meta-2:1", ElectionIs("meta-2", "fle", "fle", 0, "meta-1", 3))
NOW_MS = 1_700_000_000_000
WELL = ClusterCondition(
    (LEADS, FOLLOWS),
    Members(NOW_MS, [MemberIs(DATA, 12, 0.5), MemberIs(SESSION, 12, 0.5)], [], VIEW),
    VIEW,
    {"data-1": {}, "session-1": {"clients": 3, "clients_behind": 0}},
    Orders(),
)


LAGS = Lagging("client-1", "10.0.0.9:1", "a.Service#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", 150.0, "it does not read")
LATE = DelayPage((), 0.25, 0.99, (ObjectiveWindow(3_600.0, 200, 9, 4.5),), worst=LAGS, is_burning=True)


def of_data(**changes: object) -> ClusterCondition:
    """The cluster with one data server that differs."""
    members = [MemberIs(DATA, 12, **{"heard_seconds": 0.5, **changes}), MemberIs(SESSION, 12, 0.5)]  # type: ignore[arg-type]
    return replace(WELL, members=Members(NOW_MS, members, [], VIEW))


def of_left(seconds_ago: float, name: str, said_so: bool = False, comes_back: bool = False) -> ClusterCondition:
    at_ms = NOW_MS - round(1000 * seconds_ago)
    left = MemberLeft(Node(name, Role.DATA, "a:1", "p"), at_ms, "connection lost", said_so, comes_back)
    assert WELL.members is not None
    return replace(WELL, members=Members(NOW_MS, WELL.members.members, [left], VIEW))


def test_of_a_quiet_cluster_there_is_nothing_to_say() -> None:
    assert WELL.problems() == []
    assert WELL.states() == {"data-1": "well", "session-1": "well"}
    assert WELL.leader == LEADS


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (of_data(heard_seconds=3.14), "data-1 is not well: silent for 3.1 s."),
        (of_data(doubt="connection lost", heard_seconds=9.0), "data-1 is not well: connection lost."),
        (of_data(stopping=Stopping.FOR_GOOD, unsettled=[1]), "data-1 is not well: draining, copying 1 slot."),
        (of_data(stopping=Stopping.FOR_A_RESTART, is_banned=True), "data-1 is not well: restarting, banned."),
        (replace(WELL, held={"session-1": {}}), "data-1 is not well: does not answer."),
        (
            replace(WELL, held={**WELL.held, "session-1": {"clients_behind": 2}}),
            "2 clients of session-1 read more slowly than their services change.",
        ),
        (
            replace(WELL, delays=AllDelays({"session-1": LATE}, {})),
            "session-1 pushes changes late: 4.5 % in the last 1 h took longer than 250 ms, of which 1 % may.",
        ),
        (
            replace(WELL, delays=AllDelays({"session-1": LATE}, {})),
            "client-1 at 10.0.0.9:1 has waited 2 min for a change of a.Service, says session-1: it does not read.",
        ),
        (replace(WELL, orders=Orders(push_stopped=True)), "Pushing is stopped by an order; slotreeve admin start-push"),
        (replace(WELL, orders=Orders(clients_off=frozenset({"c"}))), "1 client hidden by an order"),
        (of_left(60, "data-2"), "data server data-2 left at 22:12:20 UTC: connection lost."),
        (replace(WELL, view=None), "No meta server tells the slot table."),
        (
            replace(WELL, view=View(3, 12, SlotTable(9, tuple(Slot(n, None, 1, ()) for n in range(7))), [DATA], [])),
            "7 slots have no leader: 0, 1, 2, 3, 4 and 2 more.",
        ),
        (
            replace(
                WELL, view=View(3, 12, SlotTable(9, (Slot(0, "data-1", 1, ()), Slot(5, "data-9", 1, ()))), [DATA], [])
            ),
            "1 slot has a leader that is gone: 5.",
        ),
        (
            replace(WELL, metas=(LEADS, MetaSeen("meta-2", "meta-2:1", None, "refused"))),
            "meta-2 at meta-2:1 does not answer: refused.",
        ),
        (
            replace(of_data(heard_seconds=9.0), held={"session-1": {}}),
            "2 slots have a leader that is silent, so nobody reads or writes there: 0, 1.",
        ),
        (
            replace(
                WELL, members=Members(NOW_MS, [], [], VIEW, plan_fault="the balancer's plan is rejected: ValueError")
            ),
            "The slot table may stay as it is: the balancer's plan is rejected: ValueError.",
        ),
        (replace(WELL, members=None), "meta-1 leads and does not tell of its members; it may have an older version."),
    ],
)
def test_what_is_not_as_it_should_be_is_said_in_a_sentence(condition: ClusterCondition, said: str) -> None:
    assert any(sentence.startswith(said) for sentence in condition.problems()), condition.problems()


def test_where_heartbeats_are_rare_a_server_is_silent_for_longer_before_it_is_named() -> None:
    late = of_data(heard_seconds=12.0)
    assert late.members is not None
    assert late.problems() == ["data-1 is not well: silent for 12.0 s."]
    assert replace(late, members=msgspec.structs.replace(late.members, heartbeat_seconds=5.0)).problems() == []


def test_a_server_that_came_back_or_said_that_it_leaves_is_news_and_one_that_left_long_ago_is_forgotten() -> None:
    for condition in (of_left(60, "data-1"), of_left(60, "data-2", said_so=True)):
        assert condition.problems() == []
        assert len(condition.news()) == 1
    assert len(of_left(60, "data-2", said_so=True, comes_back=True).problems()) == 1
    assert of_left(60, "data-1", said_so=True, comes_back=True).problems() == []
    forgotten = of_left(4_000, "data-2")
    assert (forgotten.problems(), forgotten.news()) == ([], [])


def test_without_a_leader_that_is_said_first_and_the_others_are_unknown() -> None:
    nobody = MetaSeen("meta-1", "meta-1:1", ElectionIs("meta-1", "fle", "fle", 0, None, 3))
    condition = replace(WELL, metas=(nobody,), members=None)
    assert condition.problems()[0].startswith("No meta server leads")
    assert condition.states() == dict.fromkeys(["data-1", "session-1"], "unknown: no meta server leads")


def test_a_meta_server_that_is_left_alone_says_why_it_knows_no_leader() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=3, data=1, session=1) as cluster:
            await cluster.ready()
            alone = next(name for name in ("meta-1", "meta-2", "meta-3") if name != cluster.leader)
            for name in {"meta-1", "meta-2", "meta-3"} - {alone}:
                cluster.kill(name)
            clock = LoopClock()
            await clock.sleep(5.0)
            transport = MemoryTransport(clock, "operator", cluster.network)
            said = (await cluster_condition(transport, "slotreeve", [cluster.address(alone)])).problems()
            assert said[0].startswith("No meta server leads")
            (why,) = (sentence for sentence in said if sentence.startswith(f"{alone} knows no leader: "))
            assert why.endswith(" UTC.")
            assert "since" in why
            assert sum("does not answer" in sentence for sentence in said) == 2
            await transport.close()

    run(scenario, seed=5)


def test_a_killed_server_is_seen_to_die_and_then_named_with_the_reason() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=3, data=2, session=1) as cluster:
            await cluster.ready()
            clock = LoopClock()
            transport = MemoryTransport(clock, "operator", cluster.network)
            addresses = [cluster.address("meta-2")]

            async def seen() -> ClusterCondition:
                return await cluster_condition(transport, "slotreeve", addresses)

            well = await seen()
            assert well.problems() == []
            assert [meta.name for meta in well.metas] == ["meta-1", "meta-2", "meta-3"]
            again = await cluster_condition(transport, "slotreeve", addresses, before=well.view)
            assert again.view is well.view
            assert again.view is not None
            assert len(again.view.table.slots) > 0
            cluster.kill("data-1")
            dying = await seen()
            assert any("data-1 is not well: " in sentence for sentence in dying.problems())
            await clock.sleep(10.0)
            (said,) = (await seen()).problems()
            assert said.startswith("data server data-1 left at ")
            assert said.endswith(" UTC: connection lost.")
            await cluster.start("data-1")
            await cluster.ready()
            back = await seen()
            assert (back.problems(), back.news()) == ([], [said])
            await transport.close()

    run(scenario, seed=5)
