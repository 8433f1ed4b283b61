"""From the facts of an incident to a scenario: clients, churn, the symptom, and the limits."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ConfigError
from slotreeve_cli.options import Output
from slotreeve_cli.spark_seed import print_seed
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.recorded import Recording
from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.scenario_text import as_toml
from slotreeve_simulator.symptom import SYMPTOM
from slotreeve_spark.seed.clients import ClientHistory, Loss, client_histories
from slotreeve_spark.seed.facts import (
    Incident,
    RegistrationFact,
    SeedLimits,
    ServiceCounts,
    What,
)
from slotreeve_spark.seed.scenario import must_be_a_span, seed_of
from slotreeve_spark.seed.servers import seeded_servers

from tests.spark.incidents import QUIET, SECONDS, joined, left, with_members

LIMITS = SeedLimits()


# --- clients ---------------------------------------------------------------------------------------------------------


def fact(at: float, what: What, service: str = "a", count: int = 1, node: str = "session-x") -> RegistrationFact:
    return RegistrationFact(at, what, "c0ffee", service, node, count)


def history(*facts: RegistrationFact, incident: Incident | None = None) -> ClientHistory:
    incident = replace(incident or with_members(), clients=("c0ffee",), facts=facts)
    (found,) = client_histories(incident, seeded_servers(incident))
    return found


def test_a_client_is_there_with_what_was_alive_and_comes_with_what_it_published_first() -> None:
    there = history(fact(0, What.ALIVE, "a", 3), fact(0, What.ALIVE, "b"), fact(9, What.PUBLISHED, "b"))
    assert (there.came_at, there.publishes, there.lost) == (None, {"a": 3, "b": 1}, ())
    coming = history(fact(9, What.PUBLISHED, "a", 2), fact(10, What.PUBLISHED, "b"), fact(30, What.PUBLISHED, "b"))
    assert (coming.came_at, coming.publishes) == (9, {"a": 2, "b": 1})
    older_than_the_log = history(fact(9, What.RETURNED, "a", 2))
    assert (older_than_the_log.came_at, older_than_the_log.publishes) == (None, {"a": 2})


def test_a_client_died_before_its_registrations_expired() -> None:
    dead = history(fact(0, What.ALIVE, "a", 3), fact(20.3, What.EXPIRED, "a", 2), fact(20.4, What.EXPIRED, "a"))
    assert dead.lost == ((20.0, None),)
    assert dead.losses == (Loss(20.3, "a", 3),)


def test_a_client_loses_no_more_than_it_has_in_the_simulation() -> None:
    facts = [fact(0, What.ALIVE, "a"), fact(9, What.PUBLISHED, "a"), *(fact(at, What.EXPIRED) for at in (20.3, 20.4))]
    dead = history(*facts).bounded(10)  # what it published at 9 s is of the churn, which any client may publish
    assert (dead.losses, dead.loses) == ((Loss(20.3, "a", 1),), {"a": 1})


def test_what_expired_at_two_times_may_be_one_registration_or_two() -> None:
    facts = [fact(0, What.ALIVE, "a", 2), *(fact(at, What.EXPIRED) for at in (20.0, 40.0)), fact(30, What.RETURNED)]
    back = history(*sorted(facts, key=lambda each: each.at)).bounded(10)
    assert back.losses == (Loss(20.0, "a", 1), Loss(40.0, "a", 1))
    assert back.loses == {"a": 2}
    assert replace(back, publishes={"a": 1}).loses == {"a": 1}


def test_a_client_that_sends_registrations_later_stood_still() -> None:
    back = history(fact(0, What.ALIVE), fact(20.0, What.EXPIRED), fact(31.0, What.RETURNED))
    assert back.lost == ((10.0, 31.0),)  # it was silent for its lease before


def test_a_client_whose_registrations_the_data_servers_removed_died_with_its_session_server() -> None:
    incident = with_members(left(12.3, "session-x", "connection lost"))
    facts = (fact(0, What.ALIVE), fact(16.0, What.EXPIRED, node="data-a"))
    assert history(*facts, incident=incident).lost == ((12.0, None),)
    assert history(*facts).lost == ((13.0, None),)  # its session server lives: the grace of the data servers


def test_large_clients_are_bounded_and_so_are_their_losses() -> None:
    large = history(fact(0, What.ALIVE, "a", 300), fact(0, What.ALIVE, "b", 2), fact(20, What.EXPIRED, "a", 300))
    bounded = large.bounded(10)
    assert bounded.publishes == {"a": 10, "b": 2}
    assert bounded.losses == (Loss(20, "a", 10),)


# --- the scenario ----------------------------------------------------------------------------------------------------


def counts(service: str, **numbers: int) -> ServiceCounts:
    return ServiceCounts(service, {What(what): number for what, number in numbers.items()})


def of_client(client: str, *facts: RegistrationFact) -> Iterable[RegistrationFact]:
    return (replace(each, client=client) for each in facts)


def outage() -> Incident:
    """A session server dies, then the client 'dead' with three instances of ``a`` and one of ``b``; one comes."""
    facts = [
        *of_client("dead", fact(0, What.ALIVE, "a", 3), fact(0, What.ALIVE, "b")),
        *of_client("well", fact(0, What.ALIVE, "a"), fact(0, What.ALIVE, "b", 4)),
        *of_client("new", fact(12.0, What.PUBLISHED, "b", 2)),
        *of_client("dead", fact(25.3, What.EXPIRED, "a", 3), fact(25.3, What.EXPIRED, "b")),
    ]
    return replace(
        with_members(left(20.3, "session-x", "connection lost"), joined(31.0, "session-x"), joined(2.0, "session-y")),
        services=(counts("a", expired=3, republished=9), counts("b", expired=1, published=5, unpublished=2)),
        clients=("dead", "well", "new"),
        facts=tuple(sorted(facts, key=lambda each: each.at)),
        all_services=2,
        all_clients=3,
        slots=32,
        replicas=2,
    )


def recording(scenario: Scenario) -> Recording:
    assert scenario.recorded is not None
    return scenario.recorded


def test_an_outage_becomes_a_scenario_that_shows_its_symptom() -> None:
    seed = seed_of(outage(), LIMITS)
    found = recording(seed.scenario)
    assert seed.left_out == ()
    assert seed.scenario.nodes.settings == {"cluster.slots": 32, "cluster.replicas": 2}
    assert [(action.at, action.kind, action.node) for action in found.actions] == [
        (2.0, FaultKind.ADD_SESSION, "session-2"),
        (12.0, FaultKind.ADD_CLIENT, "client-5"),
        (20.0, FaultKind.CRASH_SESSION, "session-1"),
        (25.0, FaultKind.CRASH_CLIENT, "client-1"),
    ]
    assert [client.publishes for client in found.clients] == [{"a": 3, "b": 1}, {"a": 1, "b": 4}, {}, {}, {"b": 2}]
    assert [client.subscribes_to_all for client in found.clients] == [False, False, True, True, False]
    symptom = seed.scenario.symptom
    assert symptom is not None
    assert (symptom.service, symptom.lost) == ("a", 3)
    assert symptom.from_seconds < 25.3 < symptom.until_seconds
    result = simulate(seed.scenario, 0)
    assert result.violation is not None
    assert result.violation.invariant == SYMPTOM


def test_the_churn_of_a_service_is_counted_without_what_clients_came_with() -> None:
    churn = {each.service: each for each in recording(seed_of(outage(), LIMITS).scenario).churn}
    assert (churn["a"].publishes, churn["a"].republishes, churn["a"].unpublishes) == (0, 9, 0)
    assert (churn["b"].publishes, churn["b"].republishes, churn["b"].unpublishes) == (3, 0, 2)


def test_what_the_clients_of_a_service_unpublished_does_not_take_away_what_expired() -> None:
    there = [*of_client("dead", fact(0, What.ALIVE)), *of_client("well", fact(0, What.ALIVE))]
    dead = of_client("dead", fact(40.3, What.EXPIRED))
    incident = replace(
        with_members(),
        services=(counts("a", expired=1, unpublished=30),),
        clients=("dead", "well"),
        facts=(*there, *dead),
    )
    seed = seed_of(incident, LIMITS)
    assert [client.loses for client in recording(seed.scenario).clients[:2]] == [{"a": 1}, {}]
    result = simulate(seed.scenario, 0)
    assert result.violation is not None
    assert result.violation.text.startswith("client-")


def test_the_symptom_is_of_the_service_that_is_asked_for() -> None:
    symptom = seed_of(outage(), LIMITS, "b").scenario.symptom
    assert symptom is not None
    assert (symptom.service, symptom.lost) == ("b", 1)
    with pytest.raises(ConfigError, match="--service c: no instance of it expired"):
        seed_of(outage(), LIMITS, "c")


def test_without_a_loss_there_is_no_symptom() -> None:
    quiet = replace(outage(), facts=tuple(each for each in outage().facts if each.what is not What.EXPIRED))
    assert seed_of(quiet, LIMITS).scenario.symptom is None


def test_losses_far_apart_are_not_one_symptom() -> None:
    facts = [fact(0, What.ALIVE, "a", 5), *(fact(at, What.EXPIRED) for at in (10.0, 18.0, 21.0, 40.0, 55.0))]
    apart = replace(QUIET, services=(counts("a", expired=5),), clients=("c0ffee",), facts=tuple(facts))
    symptom = seed_of(apart, LIMITS).scenario.symptom
    assert symptom is not None
    assert (symptom.lost, symptom.from_seconds, symptom.until_seconds) == (2, 5.0, 28.0)


def test_what_does_not_fit_is_left_out_and_said_so() -> None:
    large = replace(outage(), all_services=1_002, all_clients=40, slots=16_384)
    seed = seed_of(large, SeedLimits(registrations=6, calls=8))
    assert seed.left_out == (
        "1,000 of 1,002 services: those that lost and changed least",
        "37 of 40 clients of these services: those that lost and changed least",
        "6 of 11 registrations: all beyond 1 of a client and service",
        "7 of 14 calls, of each service the same share",
        "16,128 of 16,384 slots",
    )
    assert sum(sum(client.publishes.values()) for client in recording(seed.scenario).clients) <= 6
    assert seed.scenario.symptom is not None
    assert seed.scenario.symptom.lost == 1  # no more than the simulated client has


@pytest.mark.parametrize("columns", [40, 80])
def test_a_seed_is_shown_in_lines_that_fit_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    seed = seed_of(replace(outage(), all_services=1_002), LIMITS)
    print_seed(seed, Path("x.toml"), "slotreeve sim run --scenario x.toml", Output.TABLE)
    shown = capsys.readouterr().out
    assert all(len(line) <= columns for line in shown.splitlines()), shown
    words = " ".join(shown.split())
    assert "crash_client" in words
    assert "symptom: subscribers see a lose 3 or more instances within 10 s" in words
    assert "left out: 1,000 of 1,002 services" in words
    assert "play it: slotreeve sim run --scenario x.toml" in words


def test_a_seed_with_very_much_in_it_shows_the_beginning_and_one_with_nothing_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = [joined(float(number), "session-x") for number in range(1, 30)]
    print_seed(seed_of(with_members(*events), LIMITS), Path("x.toml"), "play", Output.TABLE)
    assert "... and 9 more in x.toml" in capsys.readouterr().out
    print_seed(seed_of(QUIET, LIMITS), Path("x.toml"), "play", Output.TABLE)
    shown = capsys.readouterr().out
    assert "no server or client joined or died" in shown
    assert "symptom: none, nothing expired" in shown


def test_a_seed_as_json_has_every_action_and_the_symptom(capsys: pytest.CaptureFixture[str]) -> None:
    print_seed(seed_of(outage(), LIMITS), Path("x.toml"), "play", Output.JSON)
    shown = json.loads(capsys.readouterr().out)
    assert [action["kind"] for action in shown["actions"]][-1] == "crash_client"
    assert (shown["scenario"], shown["play"], shown["symptom"]["lost"]) == ("x.toml", "play", 3)


NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize("seconds", [0.0, -1.0, 3_600.1])
def test_a_span_that_is_empty_or_longer_than_an_hour_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="the end must be later, at most an hour"):
        must_be_a_span(NOON, NOON + timedelta(seconds=seconds))


def test_a_span_of_an_hour_is_taken() -> None:
    assert must_be_a_span(NOON, NOON + timedelta(hours=1)) == (NOON, NOON + timedelta(hours=1))


times = st.floats(-10, SECONDS - 0.01).map(lambda at: round(at, 3))
inside = st.floats(0, SECONDS - 0.01).map(lambda at: round(at, 3))
SERVERS = st.sampled_from(["data-a", "data-b", "data-c", "session-x", "session-y"])
members = st.one_of(
    st.builds(joined, times, SERVERS),
    st.builds(left, times, SERVERS, st.sampled_from(["connection lost", "lease expired", "not seen"])),
)
facts = st.builds(
    RegistrationFact,
    inside,
    st.sampled_from([What.ALIVE, What.PUBLISHED, What.RETURNED, What.EXPIRED]),
    st.sampled_from(["c1", "c2"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["session-x", "data-a"]),
    st.integers(1, 50),
)
incidents = st.builds(
    lambda members, facts: replace(
        QUIET,
        members=tuple(sorted(members, key=lambda event: event.at)),
        facts=tuple(sorted(facts, key=lambda each: each.at)),
        services=(counts("a", published=500, republished=900), counts("b", unpublished=7)),
        clients=("c1", "c2"),
        all_services=2,
        all_clients=2,
    ),
    st.lists(members, max_size=12),
    st.lists(facts, max_size=12),
)


@given(incidents)
def test_every_incident_becomes_a_scenario_within_the_limits_that_its_file_holds(incident: Incident) -> None:
    limits = SeedLimits(registrations=20, calls=100)
    scenario = seed_of(incident, limits).scenario
    found = recording(scenario)
    assert sum(sum(client.publishes.values()) for client in found.clients) <= 20
    assert sum(each.publishes + each.republishes + each.unpublishes for each in found.churn) <= 100
    assert [action.at for action in found.actions] == sorted(action.at for action in found.actions)
    assert Scenario.model_validate(tomllib.loads(as_toml(scenario))) == scenario
