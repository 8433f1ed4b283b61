"""The history of one server: it gathers what happens, and lets it be written and read away from the event loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from slotreeve.clock import Clock, Timer
from slotreeve.errors import NotThere
from slotreeve.model.nodes import Node
from slotreeve_protocol.slot_messages import SlotWrite

from slotreeve_events import schema
from slotreeve_events.changed_services import ChangedServices, Gap, HeldRecords, Lapse
from slotreeve_events.disk_jobs import CLOSE_SECONDS, DiskJobs, Run, Work, Worked
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
MOST_LAPSES = 200
"""So many lapses wait for the disk, one for the slots that lapsed at one moment."""
MOST_LINES = 200
"""So many lines of the log are kept of one interval."""
MOST_QUESTIONS = 32
"""So many questions may wait for the disk; others are refused."""
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
        complete_of: of these slots, those that the server holds completely.
    """

    def __init__(self, files: HistoryFiles, node: Node, clock: Clock, run: Run, rules: HistorySettings) -> None:
        super().__init__()
        self._files, self._clock, self._rules = files, clock, rules
        self._name, self._process_id = node.name, node.process_id
        self._services = ChangedServices(int(rules.changes_per_second * WAITING_SECONDS))
        self._events: list[HistoryNote] = []
        self._pushed: dict[str, HistoryNote] = {}
        self._lines = _Lines()
        self._disk = DiskJobs(run)
        self._questions = 0
        self._failure = ""
        self._ended_gap: Gap | None = None
        self._lapsing: dict[int, int] = {}
        self._ended_lapses: list[Lapse] = []
        self.complete_of: Callable[[Collection[int]], Collection[int]] = frozenset
        self._number = self.lost = 0
        self._most = max(1, int(rules.changes_per_second * rules.flush_seconds))
        self._timer: Timer | None = None
        self._is_closed = False

    def start(self) -> None:
        """Begin to write, and to keep what this process logs as warnings and errors."""
        logging.getLogger("slotreeve").addHandler(self._lines)
        self._timer = self._clock.call_later(self._rules.flush_seconds, self._tick)

    async def close(self) -> None:
        """Write what waits, all of it, and close the files. Idempotent. Where the disk hangs, what waits is lost."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.ignore_log()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._write_all()
        except TimeoutError:
            log.error("the end of the history is lost: the disk has not answered for %g s", CLOSE_SECONDS)

    def ignore_log(self) -> None:
        """Keep nothing any more of what this process logs. A process that is only simulated, and killed, cannot do
        without: the log is that of the process which simulates it."""
        logging.getLogger("slotreeve").removeHandler(self._lines)

    async def _write_all(self) -> None:
        await self._disk.all_done()
        self._end_lapses(list(self._lapsing))
        while self._has_news():
            self._end_gap(sys.maxsize)
            self._disk.begin(self._writing)
            await self._disk.all_done()
        self._disk.begin(lambda: (self._files.close, lambda result, error: None))
        await self._disk.all_done()

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
        """A server is about to store ``write`` in a slot.

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
                changed.buried(record, held, at_ms, why, client_left=False)
        for record in write.gone:
            why = reasons.get(record.register_id, "its client left")
            changed.buried(record, held, at_ms, why, client_left=True)
        for data_info_id, register_id in write.purged:
            changed.ends(data_info_id, register_id, held, at_ms, reasons.get(register_id, "its client is gone"))

    def lapse(self, slots: Iterable[int]) -> None:
        """The server holds these slots no more, or not completely. It does so again where ``complete_of`` says it."""
        at_ms = self._clock.wall_ms()
        for slot in slots:
            self._lapsing.setdefault(slot, at_ms)

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
        if event.waited_ms is None or 1000 * waited_seconds > event.waited_ms:
            event.waited_ms = round(1000 * waited_seconds, 3)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _has_news(self) -> bool:
        return bool(self._services or self._events or self._lines or self._ended_gap or self._ended_lapses)

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._rules.flush_seconds, self._tick)
        self._end_gap(self._most)
        self._end_lapses(self.complete_of(self._lapsing))
        if self._has_news() and self._disk.is_idle:
            self._disk.begin(self._writing)

    def _end_gap(self, few: int) -> None:
        """End the gap where there were at most so many changes in the last interval."""
        gap = self._services.end_gap(self._clock.wall_ms(), few)
        if gap is not None:
            self._was_gap(gap)
            self.lost += gap.changes
            self.note("gap", f"{gap.changes} changes were too many to write each down").count = gap.changes

    def _end_lapses(self, slots: Collection[int]) -> None:
        """These slots are held completely again: one lapse for those that were not since the same moment. Only where
        very many wait for the disk are they taken together, so that more seems unknown than is."""
        now_ms, by_start = self._clock.wall_ms(), dict[int, set[int]]()
        for slot in slots:
            by_start.setdefault(self._lapsing.pop(slot), set()).add(slot)
        self._ended_lapses += [Lapse(since_ms, now_ms, frozenset(of)) for since_ms, of in sorted(by_start.items())]
        if len(self._ended_lapses) > MOST_LAPSES:
            since_ms = min(lapse.since_ms for lapse in self._ended_lapses)
            together = frozenset[int]().union(*(lapse.slots for lapse in self._ended_lapses))
            self._ended_lapses = [Lapse(since_ms, now_ms, together)]

    def _was_gap(self, gap: Gap) -> None:
        known = self._ended_gap or gap
        since_ms, until_ms = min(known.since_ms, gap.since_ms), max(known.until_ms, gap.until_ms)
        self._ended_gap = Gap(since_ms, until_ms, gap.changes)

    def _writing(self) -> tuple[Work, Worked]:
        for level, at_ms, text in self._lines.take():
            event = self.note("alarm" if text.startswith("ALARM") else level, text)
            event.at_ms = at_ms
        self.lost, self._lines.dropped = self.lost + self._lines.dropped, 0
        now_ms = self._clock.wall_ms()
        gap, self._ended_gap = self._ended_gap, None
        lapses, self._ended_lapses = self._ended_lapses, []
        events, self._events = self._events, []
        self._pushed = {}
        rows = self._services.take(self._most)

        def written(result: object, error: Exception | None) -> None:
            if error is not None:
                self.lost += len(events) + sum(len(row.changes) for row in rows)
                if str(error) != self._failure:
                    log.error("a part of the history is lost: %s", error)
                since_ms = min((change.at_ms for row in rows for change in row.changes), default=now_ms)
                self._was_gap(Gap(since_ms, now_ms, 0))
                if gap is not None:
                    self._was_gap(gap)
                for lapse in lapses:
                    self._was_gap(Gap(lapse.since_ms, now_ms, 0))
            self._failure = str(error or "")
            if result is not False:
                # Another file begins. It stands alone: the map of slots of a time is made from the tables in it.
                self._services.begin_anew()
                self._wrote_whole_table = False

        return lambda: self._files.write(now_ms, rows, events, gap, lapses), written

    # --- questions ---------------------------------------------------------------------------------------------------

    def ask(
        self, question: Callable[[HistoryFiles], T], answered: Callable[[T | None, Exception | None], None]
    ) -> None:
        """Ask the files, once what happened until now is written.

        Args:
            question: blocks; it runs away from the event loop.
            answered: is called on the event loop with the answer, or with the error that came instead.

        Raises:
            NotThere: this server stops, or too many questions wait.
        """
        if self._is_closed:
            raise NotThere("this server stops; its history is closed")
        if self._questions >= MOST_QUESTIONS:
            raise NotThere(f"{MOST_QUESTIONS} questions of the past wait already; ask again later")
        self._questions += 1

        def worked(result: object, error: Exception | None) -> None:
            self._questions -= 1
            answered(None if error is not None else result, error)  # type: ignore[arg-type]

        if self._has_news():
            for _ in range(1 + self._services.waiting // self._most):
                self._disk.begin(self._writing)

        def asking() -> tuple[Work, Worked]:
            lapsing = dict(self._lapsing)

            def work() -> object:
                self._files.lapsing = lapsing
                return question(self._files)

            return work, worked

        self._disk.begin(asking)


class _Lines(logging.Handler):
    """Keeps warnings and errors until they are written. Any thread may log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._waiting: deque[tuple[str, int, str]] = deque(maxlen=MOST_LINES)
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            return  # the history does not tell of itself: what the disk does not take cannot be told there
        try:
            text = record.getMessage()[: schema.MOST_LETTERS]
        except Exception:  # noqa: BLE001 - whoever logs a line must not fail by it
            self.handleError(record)
            return
        self.dropped += len(self._waiting) == MOST_LINES
        self._waiting.append((record.levelname.lower(), int(record.created * 1000), text))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> list[tuple[str, int, str]]:
        """The lines since the last call, but those that were too many."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]
