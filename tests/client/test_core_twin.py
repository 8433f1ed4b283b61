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
    Publish,
    Published,
    Rejected,
    ReplayEnded,
)

from tests.client.core_scene import BATCH, WINDOW, Shell


class Registrations(RuleBasedStateMachine):
    """Any order of calls, connections, acknowledgements and rejections.

    The twin remembers the payload that each registration should have, and a server that stores the greatest (version,
    incarnation) of every record that ever arrived and was not refused.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell(window=WINDOW, batch=BATCH)
        self.core = self.shell.core
        self.wanted: dict[str, bytes | None] = {}
        self.refused: set[str] = set()
        self.never_sent: set[str] = set()
        self.publications: dict[str, Publication] = {}
        self.arrived: dict[str, list[Publisher]] = {}
        self.unanswered: dict[int, Publisher] = {}
        self.looked_at = -1
        self.acknowledged: dict[str, Publisher] = {}
        self.to_replay: set[str] = set()
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
        if key not in self.arrived:
            self.never_sent.add(key)
        self.publications[key].unpublish()
        self.wanted[key] = None
        with pytest.raises(RegistrationError):
            self.publications[key].republish(b"too late")

    @rule()
    def connect(self) -> None:
        self.connections += 1
        self.online = True
        self.unanswered.clear()  # the server's answers to the connection before are lost
        self.to_replay = set(self.live())
        self.core.connected(f"session@{self.connections}")

    @rule()
    def disconnect(self) -> None:
        self.online = False
        self.core.disconnected()

    @rule()
    def send(self) -> None:
        sent = self.shell.sent()
        assert self.online or not sent
        for message in sent:
            if isinstance(message, ReplayEnded):
                assert message.incarnation == self.connections
                assert not self.to_replay.intersection(self.live()), "what is not sent again ends now"
            elif isinstance(message, Publish):
                for i, record in enumerate(message.records):
                    self.arrive(message.sequence + i, record)
        assert len(self.unanswered) < WINDOW + BATCH

    def arrive(self, sequence: int, record: Publisher) -> None:
        assert sequence not in self.sequences
        self.sequences.add(sequence)
        assert (record.session, record.incarnation) == (f"session@{self.connections}", self.connections)
        self.unanswered[sequence] = record
        self.arrived.setdefault(record.register_id, []).append(record)

    def take_acknowledgement(self, sequence: int) -> None:
        record = self.unanswered.pop(sequence)
        before = self.acknowledged.setdefault(record.register_id, record)
        if record.version > before.version:
            self.acknowledged[record.register_id] = record
        self.to_replay.discard(record.register_id)

    def new_ones(self) -> list[int]:
        """What the server may refuse: it does so at once, in the order in which records arrive."""
        return [sequence for sequence in sorted(self.unanswered) if sequence > self.looked_at]

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.unanswered)), unique=True, min_size=1))
        for sequence in chosen:
            self.take_acknowledgement(sequence)
        self.core.received(Published([*chosen, *chosen, -1]))  # twice, and one that was never sent

    @precondition(lambda self: self.new_ones())
    @rule(data=st.data())
    def reject_for_a_moment(self, data: st.DataObject) -> None:
        sequence = self.looked_at = data.draw(st.sampled_from(self.new_ones()))
        record = self.unanswered.pop(sequence)
        self.arrived[record.register_id].remove(record)
        self.core.received(Rejected(sequence, Backpressure.code, "busy"))

    @rule()
    def retry(self) -> None:
        self.core.retry()

    def updates(self) -> list[int]:
        """Those of the new ones that replace or end something."""
        return [sequence for sequence in self.new_ones() if self.unanswered[sequence].version > 1]

    @precondition(lambda self: self.new_ones())
    @rule(data=st.data())
    def refuse_for_good(self, data: st.DataObject) -> None:
        self.refuse(data.draw(st.sampled_from(self.new_ones())))

    @precondition(lambda self: self.updates())
    @rule(data=st.data())
    def refuse_an_update(self, data: st.DataObject) -> None:
        self.refuse(data.draw(st.sampled_from(self.updates())))

    def refuse(self, sequence: int) -> None:
        self.looked_at = sequence
        record = self.unanswered.pop(sequence)
        key = record.register_id
        self.arrived[key].remove(record)
        publication = self.publications[key]
        is_present = record.version == publication.version
        was_taken_back = publication.refused is not None
        taken = [one for one in (*self.unanswered.values(), self.acknowledged.get(key)) if one is not None]
        before = [one for one in taken if one.register_id == key and one.version < record.version]
        self.core.received(Rejected(sequence, "SR120", "not allowed"))
        if not is_present:
            assert publication.ended is None, "the answer to a newer one decides"
        elif record.data is None or was_taken_back or not before:
            self.refused.add(key)
            with pytest.raises((RegistrationError, ClientClosed)):
                publication.republish(b"too late")
        else:
            assert publication.ended is None
            assert publication.refused is not None
            newest = max(before, key=lambda one: one.version)
            assert publication.data == newest.data is not None
            (self.wanted[key],) = newest.data

    @invariant()
    def acknowledged_versions_are_those_that_the_server_acknowledged(self) -> None:
        for key, publication in self.publications.items():
            record = self.acknowledged.get(key)
            known = (record.version, record.data) if record is not None else (0, None)
            if key in self.never_sent:
                known = (publication.version, None)
            assert (publication.acknowledged_version, publication.acknowledged_data) == known

    @invariant()
    def nothing_unacknowledged_is_forgotten(self) -> None:
        waiting = [
            key
            for key, publication in self.publications.items()
            if key not in self.refused and publication.acknowledged_version != publication.version
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
            sequences = sorted(self.unanswered)
            for sequence in sequences:
                self.take_acknowledgement(sequence)
            self.core.received(Published(sequences))
        assert self.core.unacknowledged == 0
        assert not self.never_sent & self.arrived.keys(), "what ended before anybody knew of it is not sent"
        for key, data in self.wanted.items():
            if key not in self.refused | self.never_sent:
                stored = max(self.arrived[key], key=lambda record: (record.version, record.incarnation))
                assert stored.data == (None if data is None else (data,)), key
                assert data is None or stored.incarnation == self.connections, "it is sent over each connection"
                publication = self.publications[key]
                assert publication.acknowledged_version == publication.version
                assert publication.is_acknowledged == (publication.refused is None)


TestRegistrations = Registrations.TestCase
TestRegistrations.settings = settings(derandomize=True, max_examples=150, stateful_step_count=40)
