"""Settings without their secrets, for files that are sent to others. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

REMOVED = "(removed)"
_SECRET_KEY = re.compile(r"(password|passwd|passphrase|secret|token|credential|private|api_?key)", re.IGNORECASE)
_IN_URL = re.compile(r"(?P<head>[\w+.-]+://[^\s/@:]*:)(?P<secret>\S*)(?=@)")
_IN_PAIRS = re.compile(
    r"(?P<head>\b(?:password|passwd|passphrase|sslpassword|secret|token)\s*=\s*)"
    r"(?P<secret>'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s;&]+)",
    re.IGNORECASE,
)


def redacted(key: str, value: object) -> object:
    """A value of a setting for others to see.

    A secret is what stands under a key that says so, the password in an address (``postgres://user:PASSWORD@host``),
    and the value of such a word in a list of pairs (``password=...``). Whatever else holds a secret stays as it is.

    Args:
        key: the dotted key of the setting.
        value: a text, number, list or mapping.
    """
    if isinstance(value, Mapping):
        return {name: redacted(f"{key}.{name}", each) for name, each in value.items()}
    if _SECRET_KEY.search(key.rpartition(".")[2]) and value not in ("", None, False):
        return REMOVED
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Sequence | frozenset) and not isinstance(value, bytes):
        return [redacted(key, each) for each in value]
    return value


def _text(value: str) -> str:
    for pattern in (_IN_URL, _IN_PAIRS):
        value = pattern.sub(lambda match: match["head"] + REMOVED, value)
    return value


def redacted_rows(rows: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Rows of ``slotreeve config show`` without secrets."""
    return [{**row, "value": redacted(str(row["key"]), row["value"])} for row in rows]
