"""Rates from two samples; and samples of a whole cluster on virtual time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.clock import LoopClock
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_client.activity import (
    PUBLISHES,
    TOTALS,
    Activity,
    Sample,
    ServerActivity,
    Told,
    activity,
    rate,
    take_sample,
)
from slotreeve_client.condition import ClusterCondition, MetaSeen
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.meta_messages import ElectionIs, MemberIs, Members, View
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

DATA = Node("data-1", Role.DATA, "data-1:1", "d1")
SESSION = Node("session-1", Role.SESSION, "session-1:1", "s1")
VIEW = View(3, 12, SlotTable(9, (Slot(0, "data-1", 1, ()), Slot(1, "data-1", 1, ()))), [DATA], [SESSION])
LEADS = MetaSeen("meta-1", "meta-1:1", ElectionIs("meta-1", "fle", "fle", 0, "meta-1", 3))
MEMBERS = Members(0, [MemberIs(DATA, 12, 0.5), MemberIs(SESSION, 12, 0.5)], [], VIEW, busiest={1: SlotLoad(5, 50, 2.5)})
WELL = ClusterCondition((LEADS,), MEMBERS, VIEW, {"data-1": {}, "session-1": {}})


def sample(at: float, publishes: int, process_id: str = "s1") -> Sample:
    session = {"publishes": publishes, "pushes": 2 * publishes, "clients": 3, "writes_waiting": 1, "loop_lag_ms": 4}
    data = {"registrations": 7, "slots_led": 2, "changes_sent": publishes, "loop_lag_ms": 2}
    told = {
        "meta-1": Told(at, {"loop_lag_ms": 1}),
        "data-1": Told(at, data, "d1"),
        "session-1": Told(at, session, process_id),
    }
    return Sample(WELL, told)


def of(name: str, seen: Activity) -> ServerActivity:
    (found,) = (server for server in seen.servers if server.name == name)
    return found


def test_rates_are_differences_by_the_time_between_two_samples() -> None:
    seen = activity(sample(10.0, 100), sample(12.0, 150))
    session = of("session-1", seen)
    assert (session.publishes, session.pushes, session.clients, session.queue, session.lag_ms) == (25.0, 50.0, 3, 1, 4)
    assert (session.changes, session.registrations) == (None, None)
    data = of("data-1", seen)
    assert (data.publishes, data.changes, data.registrations, data.leads) == (None, 25.0, 7, 2)
    assert of("meta-1", seen) == ServerActivity("meta-1", "meta", "leads", lag_ms=1)
    assert (seen.leader, seen.term, seen.problems) == ("meta-1", 3, [])
    assert {figure: seen.total(figure) for figure in TOTALS} == {
        "publishes": 25.0,
        "pushes": 50.0,
        "changes": 25.0,
        "registrations": 7,
        "clients": 3,
        "queue": 1,
    }


def test_busy_slots_have_their_leaders() -> None:
    (busy,) = activity(None, sample(1.0, 0)).busiest
    assert (busy.slot, busy.leader, busy.load.writes_per_second) == (1, "data-1", 2.5)


def test_the_first_sample_has_no_rates() -> None:
    first = activity(None, sample(10.0, 100))
    assert of("session-1", first).publishes is None
    assert of("session-1", first).clients == 3
    assert first.total("publishes") is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (sample(12.0, 30), 15.0),  # its counters fell: it was started again
        (sample(12.0, 130, "s2"), 65.0),  # they did not fall, and it is another process
    ],
)
def test_a_server_that_was_started_again_counts_from_nothing(after: Sample, expected: float) -> None:
    assert of("session-1", activity(sample(10.0, 100), after)).publishes == expected


def test_a_server_that_does_not_answer_has_no_figures_and_is_named() -> None:
    late = sample(12.0, 150)
    told = {name: found for name, found in late.told.items() if name != "session-1"}
    silent = Sample(replace(WELL, held={"data-1": {}}), told)
    seen = activity(sample(10.0, 100), silent)
    assert of("session-1", seen) == ServerActivity("session-1", "session", "does not answer")
    assert seen.problems == ["session-1 is not well: does not answer."]
    assert seen.total("publishes") is None
    back = activity(silent, sample(14.0, 200))
    assert of("session-1", back).publishes is None
    assert of("session-1", back).clients == 3


def test_a_version_that_lacks_a_counter_has_no_rate() -> None:
    assert rate(Told(1.0, {}), Told(2.0, {PUBLISHES: 5}), PUBLISHES) is None
    assert rate(Told(1.0, {PUBLISHES: 5}), Told(2.0, {}), PUBLISHES) is None


TOLD = st.builds(
    Told,
    st.floats(0, 1e9),
    st.dictionaries(st.just(PUBLISHES), st.integers(0, 2**63 - 1)),
    st.sampled_from(["", "one", "two"]),
)


@given(st.none() | TOLD, st.none() | TOLD)
def test_no_rate_is_negative_whatever_was_told(before: Told | None, after: Told | None) -> None:
    found = rate(before, after, PUBLISHES)
    assert found is None or found >= 0


def test_a_cluster_tells_what_its_clients_do() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=3, data=2, session=1) as cluster:
            await cluster.ready()
            clock = LoopClock()
            transport = MemoryTransport(clock, "operator", cluster.network)
            addresses = [cluster.address("meta-2")]
            subscriber, provider = cluster.client(), cluster.client()
            async with subscriber, provider:
                await subscriber.subscribe("a.B").ready()
                before = await take_sample(transport, "slotreeve", addresses, clock.now)
                publication = provider.publish("a.B", "0")
                await publication.acknowledged()
                await clock.sleep(0.5)
                for number in range(1, 20):
                    publication.republish(str(number))
                    await provider.flush()
                    await clock.sleep(0.5)
                after = await take_sample(transport, "slotreeve", addresses, clock.now)
                seen = activity(before, after)
                session = of("session-1", seen)
                seconds = after.told["session-1"].at - before.told["session-1"].at
                assert session.publishes == pytest.approx(20 / seconds)
                assert session.pushes == pytest.approx(20 / seconds)
                assert seen.total("changes") == pytest.approx(20 / seconds)
                assert seen.total("registrations") == 1
                assert {server.role: server.lag_ms is not None for server in seen.servers} == dict.fromkeys(
                    ["meta", "data", "session"], True
                )
                assert [busy.load.records for busy in seen.busiest] == [1]
                cluster.kill("session-1")
                await cluster.start("session-1")
                await cluster.ready()
                await clock.sleep(5.0)
                again = activity(after, await take_sample(transport, "slotreeve", addresses, clock.now))
                assert (of("session-1", again).publishes or 0.0) >= 0
            await transport.close()

    run(scenario, seed=5)
