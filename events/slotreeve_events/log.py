"""The event log of one server: it gathers events and writes them as JSON lines, for the pipeline on Spark.

Events are gathered in memory and written every ``flush_seconds`` without a sync. A crash loses at most the gathered
ones, and may leave a torn last line, which readers put aside.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec
from slotreeve.clock import Clock, Timer
from slotreeve.model.nodes import Node
from slotreeve.model.publisher import Publisher

from slotreeve_events import schema
from slotreeve_events.meta_events import MetaEvents
from slotreeve_events.schema import Event, PushedVersion
from slotreeve_events.segments import Segments
from slotreeve_events.settings import EventSettings

log = logging.getLogger("slotreeve.events")

SEGMENT_SECONDS = 300.0
"""A segment is finished at this age, so that readers see the events of a quiet server."""
MOST_CHANGES = 100
"""An event names at most so many changes of a push. The first push of a large service has more."""


class EventLog(MetaEvents):
    """The events of one server. Use it from the server's event loop only.

    On a meta server the hooks call it; session and data servers call :meth:`registration`, :meth:`expired` and
    :meth:`pushed`.

    Attributes:
        lost: number of events that could not be written.
    """

    def __init__(self, segments: Segments, node: Node, clock: Clock, rules: EventSettings) -> None:
        super().__init__()
        self._segments, self._clock, self._rules = segments, clock, rules
        self._waiting: list[Event] = []
        # Registrations of one kind in the present turn of the event loop; the kind is empty where there are none.
        self._turn: list[Publisher] = []
        self._turn_kind = ""
        self._name, self._process_id = node.name, node.process_id
        self._timer: Timer | None = None
        self._rotation: Timer | None = None
        self._number = 0
        self._encoder = msgspec.json.Encoder()
        self.lost = 0

    def _event(self, kind: str) -> Event:
        """See :class:`slotreeve_events.meta_events.MetaEvents`."""
        self._end_turn()
        self._number += 1
        event = Event(schema.VERSION, f"{self._process_id}/{self._number}", self._clock.wall_ms(), self._name, kind)
        self._waiting.append(event)
        if self._timer is None:
            self._timer = self._clock.call_later(self._rules.flush_seconds, self.flush)
        return event

    def flush(self) -> None:
        """Write the gathered events. If the disk fails, they are counted in ``lost`` and the server goes on."""
        self._timer = None
        self._end_turn()
        waiting, self._waiting = self._waiting, []
        try:
            self._segments.append(self._encoded(waiting))
        except OSError as error:
            self.lost += len(waiting)
            log.error("%d events are lost, %d since the start: %s", len(waiting), self.lost, error)
        if self._rotation is None:
            self._rotation = self._clock.call_later(SEGMENT_SECONDS, self._finish)

    def _encoded(self, events: Sequence[Event]) -> bytes:
        try:
            return self._encoder.encode_lines(events)
        except UnicodeEncodeError:  # a text that somebody else has made
            return b"".join(schema.encoded(event) + b"\n" for event in events)

    def close(self) -> None:
        """Write the gathered events and finish the segment. Idempotent."""
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
            log.error("a segment of the event log could not be finished: %s", error)

    # --- a session server's ------------------------------------------------------------------------------------------

    def registration(self, record: Publisher) -> None:
        """A session server took a registration from a client; a tombstone is the end of one."""
        kind = "unregistered" if record.data is None else "registered"
        if kind != self._turn_kind:
            self._begin_turn(kind)
        self._turn.append(record)

    def expired(self, record: Publisher) -> None:
        """A registration ended because its client or its session server is gone."""
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
        """This session server pushed a change of a service.

        Args:
            data_info_id: the service.
            step: the records that changed, by register id; None for a record that is gone.
            subscribers: number of subscribers that it was pushed to.
        """
        event = self._event("pushed")
        event.service, event.subscribers = data_info_id, subscribers
        event.changes = [
            PushedVersion(register_id, None if record is None else record.version)
            for register_id, record in list(step.items())[:MOST_CHANGES]
        ]
