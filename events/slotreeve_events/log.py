"""The event log of one server: it gathers events and writes them as JSON lines, for the pipeline on Spark.

Events are gathered in memory and written every ``flush_seconds`` without a sync, beside the event loop: a disk may
hang. A crash loses at most the gathered ones, and may leave a torn last line, which readers put aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec
from slotreeve.clock import Clock, Timer
from slotreeve.model.nodes import Node
from slotreeve.model.publisher import Publisher

from slotreeve_events import schema
from slotreeve_events.disk_jobs import CLOSE_SECONDS, DiskJobs, Run, Work, Worked
from slotreeve_events.meta_events import MetaEvents
from slotreeve_events.schema import Event, PushedVersion
from slotreeve_events.segments import Segments
from slotreeve_events.settings import EventSettings

log = logging.getLogger("slotreeve.events")

SEGMENT_SECONDS = 300.0
"""A segment is finished at this age, so that readers see the events of a quiet server."""
MOST_WAITING = 100_000
"""So many events may wait for the disk; more are lost, and counted."""
MOST_CHANGES = 100
"""An event names at most so many changes of a push. The first push of a large service has more."""


NO_EVENT = Event(schema.VERSION, "", 0, "", "")


class EventLog(MetaEvents):
    """The events of one server. Use it from the server's event loop only.

    On a meta server the hooks call it; session and data servers call :meth:`registration`, :meth:`expired` and
    :meth:`pushed`.

    Attributes:
        lost: number of events that could not be written.
    """

    def __init__(self, segments: Segments, node: Node, clock: Clock, run: Run, rules: EventSettings) -> None:
        """``run`` runs what uses the disk, one piece at a time."""
        super().__init__()
        self._segments, self._clock, self._rules = segments, clock, rules
        self._disk = DiskJobs(run)
        self._waiting: list[Event] = []
        # Registrations of one kind in the present turn of the event loop; the kind is empty where there are none.
        self._turn: list[Publisher] = []
        self._turn_event = NO_EVENT
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
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(event)
        else:
            self.lost += 1
        if self._timer is None:
            self._timer = self._clock.call_later(self._rules.flush_seconds, self.flush)
        return event

    def flush(self) -> None:
        """Begin to write the gathered events. If the disk fails, ``lost`` counts them, and the server goes on."""
        self._timer = None
        self._end_turn()
        if self._disk.is_idle:
            self._disk.begin(self._writing)
        else:
            self._timer = self._clock.call_later(self._rules.flush_seconds, self.flush)
        if self._rotation is None:
            self._rotation = self._clock.call_later(SEGMENT_SECONDS, self._finish)

    def _writing(self) -> tuple[Work, Worked]:
        self._end_turn()
        waiting, self._waiting = self._waiting, []

        def written(_result: object, error: Exception | None) -> None:
            if error is not None:
                self.lost += len(waiting)
                log.error("%d events are lost, %d since the start: %s", len(waiting), self.lost, error)

        return lambda: self._segments.append(self._encoded(waiting)), written

    def _encoded(self, events: Sequence[Event]) -> bytes:
        try:
            return self._encoder.encode_lines(events)
        except UnicodeEncodeError:  # a text that somebody else has made
            return b"".join(schema.encoded(event) + b"\n" for event in events)

    async def close(self) -> None:
        """Write the gathered events and finish the segment. Idempotent. Where the disk hangs, what waits is lost."""
        for timer in (self._timer, self._rotation):
            if timer is not None:
                timer.cancel()
        if self._waiting:
            self._disk.begin(self._writing)
        self._finish()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._disk.all_done()
        except TimeoutError:
            log.error("the end of the event log is lost: the disk has not answered for %g s", CLOSE_SECONDS)

    def _finish(self) -> None:
        self._rotation = None
        self._disk.begin(lambda: (self._segments.finish, self._finished))

    def _finished(self, _result: object, error: Exception | None) -> None:
        if error is not None:
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
        self._turn_event, self._turn_kind = self._event(kind), kind
        self._clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if not self._turn:
            return
        event, turn = self._turn_event, self._turn
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
