"""The history of one server: it gathers what happens, and lets it be written and read away from the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from slotreeve.clock import Clock, Timer
from slotreeve.errors import NotThere
from slotreeve.model.nodes import Node
from slotreeve_protocol.slot_messages import SlotWrite

from slotreeve_events import schema
from slotreeve_events.changed_services import ChangedServices, HeldRecords
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.meta_events import MetaEvents
from slotreeve_events.schema import HistoryNote
from slotreeve_events.settings import HistorySettings

log = logging.getLogger("slotreeve.history")

MOST_WAITING = 10_000
"""So many events may wait for the disk; more are lost, and counted."""
WAITING_SECONDS = 5.0
"""Changes that take so long to be written may wait."""
MOST_PUSHED = 100
"""The pushes of so many services are told one by one in an interval, those of others together."""
MOST_LINES = 200
"""So many lines of the log are kept of one interval."""

Work = Callable[[], object]
Worked = Callable[[object, Exception | None], None]
Run = Callable[[Work, Worked], None]
"""Runs work that blocks beside the event loop, and calls back on it; see :class:`slotreeve_machines.beside.Beside`."""
T = TypeVar("T")
NO_REASONS: Mapping[str, str] = {}
OTHERS = ""
"""Stands for the services whose pushes are told together."""


class ServerHistory(MetaEvents):
    """Use it from the server's event loop only.

    The hooks of a meta server and the cores of the others call it. Each call costs a few look-ups; the disk is used by
    :class:`HistoryFiles` in work that ``run`` runs, one piece at a time.

    Attributes:
        lost: number of events that were not handed to the disk, because too many waited.
    """

    def __init__(self, files: HistoryFiles, node: Node, clock: Clock, run: Run, rules: HistorySettings) -> None:
        super().__init__()
        self._files, self._clock, self._run, self._rules = files, clock, run, rules
        self._name, self._process_id = node.name, node.process_id
        self._services = ChangedServices(int(rules.changes_per_second * WAITING_SECONDS))
        self._events: list[HistoryNote] = []
        self._pushed: dict[str, HistoryNote] = {}
        self._lines = _Lines()
        self._jobs: deque[Callable[[], tuple[Work, Worked]]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._number = self.lost = 0
        self._most = max(1, int(rules.changes_per_second * rules.flush_seconds))
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to write, and to keep what this process logs as warnings and errors."""
        logging.getLogger("slotreeve").addHandler(self._lines)
        self._timer = self._clock.call_later(self._rules.flush_seconds, self._tick)

    async def close(self) -> None:
        """Write what waits, all of it, and close the files. Idempotent."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        logging.getLogger("slotreeve").removeHandler(self._lines)
        await self._idle.wait()
        while self._has_news():
            self._begin(self._writing)
            await self._idle.wait()
        self._files.close()

    @property
    def lost_in_all(self) -> int:
        """Events and changes that were not handed to the disk, or that it did not take, since the start."""
        return self.lost + self._files.lost

    # --- what happens ------------------------------------------------------------------------------------------------

    def _event(self, kind: str) -> HistoryNote:
        """See :class:`slotreeve_events.meta_events.MetaEvents`."""
        return self.note(kind)

    def note(self, kind: str, reason: str | None = None) -> HistoryNote:
        """Something happened; its other fields are filled in at once. ``reason``: why, for people."""
        self._number += 1
        event_id = f"{self._process_id}/{self._number}"
        event = HistoryNote(schema.VERSION, event_id, self._clock.wall_ms(), self._name, kind, reason=reason)
        if len(self._events) < MOST_WAITING:
            self._events.append(event)
        else:
            self.lost += 1
        return event

    def writing(self, held: HeldRecords, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        """A server is about to store ``write`` in a slot that it holds completely.

        Args:
            held: what it holds of the slot.
            reasons: why registrations end, by register id, where it is not said by how they are written.
        """
        at_ms, changed = self._clock.wall_ms(), self._services
        if not changed.has_room(len(write.records) + len(write.gone) + len(write.purged), at_ms):
            return
        for record in write.records:
            if record.data is not None:
                changed.comes(record, held, at_ms)
            else:
                why = reasons.get(record.register_id, "its client unpublished it")
                changed.ends(record.data_info_id, record.register_id, held, at_ms, why)
        for record in write.gone:
            why = reasons.get(record.register_id, "its client left")
            changed.ends(record.data_info_id, record.register_id, held, at_ms, why)
        for data_info_id, register_id in write.purged:
            changed.ends(data_info_id, register_id, held, at_ms, reasons.get(register_id, "its client is gone"))

    def pushed(self, data_info_id: str, subscribers: int, version: int, waited_seconds: float) -> None:
        """A session server pushed a change. The pushes of a service in one interval are one event, with the longest
        wait."""
        name = data_info_id
        event = self._pushed.get(name)
        if event is None and len(self._pushed) >= MOST_PUSHED:
            name = OTHERS
            event = self._pushed.get(name)
        if event is None:
            event = self._pushed[name] = self.note("pushed")
            event.service = name
        event.subscribers, event.version, event.count = subscribers, version, (event.count or 0) + 1
        event.waited_ms = max(event.waited_ms or 0.0, round(1000 * waited_seconds, 3))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _has_news(self) -> bool:
        return bool(self._services or self._events or self._lines)

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._rules.flush_seconds, self._tick)
        if self._has_news() and self._idle.is_set():
            self._begin(self._writing)

    def _writing(self) -> tuple[Work, Worked]:
        for level, at_ms, text in self._lines.take():
            event = self.note("alarm" if text.startswith("ALARM") else level, text)
            event.at_ms = at_ms
        now_ms = self._clock.wall_ms()
        gap = self._services.end_gap(now_ms, self._most)
        if gap is not None:
            self.lost += gap.changes
            self.note("gap", f"{gap.changes} changes were too many to write each down").count = gap.changes
        events, self._events = self._events, []
        self._pushed = {}
        rows = self._services.take(self._most)

        def written(result: object, error: Exception | None) -> None:
            if error is not None:
                log.error("a part of the history is lost: %s", error)
            if result is not False:
                self._services.begin_anew()
                self._wrote_whole_table = False

        return lambda: self._files.write(now_ms, rows, events, gap), written

    def _begin(self, job: Callable[[], tuple[Work, Worked]]) -> None:
        """Run a job when the ones before are done. What it works on is gathered when its turn comes."""
        self._jobs.append(job)
        if self._idle.is_set():
            self._idle.clear()
            self._next()

    def _next(self) -> None:
        work, worked = self._jobs.popleft()()

        def done(result: object, error: Exception | None) -> None:
            try:
                worked(result, error)
            finally:
                if self._jobs:
                    self._next()
                else:
                    self._idle.set()

        self._run(work, done)

    # --- questions ---------------------------------------------------------------------------------------------------

    def ask(
        self, question: Callable[[HistoryFiles], T], answered: Callable[[T | None, Exception | None], None]
    ) -> None:
        """Ask the files, once what happened until now is written, as far as it may be at once.

        Args:
            question: blocks; it runs away from the event loop.
            answered: is called on the event loop with the answer, or with the error that came instead.

        Raises:
            NotThere: this server stops.
        """
        if self._timer is None:
            raise NotThere("this server stops; its history is closed")

        def worked(result: object, error: Exception | None) -> None:
            answered(None if error is not None else result, error)  # type: ignore[arg-type]

        if self._has_news():
            self._begin(self._writing)
        self._begin(lambda: (lambda: question(self._files), worked))


class _Lines(logging.Handler):
    """Keeps warnings and errors until they are written. Any thread may log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._waiting: deque[tuple[str, int, str]] = deque(maxlen=MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            return  # the history does not tell of itself: what the disk does not take cannot be told there
        self._waiting.append((record.levelname.lower(), int(record.created * 1000), record.getMessage()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> list[tuple[str, int, str]]:
        """The lines since the last call."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]
