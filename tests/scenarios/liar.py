"""Messages of a peer that has a good key and says what it likes: of the right types, with values that nobody sends."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import inspect
from slotreeve.ports import Message

ODD_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 256, 65_536, 2**31 - 1, -(2**31), 2**53, 2**62, -(2**62), -(2**63), 2**64 - 1)
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, 5.0, float("inf"), float("-inf"), float("nan"))
ODD_TEXTS = (
    "",
    " ",
    "a",
    "*",
    "#@#",
    "a#@#b#@#c",
    "a#@#b",
    "../../etc/passwd",
    "name@127.0.0.1:1",
    "a@b@c",
    "x" * 5_000,
    "line\nfeed",
    "\x00",
    "\u202e\ud7ff",
    "config/slotreeve.orders",
)
MOST_OF = 4


class Liar:
    """Makes messages.

    Args:
        texts: names, addresses, process ids and services that there are.
        numbers: slots, epochs, terms and versions that there are.
    """

    def __init__(self, rng: random.Random, texts: Sequence[str], numbers: Sequence[int]) -> None:
        self._rng, self._texts, self._numbers = rng, (*texts, *texts, *ODD_TEXTS), (*numbers, *numbers, *ODD_NUMBERS)

    def message(self, kind: type[Message]) -> Message:
        """A message of this type."""
        made = self._struct(inspect.type_info(kind))
        assert isinstance(made, Message)
        return made

    def _struct(self, info: Any) -> object:
        fields = {field.name: self._value(field.type) for field in info.fields if self._is_given(field)}
        while True:
            try:
                made = info.cls(**fields)
                # It must be one that can be sent: the sender's own checks are not what is tried here.
                msgspec.msgpack.encode(made)
            except (TypeError, ValueError, msgspec.MsgspecError):
                fields = {field.name: self._value(field.type) for field in info.fields}
            else:
                return made

    def _is_given(self, field: Any) -> bool:
        return bool(field.required) or self._rng.random() < 0.7

    def _value(self, info: Any) -> Any:
        rng = self._rng
        match info:
            case inspect.StructType():
                return self._struct(info)
            case inspect.UnionType():
                return self._value(rng.choice(info.types))
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType():
                low = info.ge if info.ge is not None else -(2**63)
                high = info.le if info.le is not None else 2**64 - 1
                return min(high, max(low, rng.choice(self._numbers)))
            case inspect.FloatType():
                return rng.choice(ODD_FLOATS)
            case inspect.StrType():
                return rng.choice(self._texts)
            case inspect.BytesType():
                return rng.choice((b"", b"\xff", b"{}", rng.randbytes(rng.randrange(40)), b"x" * 10_000))
            case inspect.NoneType():
                return None
            case inspect.ListType():
                return [self._value(info.item_type) for _ in range(rng.randrange(MOST_OF))]
            case inspect.VarTupleType():
                return tuple(self._value(info.item_type) for _ in range(rng.randrange(MOST_OF)))
            case inspect.TupleType():
                return tuple(map(self._value, info.item_types))
            case inspect.SetType() | inspect.FrozenSetType():
                return frozenset(self._value(info.item_type) for _ in range(rng.randrange(MOST_OF)))
            case inspect.DictType():
                return {self._value(info.key_type): self._value(info.value_type) for _ in range(rng.randrange(MOST_OF))}
            case inspect.EnumType():
                return rng.choice(list(info.cls))
            case inspect.LiteralType():
                return rng.choice(info.values)
        raise AssertionError(f"a message has a field of a kind that the liar does not know: {info}")
