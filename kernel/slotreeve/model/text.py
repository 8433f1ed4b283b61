"""Text that can be sent: every text in a message is encoded in UTF-8, which has no lone surrogates."""

from __future__ import annotations

import re

import msgspec

from slotreeve.errors import ModelError

UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What msgspec raises for bytes that it cannot decode. For a text that is not UTF-8 it raises Python's own error."""
SHOWN = 40
"""Characters of a wrong text that an error shows."""


# Also what turns the direction of a line around.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]").sub


def in_a_line(text: str) -> str:
    """The text with control characters escaped: what others have named must not write lines of a log or a table."""
    return _CONTROL(lambda match: match[0].encode("unicode_escape").decode(), text)


def check_text(what: str, text: object, longest: int) -> None:
    """Check a text that shall be sent. ``what`` names it in the error.

    Raises:
        ModelError: it is no text, has more than ``longest`` characters, or holds a lone surrogate, as ``os.fsdecode``
            makes of bytes that are not UTF-8.
    """
    if not isinstance(text, str):
        raise ModelError(f"{what} is {_shown(text)}; expected a text")
    if len(text) > longest:
        raise ModelError(f"{what} {text[:SHOWN]!r}... has {len(text)} characters; {longest} is the limit")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ModelError(
                f"{what} {text[:SHOWN]!r} holds {text[error.start]!r} at position {error.start}, which UTF-8 cannot "
                "encode; decode its bytes with their true encoding"
            ) from None


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
