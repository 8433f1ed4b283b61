"""Recorded incidents in scenarios: their checks, their plans, their symptom, and the text of their files."""

from __future__ import annotations

import asyncio
import random
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ConfigError
from slotreeve_cli.main import command_line
from slotreeve_conformance import virtual_time
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.plan import CallKind, plan
from slotreeve_simulator.recorded import ADDING, STRUCK_ROLES, Symptom
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import Scenario, load_scenario
from slotreeve_simulator.scenario_text import as_toml, toml_text
from slotreeve_simulator.shrink import shrink
from slotreeve_simulator.symptom import SYMPTOM, SymptomWatch
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict
from typer.testing import CliRunner

SECONDS = 20.0


def incident(lost: int = 3, **recorded: Any) -> dict[str, Any]:
    """Two clients that publish and two that watch. The first one dies, and with it three instances of ``a``."""
    return {
        "nodes": {"clients": 4},
        "faults": {"storm_seconds": SECONDS},
        "recorded": {
            "services": ["a", "b"],
            "clients": [
                {"publishes": {"a": 3, "b": 1}},
                {"publishes": {"b": 2}},
                {"subscribes": ["a", "b"]},
                {"subscribes_to_all": True},
                {"publishes": {"a": 2}},
            ],
            "actions": [
                {"at": 1.0, "kind": "add_client", "node": "client-5"},
                {"at": 2.0, "kind": "crash_session", "node": "session-2", "seconds": 5.0},
                {"at": 4.0, "kind": "crash_data", "node": "data-1", "seconds": 3.0},
                {"at": 9.0, "kind": "crash_client", "node": "client-1", "seconds": 6.0},
                {"at": 10.0, "kind": "crash_client", "node": "client-2", "seconds": 6.0},
                {"at": 11.0, "kind": "add_session", "node": "session-3", "seconds": 6.0},
            ],
            "churn": [{"service": "b", "publishes": 2, "republishes": 10, "unpublishes": 1}],
            **recorded,
        },
        "symptom": {"service": "a", "lost": lost, "from_seconds": 5.0, "until_seconds": 15.0},
    }


ADDED = {"at": 1.0, "kind": "add_client", "node": "client-5"}


def scenario(tables: dict[str, Any]) -> Scenario:
    return Scenario.model_validate(tables)


# --- the run ---------------------------------------------------------------------------------------------------------


def test_a_recorded_incident_shows_its_symptom_and_is_shrunk_to_the_death_that_causes_it() -> None:
    played = scenario(incident())
    result = simulate(played, 0)
    assert result.violation is not None
    assert result.violation.invariant == SYMPTOM
    assert "saw a lose 3 instances" in result.violation.text
    shrunk = shrink(played, result)
    kept = [fault for storm in shrunk.cut.apply(plan(played, 0, 1.0)) for fault in storm.faults]
    assert [(fault.kind, fault.first) for fault in kept] == [(FaultKind.CRASH_CLIENT, ("client-1",))]
    assert shrunk.cut.calls == 0.0


def test_without_the_death_the_symptom_is_not_seen_and_the_cluster_gets_well() -> None:
    tables = incident()
    del tables["recorded"]["actions"][3]
    result = simulate(scenario(tables), 0)
    assert result.violation is None
    assert len(result.faults) == 5


def test_an_added_client_that_dies_is_lost_with_what_it_published_and_both_actions_are_needed() -> None:
    actions = [
        ADDED,
        {"at": 2.0, "kind": "crash_session", "node": "session-1", "seconds": 3.0},
        {"at": 8.0, "kind": "crash_client", "node": "client-5", "seconds": 3.0},
    ]
    played = scenario(incident(lost=2, actions=actions))
    result = simulate(played, 3)
    assert result.violation is not None
    shrunk = shrink(played, result)
    assert shrunk.cut.only == (0, 2)


def test_a_client_that_stands_still_loses_its_instances_and_is_no_broken_invariant() -> None:
    actions = [ADDED, {"at": 1.0, "kind": "pause_client", "node": "client-1", "seconds": 14.0}]
    result = simulate(scenario(incident(actions=actions)), 0)
    assert result.violation is not None
    assert result.violation.invariant == SYMPTOM


def test_what_is_unpublished_is_no_loss() -> None:
    churn = [{"service": "a", "unpublishes": 40}]
    result = simulate(scenario(incident(lost=1, actions=[ADDED], churn=churn)), 0)
    assert result.violation is None


def test_what_expired_in_the_recording_is_not_unpublished_before() -> None:
    clients = [{"publishes": {"a": 3, "b": 1}, "loses": {"a": 2}}, *incident()["recorded"]["clients"][1:]]
    churn = [{"service": "a", "unpublishes": 40}]
    result = simulate(scenario(incident(lost=2, clients=clients, churn=churn)), 0)
    assert result.violation is not None
    assert "saw a lose 2 instances" in result.violation.text
    assert simulate(scenario(incident(lost=3, clients=clients, churn=churn)), 0).violation is None  # the third one was


def test_the_death_of_a_client_that_was_never_added_does_nothing() -> None:
    crash = {"at": 3.0, "kind": "crash_client", "node": "client-5"}
    late = {"at": 4.0, "kind": "add_client", "node": "client-5"}
    assert simulate(scenario(incident(actions=[crash, late])), 0).violation is None


def test_the_same_seed_is_the_same_run_and_another_seed_plays_the_same_actions() -> None:
    played = scenario(incident(lost=99))
    first, again, other = (simulate(played, seed) for seed in (1, 1, 2))
    assert first.trace_hash == again.trace_hash != other.trace_hash
    assert first.faults == other.faults


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_plan_is_one_storm_with_the_recorded_actions_in_order_and_the_counted_calls() -> None:
    (storm,) = plan(scenario(incident()), 7, minutes=9.0)
    assert [fault.at for fault in storm.faults] == [1.0, 2.0, 4.0, 9.0, 10.0, 11.0]
    assert [fault.number for fault in storm.faults] == list(range(6))
    assert Counter(call.kind for call in storm.calls) == {
        CallKind.PUBLISH: 2,
        CallKind.REPUBLISH: 10,
        CallKind.UNPUBLISH: 1,
    }
    assert {call.client for call in storm.calls} <= {0, 1}  # those that publish b
    assert [call.at for call in storm.calls] == sorted(call.at for call in storm.calls)
    assert all(0 <= call.at <= SECONDS for call in storm.calls)


# --- the symptom -----------------------------------------------------------------------------------------------------


def seen(symptom: Symptom | None, losses: list[tuple[float, str, str]], begin: float | None = 100.0) -> bool:
    """Whether the symptom is seen where instances of a service disappear for a client at these times of the run."""

    async def story(_rng: random.Random) -> bool:
        now = [0.0]
        verdict = RunVerdict(Trace(lambda: now[0]))
        watch = SymptomWatch(symptom, verdict, lambda: now[0])
        if begin is not None:
            now[0] = begin
            watch.begin()
        for at, client, service in losses:
            now[0] = at
            watch.lost(client, service)
        await asyncio.sleep(0)
        return verdict.violation is not None

    return virtual_time.run(story)


A_LOSES_TWO = Symptom(service="a", lost=2, within_seconds=5.0, from_seconds=10.0, until_seconds=20.0)


def test_a_symptom_is_seen_where_one_subscriber_sees_enough_losses_in_time() -> None:
    assert seen(A_LOSES_TWO, [(112.0, "client-1", "a"), (116.0, "client-1", "a")])


@pytest.mark.parametrize(
    "losses",
    [
        [(112.0, "client-1", "a")],
        [(112.0, "client-1", "a"), (117.5, "client-1", "a")],  # too far apart
        [(112.0, "client-1", "a"), (112.0, "client-2", "a")],  # two subscribers
        [(112.0, "client-1", "a"), (112.0, "client-1", "b")],  # another service
        [(108.0, "client-1", "a"), (111.0, "client-1", "a")],  # too early
        [(119.0, "client-1", "a"), (121.0, "client-1", "a")],  # too late
    ],
)
def test_a_symptom_is_not_seen_where_something_of_it_is_missing(losses: list[tuple[float, str, str]]) -> None:
    assert not seen(A_LOSES_TWO, losses)


def test_nothing_is_looked_for_without_a_symptom_or_before_the_recording_begins() -> None:
    losses = [(112.0, "client-1", "a"), (112.0, "client-1", "a")]
    assert not seen(None, losses)
    assert not seen(A_LOSES_TWO, losses, begin=None)


# --- files -----------------------------------------------------------------------------------------------------------


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """The incident with another value at a place."""
    tables = incident()
    inner: Any = tables
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    return tables


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (changed("recorded", "actions", 0, "kind", to="crash_all"), r"recorded\.actions\.0\.kind: Input should be"),
        (changed("recorded", "actions", 0, "kind", to="partition"), r"actions\.0: partition cannot be recorded; kinds"),
        (changed("recorded", "actions", 1, "node", to="data-1"), r"actions\.1: crash_session cannot strike data-1"),
        (changed("recorded", "actions", 1, "node", to="session-9"), r"actions\[1\]\.node: there is no session-9, and"),
        (changed("recorded", "actions", 0, "node", to="client-2"), r"actions\[0\]\.node: client-2 is there from the"),
        (changed("recorded", "actions", 2, "at", to=21.0), r"actions\[2\]\.at: 21 is after the end, \[faults\] storm_"),
        (changed("recorded", "actions", 2, "at", to=-1.0), r"recorded\.actions\.2\.at: Input should be greater"),
        (changed("recorded", "actions", 2, "sconds", to=1.0), r"recorded\.actions\.2\.sconds: Extra inputs"),
        (changed("recorded", "services", to=["a", "b", "a"]), r"recorded: services has 'a' twice"),
        (changed("recorded", "services", to=["a"]), r"recorded: 'b' is published, subscribed or changed, and is not"),
        (changed("recorded", "clients", 0, "loses", to={"c": 1}), r"recorded: 'c' is published, subscribed or"),
        (changed("recorded", "clients", 0, "publishes", to={"a": 20_000}), r"recorded: clients publish 20,004 reg"),
        (changed("recorded", "churn", 0, "republishes", to=20_000), r"recorded: churn has 20,003 calls; 20,000 are"),
        (changed("nodes", "clients", to=3), r"recorded\.clients: 5 are described, but there are 4, added ones incl"),
        (changed("symptom", "service", to="c"), r"symptom\.service: 'c' is not among recorded\.services"),
        (changed("symptom", "until_seconds", to=1.0), r"symptom: until_seconds must be greater than from_seconds"),
        (changed("faults", "storm_seconds", to=4_000.0), r"faults\.storm_seconds: a recording lasts at most 3600"),
        ({"symptom": {"service": "a", "lost": 1}}, r"symptom: a symptom is looked for in a recorded incident only"),
    ],
)
def test_a_recording_that_cannot_be_played_is_refused_with_file_and_key(
    tmp_path: Path, tables: dict[str, Any], says: str
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(toml_text(tables))
    with pytest.raises(ConfigError, match=rf"scenario {file}: .*{says}"):
        load_scenario(str(file))


def test_the_recorded_incident_of_the_manual_can_be_played_and_shows_its_symptom(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text()
    section = page.partition("## Recorded incidents")[2].partition("\n## ")[0]
    file = tmp_path / "incident.toml"
    file.write_text("\n".join(line.strip() for line in section.splitlines() if line.startswith("    ")))
    result = simulate(load_scenario(str(file)), 0)
    assert result.violation is not None
    assert "saw payments lose 5 instances" in result.violation.text


def test_the_command_says_whether_the_symptom_was_seen(tmp_path: Path) -> None:
    file = tmp_path / "my incident.toml"
    file.write_text(toml_text(incident()))
    seen = CliRunner().invoke(command_line("sim"), ["sim", "run", "--scenario", str(file)])
    assert seen.exit_code == 1, seen.output
    assert "shrunk in" in seen.output
    assert f"replay: slotreeve sim run --seed 0 --scenario '{file}' --only '3' --calls 0\n" in seen.output
    unseen = CliRunner().invoke(command_line("sim"), ["sim", "run", "--scenario", str(file), "--only", "1,2"])
    assert unseen.exit_code == 0, unseen.output
    assert "the symptom was not seen: no subscriber saw a lose 3 or more instances within 10 s" in unseen.output
    longer = CliRunner().invoke(command_line("sim"), ["sim", "sweep", "--scenario", str(file), "--minutes", "2"])
    assert longer.exit_code == 2
    assert "is a recorded incident" in longer.output


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
seconds = st.floats(0.001, SECONDS)


@st.composite
def recordings(draw: st.DrawFn) -> dict[str, Any]:
    services = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    some = st.sampled_from(services)
    kinds = draw(st.lists(st.sampled_from(sorted(set(STRUCK_ROLES) - ADDING)), max_size=4))
    actions = [
        {
            "at": draw(seconds),
            "kind": str(kind),
            "node": f"{draw(st.sampled_from(sorted(STRUCK_ROLES[kind])))}-1",
            "seconds": draw(seconds),
            "recorded_as": draw(names),
        }
        for kind in kinds
    ]
    return {
        "name": draw(names),
        "description": draw(names),
        "faults": {"storm_seconds": SECONDS},
        "nodes": {"settings": {"cluster.slots": draw(st.integers(1, 64)), draw(names): draw(names)}},
        "recorded": {
            "services": services,
            "clients": [
                {
                    "publishes": draw(st.dictionaries(some, st.integers(0, 9))),
                    "loses": draw(st.dictionaries(some, st.integers(0, 9))),
                    "subscribes": services,
                }
            ],
            "actions": actions,
            "churn": [{"service": draw(some), "republishes": draw(st.integers(0, 9))}],
        },
        "symptom": {"service": draw(some), "lost": draw(st.integers(1, 9))},
    }


@given(recordings())
def test_the_text_of_a_scenario_is_read_as_an_equal_scenario(tables: dict[str, Any]) -> None:
    written = scenario(tables)
    text = as_toml(written, ["what was left out:\nmuch"])
    assert text.startswith("# what was left out: much\n")
    assert Scenario.model_validate(tomllib.loads(text)) == written


def test_the_text_of_the_incident_is_legible() -> None:
    lines = as_toml(scenario(incident())).splitlines()
    assert "[[recorded.actions]]" in lines
    assert 'kind = "crash_client"' in lines
    assert "publishes = { a = 3, b = 1 }" in lines
