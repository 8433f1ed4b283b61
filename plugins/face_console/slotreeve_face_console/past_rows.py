"""What servers tell of the past, as rows and sentences. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slotreeve.errors import ModelError
from slotreeve_client.history import Past
from slotreeve_events.schema import HistoryNote
from slotreeve_events.stories import begins_text, change_sentence, decoded_event, sentence, silent_text, tables_sentence

from slotreeve_face_console.rendering import counted, moment_text, time_text
from slotreeve_face_console.server_rows import BAD, SOON

TONES = {"alarm": BAD, "critical": BAD, "error": BAD, "warning": SOON, "gap": SOON}
"""How kinds of events are shown that somebody should look at."""


LATE_MS = 1_000
"""A server writes lines of its log down with others that happened meanwhile, so its events may be out of order by so
much."""
TOGETHER_MS = 60_000
"""Commits of slot tables that are no further apart can be told as one."""


class EventRow(NamedTuple):
    """One event. ``key``: unique in the cluster."""

    key: str
    at_ms: int
    node: str
    kind: str
    text: str

    @property
    def tone(self) -> str:
        """How it is shown; empty: as usual."""
        return TONES.get(self.kind, "")

    def holds(self, needle: str) -> bool:
        """Whether it has ``needle``, which is casefolded, in what it shows."""
        return needle in f"{self.node} {self.kind} {self.text}".casefold()


class ChangeRow(NamedTuple):
    """One change of a registration, and the server that told it."""

    key: str
    at_ms: int
    text: str
    server: str


class ToldEvents(NamedTuple):
    """What the servers answered. ``rows``: the newest first. ``cut_ms``: from when on they are complete; None: they are
    in all the time that was asked for."""

    past: Past
    rows: Sequence[EventRow]
    cut_ms: int | None


class PageOfEvents(NamedTuple):
    """The newest rows, and before which time older ones are; None: there are none."""

    rows: Sequence[EventRow]
    older_ms: int | None


class ServiceEnds(NamedTuple):
    """Instances of a service ended. ``instances``: how many; ``times``: changes in which they did; ``reason``: the one
    that was told most often; ``last_ms``: when the last one ended."""

    data_info_id: str
    instances: int
    times: int
    reason: str
    last_ms: int


def decoded_events(past: Past) -> list[HistoryNote]:
    """The events, the newest first. What cannot be read is left out: a server of another version may have sent it."""
    found: dict[str, tuple[tuple[int, str, int], HistoryNote]] = {}
    for server, event in past.events:
        try:
            decoded = decoded_event(event.event)
        except ModelError:
            continue
        found[decoded.id] = (-decoded.at_ms, server, -event.place), decoded
    return [event for _, event in sorted(found.values(), key=lambda pair: pair[0])]


def merged_tables(events: Sequence[HistoryNote], others: Sequence[EventRow]) -> list[EventRow]:
    """Commits of slot tables, the newest first, as rows. Those of one server that followed each other are one, where
    nothing of ``others`` happened between them."""
    times = sorted(row.at_ms for row in others)

    def follows(before: HistoryNote, event: HistoryNote) -> bool:
        is_near = before.node == event.node and event.at_ms - before.at_ms <= TOGETHER_MS
        return is_near and bisect_right(times, before.at_ms) == bisect_right(times, event.at_ms)

    groups: list[list[HistoryNote]] = []
    for event in reversed(events):
        if groups and follows(groups[-1][-1], event):
            groups[-1].append(event)
        else:
            groups.append([event])
    return [
        EventRow(group[0].id, group[-1].at_ms, group[0].node, "table", tables_sentence(group))
        for group in reversed(groups)
    ]


def event_rows(events: Iterable[HistoryNote]) -> list[EventRow]:
    """The same as rows."""
    return [EventRow(event.id, event.at_ms, event.node, event.kind, sentence(event)) for event in events]


def told_from(past: Past, most: int) -> int | None:
    """From when on the answers of all servers are complete, where one was cut after ``most`` events; None: all are."""
    if not past.more:
        return None
    oldest: dict[str, int] = {}
    numbers: Counter[str] = Counter()
    for server, event in past.events:
        numbers[server] += 1
        try:
            oldest[server] = decoded_event(event.event).at_ms
        except ModelError:
            continue
    cut = [oldest[server] for server, number in numbers.items() if number >= most and server in oldest]
    return max(cut, default=None)


def told_events(past: Past, most: int) -> ToldEvents:
    """The answers of all servers, each of which was asked for ``most`` events."""
    return ToldEvents(past, event_rows(decoded_events(past)), told_from(past, most))


def page_of_events(told: ToldEvents, sought: str, size: int) -> PageOfEvents:
    """The newest events with ``sought`` in them, in any case, about ``size``: those of one moment are not parted."""
    needle = sought.casefold()
    rows, before_ms = _complete(told)
    found = [row for row in rows if not needle or row.holds(needle)]
    shown = found[:size]
    shown += [row for row in found[size:] if row.at_ms == shown[-1].at_ms]
    return PageOfEvents(shown, shown[-1].at_ms if len(found) > len(shown) else before_ms)


def _complete(told: ToldEvents) -> tuple[Sequence[EventRow], int | None]:
    """The rows of the time in which no server lacks any, and before which time others are."""
    cut_ms = told.cut_ms
    if cut_ms is None:
        return told.rows, None
    for last_ms in (cut_ms + LATE_MS, cut_ms):
        if rows := [row for row in told.rows if row.at_ms > last_ms]:
            return rows, last_ms + 1
    return [row for row in told.rows if row.at_ms == cut_ms], cut_ms


def change_rows(past: Past, most: int) -> list[ChangeRow]:
    """The newest changes of registrations."""
    rows = [
        ChangeRow(f"{c.at_ms} {c.register_id} {c.version} {c.is_gone:d}", c.at_ms, change_sentence(c), server)
        for server, row in past.changes
        for c in row.changes
    ]
    return sorted(rows, key=lambda row: (-row.at_ms, row.key))[:most]


def service_ends(past: Past) -> list[ServiceEnds]:
    """The services of which instances ended, those with most first."""
    ended: dict[str, set[str]] = {}
    times: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {}
    last: dict[str, int] = {}
    for _, row in past.changes:
        name = row.data_info_id
        for change in row.changes:
            if not (change.ends or change.is_gone):
                continue
            ended.setdefault(name, set()).add(change.register_id)
            times[name] += 1
            last[name] = max(last.get(name, 0), change.at_ms)
            reasons.setdefault(name, Counter())[change.reason] += bool(change.reason)
    found = [
        ServiceEnds(name, len(ids), times[name], reasons[name].most_common(1)[0][0], last[name])
        for name, ids in ended.items()
    ]
    return sorted(found, key=lambda each: (-each.instances, -each.times, each.data_info_id))


def ends_text(ends: ServiceEnds, now: int | None) -> str:
    """How many instances of a service ended and why. ``now``: how many it has; None: it is not known."""
    has = "" if now is None else f" It has {f'{now:,}' if now else 'none'} now."
    why = ends.reason or "the reason is not known"
    often = "" if ends.times == 1 else "most often "
    verb = "ended" if ends.instances == 1 else "ended, the last"
    return f"{counted(ends.instances, 'instance')} {verb} at {time_text(ends.last_ms)}: {often}{why.rstrip('.')}.{has}"


def untold(past: Past, since_ms: int) -> list[str]:
    """What is missing of the time from ``since_ms`` on: servers that told nothing, and what is not written down."""
    by_reason: dict[str, list[str]] = {}
    for server, reason in past.silent.items():
        by_reason.setdefault(reason.rstrip("."), []).append(server)
    found = [f"{_capital(silent_text(servers, reason))}." for reason, servers in by_reason.items()]
    if past.begins_ms > since_ms:
        found.append(f"{_capital(begins_text(moment_text(past.begins_ms)))}.")
    for server, lost in sorted(past.lost.items()):
        found.append(f"{_capital(server)} could not write {counted(lost, 'event')} since its start.")
    return found


def _capital(text: str) -> str:
    """With a capital letter where it begins with a word; names of servers stay as they are."""
    return f"{text[:1].upper()}{text[1:]}" if text.startswith(("the ", "meta server at ")) else text
