"""The event log of one server: what happened, as JSON lines in segments, for the pipeline on Spark.

Records are gathered in memory and written every quarter of a second, without a sync: a crash loses at most those, and
may leave a torn last line, which readers put aside. A segment is called ``*.jsonl.open`` while it is written and
``*.jsonl`` once it is finished: when it is full or five minutes old, or its process stops. Those that a former process
of the node left open are finished at the next start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from slotreeve.clock import Clock, Timer
from slotreeve.errors import StorageError
from slotreeve.hookspecs import hookimpl
from slotreeve.model.nodes import Node
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Move, SlotTable
from slotreeve.ports import Leadership

from slotreeve_events.settings import EventSettings

log = logging.getLogger("slotreeve.events")

SCHEMA_VERSION = 1
FINISHED, OPEN = ".jsonl", ".jsonl.open"
SEGMENT_SECONDS = 300.0
"""Readers see a segment of a quiet server after this time."""
MOST_CHANGES = 100
"""Changes that are named in the record of one push; a first push of a large service has more."""


class Event(msgspec.Struct, omit_defaults=True):
    """One line. Every one has the first five fields; which others, says the kind.

    Attributes:
        v: schema version. id: unique: process and number. at_ms: this node's wall clock.
        kind: ``registered``, ``unregistered``, ``expired`` (services, register_ids, versions); ``pushed`` (service,
            subscribers, changes); ``table`` (epoch, term, reason, changed, moves); ``node_joined``, ``node_left``
            (member, role, zone, weight, reason); ``leader`` (leader, term, reason).
        services, register_ids, versions: of the registrations of one kind in one turn of the event loop, which are
            many: told in columns they cost a third.
        changes: (register id, version) of what was pushed, version None for what is gone.
        changed: slots as they are now, all of them in a process's first record of this kind.
    """

    v: int
    id: str
    at_ms: int
    node: str
    kind: str
    services: list[str] | None = None
    register_ids: list[str] | None = None
    versions: list[int] | None = None
    service: str | None = None
    subscribers: int | None = None
    changes: list[dict[str, object]] | None = None
    epoch: int | None = None
    term: int | None = None
    reason: str | None = None
    changed: list[dict[str, object]] | None = None
    moves: list[dict[str, object]] | None = None
    member: str | None = None
    role: str | None = None
    zone: str | None = None
    weight: float | None = None
    leader: str | None = None


class Segments:
    """Files of one process in a directory that the servers of a machine share.

    Raises:
        StorageError: the directory cannot be made or written.
    """

    def __init__(self, directory: Path, process_id: str, segment_bytes: int) -> None:
        self._directory, self._segment_bytes = directory, segment_bytes
        # A colon in a file's name is more than Hadoop's paths can bear.
        self._name = process_id.replace("/", "_").replace(":", "_")
        self._number = self._written = 0
        self._descriptor: int | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for stale in directory.glob(f"{self._name.rpartition('@')[0]}@*{OPEN}"):
                stale.rename(stale.with_name(stale.name.removesuffix(OPEN) + FINISHED))
        except OSError as error:
            raise StorageError(f"events.path: {directory} cannot be written: {error.strerror}") from None

    def append(self, content: bytes) -> None:
        """Add whole lines to the present segment. Raises OSError."""
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path(OPEN), flags, 0o644)
        view = memoryview(content)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._written += len(content)
        if self._written >= self._segment_bytes:
            self.finish()

    def finish(self) -> None:
        """The present segment is complete: from now on readers see it. Raises OSError."""
        if self._descriptor is None:
            return
        os.close(self._descriptor)
        self._descriptor = None
        self._path(OPEN).rename(self._path(FINISHED))
        self._number += 1
        self._written = 0

    def _path(self, suffix: str) -> Path:
        return self._directory / f"{self._name}-{self._number:06}{suffix}"


class EventLog:
    """What one server has to tell. Observes the meta server by hooks; session and data servers call the other methods.

    Attributes:
        lost: events that could not be written.
    """

    def __init__(self, segments: Segments, node: Node, clock: Clock, rules: EventSettings) -> None:
        self._segments, self._clock, self._rules = segments, clock, rules
        self._waiting: list[Event] = []
        # Registrations of one kind in the present turn of the event loop; the kind is empty where there are none.
        self._turn: list[Publisher] = []
        self._turn_kind = ""
        self._name, self._process_id = node.name, node.process_id
        self._timer: Timer | None = None
        self._rotation: Timer | None = None
        self._number = self._term = 0
        self._told_everything = False
        self._encoder = msgspec.json.Encoder()
        self.lost = 0

    def _event(self, kind: str) -> Event:
        self._end_turn()
        self._number += 1
        event = Event(SCHEMA_VERSION, f"{self._process_id}/{self._number}", self._clock.wall_ms(), self._name, kind)
        self._waiting.append(event)
        if self._timer is None:
            self._timer = self._clock.call_later(self._rules.flush_seconds, self.flush)
        return event

    def flush(self) -> None:
        """Write what waits. A disk that does not take it costs the events, never the server."""
        self._timer = None
        self._end_turn()
        waiting, self._waiting = self._waiting, []
        try:
            self._segments.append(self._encoder.encode_lines(waiting))
        except OSError as error:
            self.lost += len(waiting)
            log.error("%d events are lost, %d in all: %s", len(waiting), self.lost, error)
        if self._rotation is None:
            self._rotation = self._clock.call_later(SEGMENT_SECONDS, self._finish)

    def close(self) -> None:
        """Write what waits and finish the segment. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting:
            self.flush()
        if self._rotation is not None:
            self._rotation.cancel()
        self._finish()

    def _finish(self) -> None:
        self._rotation = None
        try:
            self._segments.finish()
        except OSError as error:
            log.error("a segment of events stays open: %s", error)

    # --- a session server's ------------------------------------------------------------------------------------------

    def registration(self, record: Publisher) -> None:
        """A client's registration was taken, or its end."""
        kind = "unregistered" if record.data is None else "registered"
        if kind != self._turn_kind:
            self._begin_turn(kind)
        self._turn.append(record)

    def expired(self, record: Publisher) -> None:
        """A registration ended because its client has left, or its session server with it."""
        if self._turn_kind != "expired":
            self._begin_turn("expired")
        self._turn.append(record)

    def _begin_turn(self, kind: str) -> None:
        self._event(kind)
        self._turn_kind = kind
        self._clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if not self._turn:
            return
        event, turn = self._waiting[-1], self._turn
        event.services = [record.data_info_id for record in turn]
        event.register_ids = [record.register_id for record in turn]
        event.versions = [record.version for record in turn]
        self._turn, self._turn_kind = [], ""

    def pushed(self, data_info_id: str, step: Mapping[str, Publisher | None], subscribers: int) -> None:
        """A change of a service went out to so many subscribers of this server."""
        event = self._event("pushed")
        event.service, event.subscribers = data_info_id, subscribers
        event.changes = [
            {"register_id": register_id, "version": None if record is None else record.version}
            for register_id, record in list(step.items())[:MOST_CHANGES]
        ]

    # --- a meta server's ---------------------------------------------------------------------------------------------

    @hookimpl
    def slotreeve_leader_changed(self, leadership: Leadership) -> None:
        """The leader changed, as this server sees it."""
        event = self._event("leader")
        event.leader, event.reason = leadership.leader, leadership.cause
        self._term = event.term = leadership.term

    @hookimpl
    def slotreeve_table_published(self, table: SlotTable, moves: Sequence[Move], reason: str) -> None:
        """A new slot table."""
        event = self._event("table")
        event.epoch, event.term, event.reason = table.epoch, self._term, reason
        moved = {move.slot for move in moves}
        event.changed = [
            {"slot": s.id, "leader": s.leader, "leader_epoch": s.leader_epoch, "followers": s.followers}
            for s in table.slots
            if s.id in moved or not self._told_everything
        ]
        event.moves = [{field: getattr(move, field) for field in Move.__struct_fields__} for move in moves]
        self._told_everything = True

    @hookimpl
    def slotreeve_node_joined(self, node: Node) -> None:
        """A data or session server joined."""
        self._member("node_joined", node)

    @hookimpl
    def slotreeve_node_left(self, node: Node, reason: str) -> None:
        """A data or session server left."""
        self._member("node_left", node).reason = reason

    def _member(self, kind: str, node: Node) -> Event:
        event = self._event(kind)
        event.member, event.role = node.name, str(node.role)
        event.zone, event.weight = node.zone or None, node.weight
        return event
