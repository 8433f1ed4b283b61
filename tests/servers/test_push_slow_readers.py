"""Subscribers that take their time to read a large service, while it changes."""

from __future__ import annotations

from collections import deque

import pytest
from slotreeve_protocol.client_messages import Push
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.push import HISTORY, OLD_STATES, PARTS_IN_FLIGHT
from slotreeve_servers.session.push.subscriber import IN_FLIGHT

from tests.servers.push_scene import Mirror, Scene, record


class Readers:
    """Subscribers that come one after the other while a large service changes all the time, and read slowly."""

    def __init__(self, changed_at_once: int) -> None:
        self.scene, self._changed_at_once, self._number = Scene(), changed_at_once, 0
        self.scene.outbox.part_bytes = 500
        self.scene.change(*[record(f"r{n}") for n in range(100)], whole=True)
        self.mirrors: dict[ConnectedClient, Mirror] = {}
        self.unread: dict[ConnectedClient, deque[Push]] = {}

    def come(self) -> ConnectedClient:
        client = self.scene.subscribe(f"c{len(self.mirrors)}")
        self.mirrors[client], self.unread[client] = Mirror(), deque()
        self.collect()
        return client

    def change(self) -> None:
        """The service changes by more than the history holds."""
        for _ in range(2 * HISTORY):
            self.scene.outbox.advance(2.0)
            first = self._number = self._number + 1
            changed = [(first + n) % 100 for n in range(self._changed_at_once)]
            self.scene.change(*[record(f"r{n}", b"%d" % first) for n in changed])
        self.collect()

    def collect(self) -> None:
        self.scene.outbox.end_turn()
        for client, unread in self.unread.items():
            unread += [one for one in self.scene.outbox.messages(Push, client.peer) if isinstance(one, Push)]
        self.scene.outbox.take()

    def read(self, client: ConnectedClient) -> bool:
        """The client reads a push; returns whether there was one."""
        if not self.unread[client]:
            return False
        push, copy = self.unread[client].popleft(), self.mirrors[client].copy
        self.mirrors[client].take(push)
        self.scene.receipt(client, push.version, copy.version, copy.parts)
        self.collect()
        return True

    @property
    def states(self) -> int:
        """The former states whose parts are on their way, and the present one."""
        return len({one.parted for one in self.scene.group.subscribers.values() if one.parted is not None})


@pytest.mark.parametrize("changed_at_once", [1, 60])
def test_few_former_states_are_kept_for_readers_that_acknowledge_nothing(changed_at_once: int) -> None:
    readers = Readers(changed_at_once)
    for _ in range(3 * OLD_STATES):
        readers.come()
        readers.change()
        assert readers.states <= OLD_STATES + 1
    assert all(len(unread) <= IN_FLIGHT + PARTS_IN_FLIGHT for unread in readers.unread.values())


@pytest.mark.parametrize("changed_at_once", [1, 60])
def test_slow_readers_come_to_the_present_state_once_the_service_changes_no_more(changed_at_once: int) -> None:
    readers = Readers(changed_at_once)
    for number in range(3 * OLD_STATES):
        readers.come()
        readers.change()
        for client in list(readers.mirrors)[number % 3 :: 3]:
            readers.read(client)
    rounds = 0
    while sum(readers.read(client) for client in readers.mirrors):
        rounds += 1
        assert rounds < 1_000
    readers.scene.outbox.advance(2.0)
    for client, mirror in readers.mirrors.items():
        assert mirror.copy.records == readers.scene.truth, client.peer.node
        assert mirror.copy.version == readers.scene.version
