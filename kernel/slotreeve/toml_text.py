"""Values as the text of TOML, which the standard library only reads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(key: str) -> str:
    """A key: bare where it may be, else as a text."""
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def toml_value(value: object) -> str:
    """A text, number, truth value, list or table, in one line.

    Raises:
        TypeError: it is, or holds, something else; TOML has no null.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_key(str(key))} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise TypeError(f"{value!r} has no form in TOML")


def _text(text: str) -> str:
    """A basic string. JSON's escapes are TOML's, but TOML escapes the character DEL, too, and has no halves of
    surrogate pairs: characters beyond 16 bits stand as they are."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
