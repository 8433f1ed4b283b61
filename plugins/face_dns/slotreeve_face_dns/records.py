"""Records as bytes, and answers put together from them. Pure.

The bytes of the records of a service are made once for each of its versions; each answer has them in another order.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import dns.rdata

from slotreeve_face_dns.questions import HEADER, IS_ANSWER, WANTS_RECURSION, Question

LARGEST = 65_535
"""Bytes of a message over TCP."""
ROOM = 600
"""Bytes of a message that are not for its answers: header, question, EDNS."""
OUR_PAYLOAD = 1_232
AUTHORITY, IS_CUT = 0x0400, 0x0200
_FIXED = struct.Struct("!HHHIH")
_POINTS = 0xC000
_LONGEST_POINTER = 0x3FFF
_AT_QUESTION = _POINTS | HEADER.size
_POINTER = struct.Struct("!H")
_EDNS = struct.pack("!BHHIH", 0, 41, OUR_PAYLOAD, 0, 0)
_BEFORE_RDATA = _FIXED.size


@dataclass(frozen=True, slots=True)
class Records:
    """What there is at a name, of one type. It is not changed.

    Attributes:
        answers: the records, each owned by the name of the question.
        weights: of each record; empty: all have the same.
        beside: for each answer the address of the target in it, as a record without an owner; empty: none. It stands in
            the additional part.
        target_at: where the target begins in the data of an answer.
        only_one: one of the answers is to be chosen.
    """

    answers: tuple[bytes, ...] = ()
    weights: tuple[int, ...] = ()
    beside: tuple[bytes, ...] = ()
    target_at: int = 0
    only_one: bool = False


NO_RECORDS = Records()
SRV_TARGET_AT = 6
"""Where the target begins in the data of an SRV record: priority, weight and port stand before it."""


def record(data: dns.rdata.Rdata, ttl_seconds: int) -> bytes:
    """A record that is owned by the name of the question."""
    return _POINTER.pack(_AT_QUESTION) + without_owner(data, ttl_seconds)


def without_owner(data: dns.rdata.Rdata, ttl_seconds: int) -> bytes:
    """A record without its owner, which goes before it."""
    wire = data.to_wire() or b""
    return _FIXED.pack(0, data.rdtype, data.rdclass, ttl_seconds, len(wire))[2:] + wire


def in_one_message(records: Records) -> Records:
    """The records that fit into one message over TCP. Which ones does not depend on chance, so that whoever asks again
    and again sees the same ones."""
    count = sum(size <= LARGEST - ROOM for size in accumulate(map(len, records.answers)))
    if count == len(records.answers):
        return records
    return replace(
        records,
        answers=records.answers[:count],
        weights=records.weights[:count],
        beside=records.beside[:count],
    )


def order(records: Records, rng: random.Random) -> Sequence[int]:
    """Places of the answers in random order, in which one of twice the weight comes first twice as often (Efraimidis
    and Spirakis). Where all weights are the same, it is a rotation, which costs nothing."""
    count = len(records.answers)
    if records.weights:
        keys = [rng.random() ** (1 / max(weight, 1)) for weight in records.weights]
        return sorted(range(count), key=keys.__getitem__, reverse=True)
    first = int(rng.random() * count)
    return [*range(first, count), *range(first)]


def answer(question: Question, records: Records, limit: int, rng: random.Random) -> bytes:
    """The answer with all records, or cut to ``limit`` bytes, with the flag that says so. What is only beside them is
    left out first."""
    chosen = order(records, rng)[: 1 if records.only_one else None]
    size = HEADER.size + len(question.wire) + (len(_EDNS) if question.payload >= 0 else 0)
    parts: list[bytes] = []
    at = HEADER.size + len(question.wire)
    targets: dict[bytes, int] = {}
    for number in chosen:
        one = records.answers[number]
        if size + len(one) > limit:
            break
        if records.beside and records.beside[number]:
            targets.setdefault(records.beside[number], at + _BEFORE_RDATA + records.target_at)
        parts.append(one)
        size += len(one)
        at += len(one)
    is_cut = len(parts) < len(chosen)
    beside: list[bytes] = []
    for data, place in () if is_cut else targets.items():
        if place > _LONGEST_POINTER or size + _POINTER.size + len(data) > limit:
            break
        beside.append(_POINTER.pack(_POINTS | place) + data)
        size += _POINTER.size + len(data)
    return _message(question, AUTHORITY | (IS_CUT if is_cut else 0), (parts, (), beside))


def without_records(question: Question, authority: Iterable[bytes], code: int = 0, flags: int = AUTHORITY) -> bytes:
    """An answer without records, and what says whose authority that is."""
    return _message(question, flags | code, ((), tuple(authority), ()))


def owned_by_end_of(question: Question, owner_length: int, rest: bytes) -> bytes:
    """A record that is owned by the end of the question's name; ``owner_length``: of that end in the message."""
    return _POINTER.pack(_POINTS | (HEADER.size + len(question.name) - owner_length)) + rest


def _message(question: Question, flags: int, parts: tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]) -> bytes:
    answers, authorities, beside = parts
    edns = [_EDNS] if question.payload >= 0 else []
    head = HEADER.pack(
        question.number,
        IS_ANSWER | (question.flags & WANTS_RECURSION) | flags,
        1,
        len(answers),
        len(authorities),
        len(beside) + len(edns),
    )
    return b"".join((head, question.wire, *answers, *authorities, *beside, *edns))
