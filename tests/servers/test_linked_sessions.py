"""The session servers of a data server, and those that are gone."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve.model.nodes import Node, Role
from slotreeve_servers.data.gone_sessions import GoneSessions
from slotreeve_servers.data.sessions import SessionServers

from tests.servers.data_scene import SESSION_1, SESSION_2
from tests.servers.recording_outbox import a_peer

# --- session processes that are gone ---------------------------------------------------------------------------------


def linked(*processes: str) -> Callable[[str], bool]:
    return lambda process_id: process_id in processes


def test_a_session_process_is_gone_once_it_is_neither_a_member_nor_linked() -> None:
    gone = GoneSessions()
    gone.view_changed({"a", "b"}, {"b"})
    assert gone.look(linked("a"), 1.0) == ([], [])
    assert gone.since("a") is None
    assert gone.look(linked(), 2.0) == (["a"], [])
    assert gone.look(linked(), 3.0) == ([], [])
    assert gone.since("a") == 2.0


def test_a_session_process_that_is_linked_or_a_member_again_is_not_gone() -> None:
    gone = GoneSessions()
    gone.suspect(["a", "b"])
    assert gone.look(linked(), 1.0) == (["a", "b"], [])
    assert gone.look(linked("a"), 2.0) == ([], ["a"])
    assert gone.view_changed(set(), {"b"}) == ["b"]
    assert gone.look(linked(), 3.0) == (["a"], [])


def test_a_process_that_has_been_gone_for_long_is_forgotten() -> None:
    gone = GoneSessions()
    gone.suspect(["a"])
    gone.look(linked(), 1.0)
    gone.forget(1.0)
    assert gone.since("a") == 1.0
    gone.forget(1.1)
    assert gone.since("a") is None


# --- session servers -------------------------------------------------------------------------------------------------


def test_connected_processes_are_members_or_strangers() -> None:
    sessions = SessionServers()
    sessions.view_changed(
        [Node("session-1", Role.SESSION, "x:1", "session-1@1"), Node("s3", Role.SESSION, "x:2", "s3@1")]
    )
    sessions.opened(SESSION_1)
    sessions.opened(SESSION_2)
    assert sessions.connected_strangers() == {"session-2@1": SESSION_2}
    assert sessions.connected_members() == {"session-1@1": SESSION_1, "s3@1": None}
    sessions.closed(SESSION_2)
    assert sessions.connected_strangers() == {}
    assert sessions.is_member("s3@1")
    assert not sessions.is_member("session-2@1")


def test_the_newest_connection_of_a_process_counts() -> None:
    sessions = SessionServers()
    sessions.view_changed([Node("session-1", Role.SESSION, "x:1", "session-1@1")])
    newer = a_peer("session-1", Role.SESSION)
    sessions.opened(SESSION_1)
    sessions.opened(newer)
    assert sessions.connected_members() == {"session-1@1": newer}
    sessions.closed(SESSION_1)
    assert sessions.connected_members() == {"session-1@1": newer}
