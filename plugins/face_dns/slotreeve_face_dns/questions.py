"""Questions as resolvers send them, read without a parser for everything that DNS may say. Pure.

Nearly every message is of this form: one question of class IN, at most EDNS beside it. What is not is left to
dnspython.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = struct.Struct("!HHHHHH")
IS_ANSWER, WANTS_RECURSION = 0x8000, 0x0100
_USUAL_FLAGS = 0x0130
"""Recursion desired, and two flags of DNSSEC."""
_KIND_AND_CLASS = struct.Struct("!HH")
_OPT = struct.Struct("!BHHBBHH")
_OPT_KIND, _IN = 41, 1
_LONGEST_NAME, _LONGEST_LABEL = 255, 63


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what the answer to it depends on.

    Attributes:
        number, flags: of its header.
        wire: name, type and class, as they were asked and must be repeated.
        name: the name, as it was asked.
        kind: the type of the records.
        payload: the largest answer over UDP that the asker takes; -1: it speaks no EDNS.
    """

    number: int
    flags: int
    wire: bytes
    name: bytes
    kind: int
    payload: int


def usual_question(wire: bytes) -> Question | None:
    """The question of a message; None: it is not of the usual form, or is damaged."""
    if len(wire) < HEADER.size + 1 + _KIND_AND_CLASS.size:
        return None
    number, flags, questions, answers, authorities, additional = HEADER.unpack_from(wire)
    if flags & ~_USUAL_FLAGS or questions != 1 or answers or authorities or additional > 1:
        return None
    at = HEADER.size
    while length := wire[at]:
        at += 1 + length
        if length > _LONGEST_LABEL or at >= len(wire):
            return None
    name, end = wire[HEADER.size : at + 1], at + 1 + _KIND_AND_CLASS.size
    if len(name) > _LONGEST_NAME or end > len(wire):
        return None
    kind, of_class = _KIND_AND_CLASS.unpack_from(wire, at + 1)
    payload = _payload(wire, end) if additional else -1
    if of_class != _IN or payload is None or (not additional and end != len(wire)):
        return None
    return Question(number, flags, wire[HEADER.size : end], name, kind, payload)


def _payload(wire: bytes, at: int) -> int | None:
    """The payload size that EDNS of version 0 names, where it is the rest of the message."""
    if len(wire) < at + _OPT.size:
        return None
    root, kind, payload, more_code, version, _, length = _OPT.unpack_from(wire, at)
    if root or kind != _OPT_KIND or more_code or version or len(wire) != at + _OPT.size + length:
        return None
    return int(payload)
