"""What others have named, in a line of the log. Pure."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]").sub


def in_a_line(text: str) -> str:
    """The text with control characters escaped: what others have named must not write lines of the log."""
    return _CONTROL(lambda match: match[0].encode("unicode_escape").decode(), text)
