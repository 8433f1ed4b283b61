"""``slotreeve top``: looks at a cluster on virtual time, and what is shown of them."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console
from slotreeve.clock import LoopClock
from slotreeve.errors import Unreachable
from slotreeve.model.loads import SlotLoad
from slotreeve_cli.printing import print_json
from slotreeve_cli.top import LiveCluster, document
from slotreeve_cli.top_screen import MOST_PROBLEMS, Screen, busiest, head, print_activity, servers
from slotreeve_client.activity import Activity, BusySlot, ServerActivity
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LOOK = Activity(
    "meta-1",
    3,
    [
        ServerActivity("meta-1", "meta", "leads", lag_ms=1),
        ServerActivity("data-1", "data", "well", changes=1_234.5, registrations=7, leads=2, lag_ms=2),
        ServerActivity("session-1", "session", "does not answer"),
    ],
    [BusySlot(9, "data-1", SlotLoad(5, 50, 2.54))],
    ["session-1 is not well: \x1b[31mdoes not answer."],
)
NOTHING = Activity(None, None, [], [], ["SR202: no server answers"])


def test_the_head_says_who_leads_and_the_sums() -> None:
    assert head(LOOK, NOW) == (
        "03:04:05 UTC  meta-1 leads in term 3; publishes/s -, pushes/s -, registrations 7, clients -, queue -"
    )
    assert head(NOTHING, NOW).startswith("03:04:05 UTC  nobody leads; ")


def test_rows_have_whole_figures_from_ten_on() -> None:
    assert servers(LOOK)[1]["changes/s"] == 1234
    assert busiest(LOOK) == [{"slot": 9, "leader": "data-1", "writes/s": 2.5, "records": 5, "bytes": 50}]


def test_plain_tables_have_problems_in_sentences_and_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_activity(LOOK, NOW)
    print_activity(NOTHING, NOW)
    shown = capsys.readouterr().out
    assert "session-1 is not well: \\x1b[31mdoes not answer." in shown
    assert "busiest slots" in shown
    assert "no server is known" in shown
    assert "\x1b" not in shown


def test_json_is_one_line_with_null_for_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(document(LOOK, NOW))
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["at"] == "2026-01-02T03:04:05.000+00:00"
    assert told["totals"]["registrations"] == 7
    assert told["servers"][2]["publishes"] is None
    assert told["busiest"] == [{"slot": 9, "leader": "data-1", "records": 5, "bytes": 50, "writes": 2.54}]


def test_the_screen_is_given_back_and_shows_the_worst_problems_first() -> None:
    many = Activity(None, None, [], [], [f"problem {number}" for number in range(20)])
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=40, highlight=False)
    with Screen(console) as screen:
        screen.show(LOOK, NOW)
        screen.show(many, NOW)
    shown = out.getvalue()
    assert shown.index("\x1b[?1049h") < shown.index("problem 0") < shown.index("\x1b[?1049l")
    assert f"problem {MOST_PROBLEMS - 1}" in shown
    assert f"problem {MOST_PROBLEMS}" not in shown
    assert f"and {20 - MOST_PROBLEMS} more: slotreeve status" in shown


def test_looks_go_on_while_the_cluster_is_away_and_after_it_is_back() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            await cluster.ready()
            clock = LoopClock()
            transport = MemoryTransport(clock, "operator", cluster.network)
            watch = LiveCluster(transport, "slotreeve", [cluster.address("meta-1")], 2.0, 4, now=clock.now)
            first = await watch.begin()
            assert first.leader == "meta-1"
            assert first.total("publishes") is None
            leaders = []
            async for look in watch.looks():
                leaders.append(look.leader)
                if len(leaders) == 1:
                    assert look.total("publishes") == 0
                    cluster.kill("meta-1")
                elif len(leaders) == 2:
                    assert [problem.partition(":")[0] for problem in look.problems] == ["SR202"]
                    await cluster.start("meta-1")
                    await clock.sleep(5.0)
            assert leaders == ["meta-1", None, "meta-1", "meta-1"]
            await transport.close()

    run(scenario, seed=3)


def test_it_ends_between_two_looks_when_it_is_told_to() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            await cluster.ready()
            clock = LoopClock()
            transport = MemoryTransport(clock, "operator", cluster.network)
            watch = LiveCluster(transport, "slotreeve", [cluster.address("meta-1")], 3_600.0, None, now=clock.now)
            await watch.begin()
            clock.call_later(1.0, watch.stopping.set)
            assert [look async for look in watch.looks()] == []
            await transport.close()

    run(scenario, seed=3)


def test_a_cluster_that_is_not_there_at_the_beginning_is_an_error() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=1, session=1) as cluster:
            transport = MemoryTransport(LoopClock(), "operator", cluster.network)
            with pytest.raises(Unreachable):
                await LiveCluster(transport, "slotreeve", ["nowhere:1"], 1.0, 1).begin()
            await transport.close()

    run(scenario, seed=3)
