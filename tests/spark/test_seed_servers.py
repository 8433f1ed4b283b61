"""From the facts of an incident to the servers of a scenario: which there were, and what happened to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from slotreeve_spark.seed.facts import (
    ProcessLife,
    RecordedLeader,
)
from slotreeve_spark.seed.servers import SeededServers, seeded_servers

from tests.spark.incidents import QUIET, joined, left, with_members


def acts(servers: SeededServers) -> list[tuple[float, str, str, float]]:
    return [(action.at, str(action.kind), action.node, action.seconds) for action in servers.actions]


def test_servers_are_numbered_by_role_and_there_is_one_of_each_at_least() -> None:
    servers = seeded_servers(with_members(joined(-80.0, "data-10")))
    assert servers.sizes == {"meta": 1, "data": 3, "session": 1}
    assert servers.names == {
        "data-a": "data-1",
        "data-b": "data-2",
        "data-10": "data-3",
        "session-x": "session-1",
    }
    assert seeded_servers(QUIET).sizes == {"meta": 1, "data": 1, "session": 1}


@pytest.mark.parametrize(
    ("reason", "kind", "earlier"),
    [
        ("connection lost", "crash_data", 0.3),
        ("lease expired", "pause", 5.0),
        ("not seen", "crash_data", 1.0),
        ("is not back from its restart", "stop_server", 30.0),
    ],
)
def test_a_server_went_away_before_the_meta_leader_removed_it(reason: str, kind: str, earlier: float) -> None:
    incident = with_members(left(40.0, "data-b", reason), joined(47.5, "data-b"))
    assert acts(seeded_servers(incident)) == [(40.0 - earlier, kind, "data-2", round(7.5 + earlier, 3))]


def test_a_server_that_does_not_come_back_is_away_to_the_end() -> None:
    incident = with_members(left(20.3, "session-x", "connection lost"))
    assert acts(seeded_servers(incident)) == [(20.0, "crash_session", "session-1", 40.0)]


def test_a_server_that_joins_is_added_and_may_die() -> None:
    incident = with_members(joined(5.0, "data-c"), left(20.3, "data-c", "connection lost"), joined(30.0, "data-c"))
    assert acts(seeded_servers(incident)) == [(5.0, "add_data", "data-3", 55.0), (20.0, "crash_data", "data-3", 10.0)]


def test_a_member_that_joins_again_was_replaced_by_another_process() -> None:
    incident = with_members(joined(5.0, "session-x"))
    assert acts(seeded_servers(incident)) == [(4.0, "crash_session", "session-1", 1.0)]


def test_a_server_that_leaves_had_joined_before_the_log_began() -> None:
    incident = replace(QUIET, members=(left(10.3, "data-q", "connection lost"),))
    servers = seeded_servers(incident)
    assert servers.sizes["data"] == 1
    assert acts(servers) == [(10.0, "crash_data", "data-1", 50.0)]


def test_what_happened_to_servers_before_the_incident_is_no_action() -> None:
    incident = with_members(joined(-50.0, "data-c"), left(-40.0, "data-c", "connection lost"))
    servers = seeded_servers(incident)
    assert servers.sizes["data"] == 2
    assert servers.actions == ()


def meta(node: str, first: float, last: float) -> ProcessLife:
    return ProcessLife(node, first, last, is_meta=True)


def test_a_meta_server_that_another_process_replaced_has_died() -> None:
    incident = replace(QUIET, processes=(meta("meta-a", -90, 10), meta("meta-b", -90, 50), meta("meta-a", 20, 50)))
    servers = seeded_servers(incident)
    assert servers.sizes["meta"] == 2
    assert acts(servers) == [(19.0, "crash_meta", "meta-1", 1.0)]


def test_a_meta_leader_has_died_that_wrote_nothing_once_another_one_led() -> None:
    leaders = (RecordedLeader(-80, "meta-a"), RecordedLeader(30, "meta-b"))
    dead = replace(QUIET, processes=(meta("meta-a", -90, 29), meta("meta-b", -90, 50)), leaders=leaders)
    assert acts(seeded_servers(dead)) == [(30.0, "crash_meta", "meta-1", 30.0)]
    deposed = replace(dead, processes=(meta("meta-a", -90, 31), meta("meta-b", -90, 50)))
    assert acts(seeded_servers(deposed)) == []
    back = replace(dead, processes=(*dead.processes, meta("meta-a", 36, 50)))
    assert acts(seeded_servers(back)) == [(30.0, "crash_meta", "meta-1", 6.0)]
