"""The list of session servers: each client gets the newest one, some clients at a time."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve_protocol.client_messages import Sessions
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.session_list import SessionList

from tests.servers.recording_outbox import RecordingOutbox, a_peer


def node(name: str) -> Node:
    return Node(name, Role.SESSION, f"{name}:1", f"{name}@1")


FIRST, SECOND = Sessions(["session-1:1"]), Sessions(["session-2:1"])


def test_a_list_that_has_not_changed_is_not_sent_again() -> None:
    outbox = RecordingOutbox()
    peers = [a_peer("client", Role.CLIENT)]
    sessions = SessionList(outbox)
    sessions.changed([node("session-1")], "", peers)
    sessions.changed([node("session-1")], "", peers)
    outbox.end_turn()
    assert outbox.messages(Sessions) == [FIRST]


def test_a_client_that_is_let_in_gets_the_newest_list() -> None:
    outbox = RecordingOutbox()
    sessions = SessionList(outbox)
    sessions.changed([node("session-1")], "", [])
    client = ConnectedClient(a_peer("client", Role.CLIENT))
    sessions.send_to(client)
    assert outbox.messages(Sessions, client.peer) == [FIRST]


def test_very_many_clients_get_a_newer_list_some_at_a_time_and_each_gets_it_once() -> None:
    outbox = RecordingOutbox(turn_steps=3)
    peers = [a_peer(f"client-{number}", Role.CLIENT) for number in range(8)]
    sessions = SessionList(outbox)
    sessions.changed([node("session-1")], "", peers)
    sent = []
    for _ in range(5):
        outbox.end_one_turn()
        sent.append(len(outbox.take("sent")))
    assert sent == [3, 3, 2, 0, 0]


def test_a_newer_list_takes_the_place_of_the_one_that_is_still_being_sent() -> None:
    outbox = RecordingOutbox(turn_steps=1)
    peers = [a_peer(f"client-{number}", Role.CLIENT) for number in range(2)]
    sessions = SessionList(outbox)
    sessions.changed([node("session-1")], "", peers)
    outbox.end_one_turn()
    sessions.changed([node("session-2")], "", peers)
    outbox.advance(1.0)
    early, late = outbox.take("sent"), peers[-1]
    assert [effect.what for effect in early if effect.peer is peers[0]] == [FIRST, SECOND]
    assert [effect.what for effect in early if effect.peer is late] == [SECOND]
