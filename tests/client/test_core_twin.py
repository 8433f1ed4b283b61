"""The publications of the core of a client against a dumb twin."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from slotreeve.errors import Backpressure, ClientClosed, RegistrationError
from slotreeve.model.publisher import Publisher
from slotreeve_client import Publication
from slotreeve_protocol.client_messages import (
    Published,
    Rejected,
)

from tests.client.core_scene import BATCH, WINDOW, Shell


class Registrations(RuleBasedStateMachine):
    """Any order of calls, connections, acknowledgements and rejections.

    The twin remembers the payload that each registration should have, and a server that stores the greatest (version,
    incarnation) of every record that ever arrived.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell(window=WINDOW, batch=BATCH)
        self.core = self.shell.core
        self.wanted: dict[str, bytes | None] = {}
        self.refused: set[str] = set()
        self.publications: dict[str, Publication] = {}
        self.stored: dict[str, Publisher] = {}
        self.unanswered: dict[int, Publisher] = {}
        self.acknowledged: dict[str, int] = {}
        self.sequences: set[int] = set()
        self.connections = 0
        self.online = False

    @rule(number=st.integers(0, 255))
    def publish(self, number: int) -> None:
        publication = self.shell.publish("a", bytes([number]))
        assert publication.register_id not in self.publications
        self.publications[publication.register_id] = publication
        self.wanted[publication.register_id] = bytes([number])

    def live(self) -> list[str]:
        return [key for key, data in self.wanted.items() if data is not None and key not in self.refused]

    @precondition(lambda self: self.live())
    @rule(data=st.data(), number=st.integers(0, 255))
    def republish(self, data: st.DataObject, number: int) -> None:
        key = data.draw(st.sampled_from(self.live()))
        self.publications[key].republish(bytes([number]))
        self.wanted[key] = bytes([number])

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def unpublish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.live()))
        self.publications[key].unpublish()
        self.wanted[key] = None
        with pytest.raises(RegistrationError):
            self.publications[key].republish(b"too late")

    @rule()
    def connect(self) -> None:
        self.connections += 1
        self.online = True
        self.unanswered.clear()  # the server's answers to the connection before are lost
        self.core.connected(f"session@{self.connections}")

    @rule()
    def disconnect(self) -> None:
        self.online = False
        self.core.disconnected()

    @rule()
    def send(self) -> None:
        records = self.shell.records()
        assert self.online or not records
        for sequence, record in records:
            assert sequence not in self.sequences
            self.sequences.add(sequence)
            assert (record.session, record.incarnation) == (f"session@{self.connections}", self.connections)
            self.unanswered[sequence] = record
            before = self.stored.get(record.register_id)
            if before is None or record.newer_than(before):
                self.stored[record.register_id] = record
        assert len(self.unanswered) < WINDOW + BATCH

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.unanswered)), unique=True, min_size=1))
        for sequence in chosen:
            record = self.unanswered.pop(sequence)
            key = record.register_id
            self.acknowledged[key] = max(self.acknowledged.get(key, 0), record.version)
        self.core.received(Published([*chosen, *chosen, -1]))  # twice, and one that was never sent

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def reject_for_a_moment(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.unanswered)))
        del self.unanswered[sequence]
        self.core.received(Rejected(sequence, Backpressure.code, "busy"))

    @rule()
    def retry(self) -> None:
        self.core.retry()

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def refuse_for_good(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.unanswered)))
        key = self.unanswered.pop(sequence).register_id
        self.core.received(Rejected(sequence, "SR120", "not allowed"))
        self.refused.add(key)
        with pytest.raises((RegistrationError, ClientClosed)):
            self.publications[key].republish(b"too late")

    @invariant()
    def acknowledged_versions_are_those_that_the_server_acknowledged(self) -> None:
        for key, publication in self.publications.items():
            assert publication.acknowledged_version == self.acknowledged.get(key, 0)

    @invariant()
    def nothing_unacknowledged_is_forgotten(self) -> None:
        waiting = [
            key
            for key, publication in self.publications.items()
            if key not in self.refused and not publication.is_acknowledged
        ]
        assert self.core.unacknowledged >= len(waiting)

    def teardown(self) -> None:
        """In the end the server holds exactly what is published."""
        self.connect()
        for _ in range(1_000):
            self.core.retry()
            self.send()
            if not self.unanswered:
                break
            self.core.received(Published(sorted(self.unanswered)))
            for record in self.unanswered.values():
                key = record.register_id
                self.acknowledged[key] = max(self.acknowledged.get(key, 0), record.version)
            self.unanswered.clear()
        assert self.core.unacknowledged == 0
        for key, data in self.wanted.items():
            if key not in self.refused:
                assert self.stored[key].data == (None if data is None else (data,)), key
                assert self.publications[key].is_acknowledged


TestRegistrations = Registrations.TestCase
TestRegistrations.settings = settings(derandomize=True, max_examples=150, stateful_step_count=40)
