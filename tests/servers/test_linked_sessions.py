"""The session servers of a data server, and those that are gone."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve.model.nodes import Node, Role
from slotreeve_servers.data.endings.sessions import SessionServers

from tests.servers.data_scene import SESSION_1, SESSION_2
from tests.servers.recording_outbox import a_peer

# --- session processes that are gone ---------------------------------------------------------------------------------


def linked(*processes: str) -> Callable[[str], bool]:
    return lambda process_id: process_id in processes


def members(sessions: SessionServers, *processes: str) -> list[str]:
    return sessions.view_changed([Node(process, Role.SESSION, "x:1", process) for process in processes])


def test_a_session_process_is_gone_once_it_is_neither_a_member_nor_linked() -> None:
    sessions = SessionServers()
    members(sessions, "a", "b")
    members(sessions, "b")
    assert sessions.look(linked("a")) == ([], [])
    assert not sessions.is_gone("a")
    assert sessions.look(linked()) == (["a"], [])
    assert sessions.look(linked()) == ([], [])
    assert (sessions.is_gone("a"), sessions.gone) == (True, {"a"})


def test_a_session_process_that_is_linked_or_a_member_again_is_not_gone() -> None:
    sessions = SessionServers()
    sessions.suspect(["a", "b"])
    assert sessions.look(linked()) == (["a", "b"], [])
    assert sessions.look(linked("a")) == ([], ["a"])
    assert members(sessions, "b") == ["b"]
    assert sessions.look(linked()) == (["a"], [])


def test_a_process_of_which_nothing_is_left_is_forgotten() -> None:
    sessions = SessionServers()
    sessions.suspect(["a", "b"])
    sessions.look(linked())
    sessions.forget({"a"})
    assert (sessions.is_gone("a"), sessions.gone) == (False, {"b"})
    assert sessions.look(linked("a", "b")) == ([], ["b"])


# --- session servers -------------------------------------------------------------------------------------------------


def test_connected_processes_are_members_or_strangers() -> None:
    sessions = SessionServers()
    sessions.view_changed(
        [Node("session-1", Role.SESSION, "x:1", "session-1@1"), Node("s3", Role.SESSION, "x:2", "s3@1")]
    )
    sessions.opened(SESSION_1)
    sessions.opened(SESSION_2)
    assert sessions.connected_strangers() == {"session-2@1": SESSION_2}
    assert sessions.with_clients() == {"session-1@1": SESSION_1, "s3@1": None}
    sessions.closed(SESSION_2)
    assert sessions.connected_strangers() == {}
    assert "s3@1" in sessions.members
    assert "session-2@1" not in sessions.members


def test_the_newest_connection_of_a_process_counts() -> None:
    sessions = SessionServers()
    sessions.view_changed([Node("session-1", Role.SESSION, "x:1", "session-1@1")])
    newer = a_peer("session-1", Role.SESSION)
    sessions.opened(SESSION_1)
    sessions.opened(newer)
    assert sessions.with_clients() == {"session-1@1": newer}
    sessions.closed(SESSION_1)
    assert sessions.with_clients() == {"session-1@1": newer}
