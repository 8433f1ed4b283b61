"""The pieces of pages that tell of the past."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from slotreeve_client.history import META_NAME, Past, PastService, Span, past_changes, past_events, service_at
from slotreeve_events.schema import HistoryNote
from slotreeve_events.stories import known_text, may_begin_too_late, move_sentences
from slotreeve_gateway import Gateway, Provider
from slotreeve_gateway.directory import is_own

from slotreeve_face_console.history_filter import MINUTE_MS, HistoryFilter
from slotreeve_face_console.notes import Note
from slotreeve_face_console.past_rows import (
    EventRow,
    ServiceEnds,
    ToldEvents,
    change_rows,
    decoded_events,
    ends_text,
    merged_tables,
    page_of_events,
    service_ends,
    told_events,
    untold,
)
from slotreeve_face_console.readings import Reading, SharedReadings
from slotreeve_face_console.rendering import Rendering, moment_text, time_text
from slotreeve_face_console.topics import Regions

LATELY_MINUTES = 30
LATELY_MS = LATELY_MINUTES * MINUTE_MS
DAY_MS = 1_440 * MINUTE_MS
AGAIN_SECONDS = 5.0
"""The present is asked for so often at most, while anybody looks."""
SELDOM_SECONDS = 60.0
"""What is over changes little; so often at most it is asked for."""
NEWS_KINDS = (
    *("started", "stopped", "leader", "node_joined", "node_left", "slots_wait", "configured"),
    *("gap", "alarm", "error", "critical"),
)
"""Kinds of events that the first page tells, beside slot tables."""
SLOT_KINDS = ("table", "slots_wait")
"""Kinds of events that tell of single slots."""
MOST_NEWS, EVENTS_A_PAGE, MOST_SOUGHT = 40, 100, 1_000
MOST_CHANGES, MOST_LOSSES, MOST_OF_SERVICE = 1_000, 20, 50
MOST_TABLES, MOST_NEWS_TABLES, MOST_MOVES = 300, 100, 20
HISTORY_COLUMNS = 4
T = TypeVar("T")


class ToldEnds(NamedTuple):
    """Services of which instances ended, and the answers that tell of them."""

    past: Past
    ends: Sequence[ServiceEnds]


class ToldService(NamedTuple):
    """What a service was, with its providers in the order of their registrations."""

    past: PastService
    providers: Sequence[Provider]


class ToldTables(NamedTuple):
    """Commits of slot tables and what slots wait for, the newest first, and the answers that tell of them."""

    past: Past
    events: Sequence[HistoryNote]


@dataclass(frozen=True)
class SlotMoves:
    """The last moves of a slot, as texts with their times; ``notes``: what is missing."""

    moves: Sequence[tuple[str, str]]
    notes: Sequence[str]


class PastPieces:
    """Asks the servers of the past, for all open pages together, and makes pieces of what they tell."""

    def __init__(self, gateway: Gateway, rendering: Rendering) -> None:
        self._servers, self._clock, self._rendering = gateway.servers, gateway.clock, rendering
        self._events: SharedReadings[ToldEvents] = SharedReadings(gateway.clock)
        self._ends: SharedReadings[ToldEnds] = SharedReadings(gateway.clock)
        self._tables: SharedReadings[ToldTables] = SharedReadings(gateway.clock)
        self._changes: SharedReadings[Past] = SharedReadings(gateway.clock)
        self._services: SharedReadings[ToldService] = SharedReadings(gateway.clock)
        self._news: tuple[ToldEvents | None, ToldTables | None, Sequence[EventRow]] = None, None, ()
        self._all = self._events, self._ends, self._tables, self._changes, self._services

    async def stop(self) -> None:
        """End the questions that are on their way."""
        for readings in self._all:
            await readings.stop()

    @property
    def questions(self) -> int:
        """How often servers were asked of the past."""
        return sum(readings.asked for readings in self._all)

    # --- the page of the history -----------------------------------------------------------------------------------

    async def events(self, chosen: HistoryFilter) -> Regions:
        """What happened in the cluster, as far as it was chosen."""
        most = MOST_SOUGHT if chosen.sought else EVENTS_A_PAGE
        make, since_ms = self._rendering, self._clock.wall_ms() - chosen.span_ms
        reading = await self._read_events(chosen.kinds, chosen.span_ms, most, chosen.before_ms)
        told = reading.value
        if told is None:
            return {
                "untold": self._untold(reading, None, since_ms),
                "events": make.rows_none("Nothing is told yet.", HISTORY_COLUMNS),
                "older": {},
            }
        page = page_of_events(told, chosen.sought, EVENTS_A_PAGE)
        older = "" if page.older_ms is None else chosen.query(page.older_ms)
        newest = "" if chosen.before_ms is None else chosen.query(None)
        looked = "" if page.rows or page.older_ms is None else f" It was looked back to {moment_text(page.older_ms)}."
        nothing = f"Nothing of this kind is known to have happened.{looked}"
        return {
            "untold": self._untold(reading, told.past, since_ms + chosen.span_ms // 24),
            "events": {row.key: make.piece("event", row) for row in page.rows}
            or make.rows_none(nothing, HISTORY_COLUMNS),
            "older": {"older": make.piece("older", older, newest)},
        }

    async def _read_events(
        self, kinds: tuple[str, ...], span_ms: int, most: int, before_ms: int | None = None
    ) -> Reading[ToldEvents]:
        async def ask() -> ToldEvents:
            now_ms = self._clock.wall_ms()
            span = Span(now_ms - span_ms) if before_ms is None else Span(now_ms - span_ms, before_ms)
            return told_events(await past_events(*self._servers.asked, span, kinds, most), most)

        seconds = AGAIN_SECONDS if before_ms is None else SELDOM_SECONDS
        return await self._events.read((kinds, span_ms, most, before_ms), ask, seconds)

    def _untold(self, reading: Reading[T], past: Past | None, since_ms: int) -> Mapping[str, str]:
        """What is missing in an answer."""
        texts = [] if past is None else untold(past, since_ms)
        if reading.trouble:
            when = f"This is what was told at {time_text(reading.asked_ms)}. " if past is not None else ""
            texts.insert(0, f"{when}The past cannot be asked for now: {reading.trouble.rstrip('.')}.")
        elif past is None:
            texts.append("The servers have not answered yet.")
        return {text: self._rendering.piece("sentence", text, text, "soon") for text in texts}

    # --- the first page --------------------------------------------------------------------------------------------

    async def news(self, seen: Sequence[Note]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What happened in the last half hour, and what is missing in it.

        Args:
            seen: what this gateway has seen by itself. It is told where it is newer than what the servers told, and
                where a meta server does not tell: that one may be the only one that knows.
        """
        reading, tables = await asyncio.gather(
            self._read_events(NEWS_KINDS, LATELY_MS, MOST_NEWS), self._read_tables(LATELY_MS, MOST_NEWS_TABLES)
        )
        make, told, since_ms = self._rendering, reading.value, self._clock.wall_ms() - LATELY_MS
        past = told.past if told is not None else None
        rows = [row for row in self._news_rows(told, tables.value) if row.at_ms >= since_ms][:MOST_NEWS]
        texts = {row.text for row in rows}
        is_whole = past is not None and not any(META_NAME + meta in past.silent for meta in self._servers.metas)
        notes = [note for note in seen if note.text not in texts and (not is_whole or note.at_ms > reading.asked_ms)]
        found = [(f"{note.at_ms} {note.text}", note.at_ms, note.text, "") for note in notes]
        found += [(row.key, row.at_ms, row.text, row.tone) for row in rows]
        found.sort(key=lambda each: -each[1])
        news = {key: make.piece("note", key, at_ms, text, tone) for key, at_ms, text, tone in found}
        nothing = make.sentences([], f"Nothing is known to have changed in the last {LATELY_MINUTES} minutes.")
        return news or nothing, self._untold(reading, past, since_ms + LATELY_MS // 24)

    def _news_rows(self, told: ToldEvents | None, tables: ToldTables | None) -> Sequence[EventRow]:
        """Events and slot tables, the newest first; made once of each answer."""
        known_told, known_tables, rows = self._news
        if known_told is not told or known_tables is not tables:
            others = told.rows if told is not None else ()
            commits = [event for event in tables.events if event.kind == "table"] if tables is not None else []
            of_tables = merged_tables(commits, others)
            rows = sorted((*others, *of_tables), key=lambda row: -row.at_ms)
            self._news = told, tables, rows
        return rows

    async def losses(self, counts: Mapping[str, int] | None, data: Iterable[str]) -> Mapping[str, str] | None:
        """The services of which instances ended in the last half hour; None: no data server tells.

        Args:
            counts: how many instances each service has now; None: it is not known.
            data: the names of the data servers.
        """

        async def ask() -> ToldEnds:
            span = Span(self._clock.wall_ms() - LATELY_MS)
            past = await past_changes(*self._servers.asked, span=span, most=MOST_CHANGES)
            return ToldEnds(past, service_ends(past))

        told, make = (await self._ends.read("all", ask, AGAIN_SECONDS)).value, self._rendering
        if told is None or all(name in told.past.silent for name in data):
            return None
        since_ms = self._clock.wall_ms() - LATELY_MS
        pieces = {}
        of_programs = [ends for ends in told.ends if ends.last_ms >= since_ms and not is_own(ends.data_info_id)]
        for ends in of_programs[:MOST_LOSSES]:
            now = None if counts is None else counts.get(ends.data_info_id, 0)
            tone = "bad" if now == 0 else "soon"
            pieces[ends.data_info_id] = make.piece("loss", ends.data_info_id, tone, ends_text(ends, now))
        if told.past.more and told.past.changes:
            oldest = time_text(told.past.changes[-1][1].at_ms)
            text = f"There were more changes than are looked at: those since {oldest} are."
            pieces["more"] = make.piece("sentence", "more", text, "quiet")
        return pieces or make.sentences([], f"No service lost an instance in the last {LATELY_MINUTES} minutes.")

    # --- the page of a service -------------------------------------------------------------------------------------

    async def timeline(self, data_info_id: str) -> Regions:
        """The last changes of the registrations of a service."""

        async def ask() -> Past:
            return await past_changes(*self._servers.asked, data_info_id, most=MOST_OF_SERVICE)

        reading, make = await self._changes.read(data_info_id, ask, AGAIN_SECONDS), self._rendering
        past = reading.value
        rows = change_rows(past, MOST_OF_SERVICE) if past is not None else []
        nothing = "No change of this service is known."
        return {
            "untold": self._untold(reading, past, self._clock.wall_ms() - DAY_MS + DAY_MS // 24),
            "timeline": {row.key: make.piece("change", row) for row in rows} or make.sentences([], nothing),
        }

    async def at(self, data_info_id: str, at_ms: int) -> tuple[Sequence[Provider], Mapping[str, str]]:
        """The providers of a service at some time, and sentences that say how they are known."""

        async def ask() -> ToldService:
            past = await service_at(*self._servers.asked, data_info_id, at_ms)
            records = [record for _, record in sorted(past.records.items())]
            return ToldService(past, [Provider(each.register_id, each.zone, each.data or ()) for each in records])

        reading, make = await self._services.read((data_info_id, at_ms), ask, SELDOM_SECONDS), self._rendering
        if reading.value is None:
            return [], self._untold(reading, None, at_ms)
        past, providers = reading.value
        at, since, begins = (moment_text(moment) for moment in (at_ms, past.since_ms, past.begins_ms))
        known = f"The instances {known_text(past.known, past.server, at, since)}."
        texts = make.sentences([known], "")
        if may_begin_too_late(past.known) and past.begins_ms > at_ms:
            texts |= make.sentences([f"The history begins at {begins} only."], "", "soon")
        silent = self._untold(reading, Past(silent=past.silent), at_ms)
        return providers, {**texts, **silent}

    # --- slots -----------------------------------------------------------------------------------------------------

    async def tables(self) -> Reading[ToldTables]:
        """The last commits of slot tables, and what slots waited for, of a day at most."""
        return await self._read_tables(DAY_MS, MOST_TABLES)

    async def _read_tables(self, span_ms: int, most: int) -> Reading[ToldTables]:
        async def ask() -> ToldTables:
            span = Span(self._clock.wall_ms() - span_ms)
            past = await past_events(*self._servers.asked, span, SLOT_KINDS, most)
            return ToldTables(past, decoded_events(past))

        return await self._tables.read(span_ms, ask, AGAIN_SECONDS)

    def commits(self, reading: Reading[ToldTables]) -> tuple[Sequence[HistoryNote], Sequence[str]]:
        """The events of a reading, the newest first, and what is missing."""
        told, since_ms = reading.value, self._clock.wall_ms() - DAY_MS
        past = told.past if told is not None else None
        return told.events if told is not None else (), list(self._untold(reading, past, since_ms + DAY_MS // 24))

    async def moves(self, slot: int) -> SlotMoves:
        """The last moves of one slot, and what it waited for, the newest first."""
        events, notes = self.commits(await self.tables())
        moves = [(moment_text(e.at_ms), text) for e in events for text in move_sentences(e, slot)]
        return SlotMoves(moves[:MOST_MOVES], notes)
