"""Frozen clients: what they have ends with their leases, and not before what had arrived is read."""

from __future__ import annotations

import pytest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Publish, ReplayEnded
from slotreeve_protocol.slot_messages import Presence
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.frozen_clients import FrozenClients
from slotreeve_servers.session.clients.leases import ClientLeases
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.records.registrations import Registrations
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import Writes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.core_scenes import SessionScene
from tests.servers.core_scenes import record as session_record
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.world import OneSlot

SERVICE = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


class Scene:
    """A session server with clients of one registration each, all connected at the same time; a lease is 2 s."""

    def __init__(self, count: int = 1) -> None:
        self.outbox, routes = RecordingOutbox(), Routes()
        self.writes = Writes(self.outbox, routes)
        limits = ClientLimits(SessionSettings())
        self.registrations = Registrations(self.outbox, "session-1@1", OneSlot(), self.writes, limits)
        peers = [a_peer(f"client-{number}", Role.CLIENT) for number in range(count)]
        self.clients = {peer: ConnectedClient(peer) for peer in peers}
        leases = ClientLeases(2.0)
        self.frozen = FrozenClients(self.outbox, leases, self.clients)
        for number, client in enumerate(self.clients.values()):
            record = Publisher(f"r{number}", SERVICE, 1, 1, "session-1@1", "", (b"here",))
            self.registrations.publish(client, Publish(1, [record]))
            leases.renewed(client, self.outbox.attended())
        self.outbox.end_turn()

    def closed(self) -> list[Peer | None]:
        return [effect.peer for effect in self.outbox.take("closed")]


def test_a_frozen_client_loses_its_connection_with_its_lease() -> None:
    scene = Scene()
    (client,) = scene.clients.values()
    scene.outbox.silence = {client.peer: 2.1}
    scene.outbox.advance(1.9)
    scene.frozen.look()
    scene.outbox.end_turn()
    assert scene.closed() == []
    scene.outbox.advance(0.2)
    scene.frozen.look()
    scene.outbox.end_turn()
    assert scene.closed() == [client.peer]


@pytest.mark.parametrize("is_silent", [False, True])
def test_that_a_client_with_records_has_left_is_told_to_all_slot_leaders_and_silence_has_no_linger(
    is_silent: bool,
) -> None:
    scene = SessionScene(client_lease_seconds=2.0, linger_seconds=1.0)
    peer = scene.client()
    scene.publish(peer, session_record("client-1"))
    scene.stored()
    deliver(scene.outbox, scene.core.handlers, peer, ReplayEnded())
    scene.outbox.end_turn()
    scene.outbox.take()
    if is_silent:
        scene.outbox.silence = {peer: 2.1}
        scene.outbox.advance(2.5)
        scene.outbox.end_turn()
        assert [effect.peer for effect in scene.outbox.take("closed")] == [peer]
        peer.silence_at_close = 2.1
    scene.core.closed(peer, "it is gone")
    scene.outbox.end_turn()
    scene.outbox.advance(0.5)
    scene.outbox.end_turn()
    told = [effect.what for effect in scene.outbox.effects if isinstance(effect.what, Presence)]
    assert [name for one in told for name in one.left] == ["client"]
    assert scene.lost() == (["client-1"] if is_silent else [])
    scene.outbox.advance(1.0)
    scene.outbox.end_turn()
    assert scene.lost() == ["client-1"]


def test_a_silent_client_is_not_ended_before_what_had_arrived_from_it_is_read() -> None:
    scene = Scene()
    (client,) = scene.clients.values()
    scene.outbox.advance(2.1)
    scene.outbox.silence = {client.peer: 2.1}
    scene.frozen.look()
    scene.outbox.end_one_turn()
    scene.outbox.silence = {client.peer: 0.0}  # its ping stood behind what others had sent
    scene.outbox.end_turn()
    assert scene.closed() == []
    assert list(client.records) == ["r0"]
    scene.outbox.advance(2.1)
    scene.outbox.silence = {client.peer: 2.1}
    scene.frozen.look()
    scene.outbox.end_turn()
    assert scene.closed() == [client.peer]


def test_a_client_that_left_meanwhile_is_not_closed_again() -> None:
    scene = Scene()
    (client,) = scene.clients.values()
    scene.outbox.advance(2.1)
    scene.outbox.silence = {client.peer: 2.1}
    scene.frozen.look()
    scene.outbox.end_one_turn()
    del scene.clients[client.peer]
    scene.outbox.end_turn()
    assert scene.closed() == []


def test_very_many_leases_that_are_due_together_are_looked_at_in_several_turns() -> None:
    scene = Scene(5)
    scene.outbox.advance(2.1)
    scene.outbox.silence, scene.outbox.turn_steps = dict.fromkeys(scene.clients, 2.1), 2
    scene.frozen.look()
    closed = []
    for _ in range(8):
        scene.outbox.end_one_turn()
        closed.append(len(scene.closed()))
    assert (sum(closed), max(closed)) == (5, 2)
