"""Which part of the history a page shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from slotreeve.errors import RequestError
from slotreeve_events.schema import HISTORY_KINDS, USUAL_KINDS
from slotreeve_events.times import parse_time

LONGEST_SOUGHT = 200
MINUTE_MS = 60_000
SPANS = {
    "30m": ("last 30 min", 30 * MINUTE_MS),
    "1h": ("last hour", 60 * MINUTE_MS),
    "6h": ("last 6 h", 360 * MINUTE_MS),
    "24h": ("last 24 h", 1_440 * MINUTE_MS),
}
"""Time spans: in words, and in milliseconds."""
FIRST_SPAN = "1h"
LONGEST_TIME = 14
"""In digits: until the year 5138."""
_MINUTES = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(?:min(?:utes?)?)?(?:\s*ago)?")


class HistoryFilter(NamedTuple):
    """What somebody chose. ``kinds``: in the order of the form; ``before_ms``: only what happened before."""

    kinds: tuple[str, ...] = USUAL_KINDS
    sought: str = ""
    span: str = FIRST_SPAN
    before_ms: int | None = None

    @property
    def span_ms(self) -> int:
        """Length of the time span."""
        return SPANS[self.span][1]

    def query(self, before_ms: int | None) -> str:
        """The query of the page with another time before which events happened; None: it shows the newest."""
        fields = {"span": self.span, "q": self.sought, "before": "" if before_ms is None else str(before_ms)}
        chosen: dict[str, Sequence[str] | str] = {name: value for name, value in fields.items() if value}
        if self.kinds != USUAL_KINDS:
            chosen["kind"] = self.kinds
        return urlencode(chosen, doseq=True)


def filter_of(query: Mapping[str, Sequence[str]]) -> HistoryFilter:
    """What a query asks for; without kinds, those that are not very many.

    Raises:
        RequestError: there is no such kind, span or time.
    """
    kinds, span, before = query.get("kind", ()), _first(query, "span") or FIRST_SPAN, _first(query, "before")
    unknown = sorted(set(kinds) - HISTORY_KINDS.keys())
    if unknown:
        raise RequestError(f"kind is {unknown[0][:20]!r}; expected one of {', '.join(HISTORY_KINDS)}")
    if span not in SPANS:
        raise RequestError(f"span is {span[:20]!r}; expected one of {', '.join(SPANS)}")
    if before and not (before.isascii() and before.isdigit() and len(before) <= LONGEST_TIME):
        raise RequestError(f"before is {before[:20]!r}; expected milliseconds since 1970")
    chosen = tuple(kind for kind in HISTORY_KINDS if kind in kinds) or USUAL_KINDS
    return HistoryFilter(chosen, _first(query, "q")[:LONGEST_SOUGHT], span, int(before) if before else None)


def moment_of(text: str, now_ms: int) -> str:
    """A time as somebody typed it, as an ISO time: how many minutes ago, a time of day (UTC), or as
    :func:`slotreeve_events.times.parse_time` reads it.

    Raises:
        ModelError: it is no time.
        RequestError: it has not come yet.
    """
    minutes = _MINUTES.fullmatch(text.strip().lower().removesuffix("utc").strip())
    at_ms = parse_time("at", f"{minutes[1]}m" if minutes else text.removesuffix("UTC"), now_ms, UTC)
    if at_ms > now_ms:
        raise RequestError(f"at is {text[:40]!r}, which has not come yet; expected a time in the past")
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _first(query: Mapping[str, Sequence[str]], name: str) -> str:
    return query[name][0].strip() if query.get(name) else ""
