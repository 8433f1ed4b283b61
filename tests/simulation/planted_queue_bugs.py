"""Bugs in what processes do when a queue is full. See ``planted_bugs``."""

from __future__ import annotations

from slotreeve_client.connector import Connector
from slotreeve_client.core import ClientCore
from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.node.peers import Peers
from slotreeve_servers.session.push.due_pushes import DuePushes

from tests.simulation.planting import Patch, bug, replaced


@bug("a client sends on although its connection has no room", "narrow")
def _client_sends_without_room() -> Patch:
    return replaced(Connector, "has_room", property(lambda _self: True))


@bug("a record for which the session server had no room is not sent again", "narrow")
def _rejected_is_forgotten() -> Patch:
    return replaced(ClientCore, "retry", lambda self: self.postponed.take())


@bug("what a server can send later is sent although there is no room", "narrow", 13)
def _server_sends_without_room() -> Patch:
    return replaced(Peers, "has_room", lambda _self, _peer: True)


@bug("a client whose connection had no room catches up with nothing", "narrow")
def _crowded_clients_are_forgotten() -> Patch:
    return replaced(DuePushes, "_let_go_on", lambda self: self._crowded.clear())


@bug("the tombstones for which a connection had no room are not sent", "narrow")
def _rest_of_tombstones_is_lost() -> Patch:
    original = Streams._send_tombstones

    def send(self: Streams) -> None:
        original(self)
        self._tombstones.clear()

    return replaced(Streams, "_send_tombstones", send)
