"""Times as people write and read them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from slotreeve.errors import ModelError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])(?:\s*ago)?")
EXPECTED = "expected how long ago, such as 90s, 10m, 2h, 1d; or a time of day such as 14:05 or 14:05:30; or an ISO "
EXPECTED += "time such as 2026-11-26T14:05:30; or now"


def parse_time(name: str, text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """A moment in milliseconds since 1970.

    Args:
        name: what the text is, for the message.
        now_ms: the present moment.
        zone: of times without one; None: of this machine. A time of day is the last such time, and none is before 1970.

    Raises:
        ModelError: it is no time.
    """
    given = text.strip().lower()
    if given == "now":
        return now_ms
    if ago := _AGO.fullmatch(given):
        return now_ms - int(min(now_ms, 1000 * float(ago[1]) * _UNITS[ago[2]]))
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?", given):
            hour, _, rest = given.partition(":")
            of_day = datetime.fromisoformat(f"{now:%Y-%m-%d}T{hour.zfill(2)}:{rest}")
            found_ms = _ms(of_day.replace(tzinfo=zone))
            return found_ms if found_ms <= now_ms else _ms((of_day - timedelta(days=1)).replace(tzinfo=zone))
        found = datetime.fromisoformat(text.strip())
        return max(0, _ms(found if found.tzinfo is not None else found.replace(tzinfo=zone)))
    except (ValueError, OverflowError):
        raise ModelError(f"{name} {text[:40]!r} is no time; {EXPECTED}") from None


def _ms(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)


def shown_time(at_ms: int, zone: tzinfo | None = None) -> str:
    """A moment for people: date and time with milliseconds, in ``zone`` (None: that of this machine)."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
    except (ValueError, OverflowError, OSError):  # the clock of a server that is far off
        return f"{at_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d}"
