"""What a request asks for in its query string. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from slotreeve.errors import ModelError

from slotreeve_face_consul.durations import seconds_of

DEFAULT_WAIT_SECONDS = 300.0
LONGEST_WAIT_SECONDS = 600.0
MOST_PARAMETERS = 64
MOST_INDEX = 2**64 - 1
_INDEX = re.compile(r"[0-9]{1,20}").fullmatch
_TRUE = {"", "1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
_NOT_HERE = {
    "filter": "filter expressions are not supported; ask for all and choose",
    "node-meta": "nodes have no metadata here",
    "peer": "there are no peers here",
    "ns": "there are no namespaces here",
    "partition": "there are no partitions here",
    "sg": "there are no sameness groups here",
}
"""Whoever asks for less than everything must not be given more."""
DEFAULTS = {"ns": "default", "partition": "default"}


@dataclass(frozen=True, slots=True)
class ConsulQuery:
    """A query string.

    Attributes:
        index: of a blocking query: the index that the caller has; 0: do not wait.
        wait_seconds: of a blocking query: wait at most so long.
        passing: only those that are passing.
        tags: only those that have all of these tags, in small letters.
        near: sort by distance from this node; empty: do not.
        token: the caller's token; empty: none is here.
        values: all parameters; the last value of each.
    """

    index: int
    wait_seconds: float
    passing: bool
    tags: frozenset[str]
    near: str
    token: str
    values: dict[str, str]

    @classmethod
    def parse(cls, query_string: bytes, datacenter: str) -> ConsulQuery:
        """Read a query string of a request to ``datacenter``.

        Raises:
            ModelError: a value is not good, or the request asks for something that is not here.
        """
        if not query_string:
            return NOTHING
        try:
            pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
        except ValueError:
            raise ModelError(f"the query string has more than {MOST_PARAMETERS} parameters") from None
        values = dict(pairs)
        for name, why in _NOT_HERE.items():
            if values.get(name, "") not in ("", DEFAULTS.get(name, "")):
                raise ModelError(f'Invalid query parameter: "{name}" - {why}')
        if values.get("dc", "") not in ("", datacenter):
            raise ModelError(f'No path to datacenter "{values["dc"][:60]}"; this is "{datacenter}"')
        return cls(
            _index(values.get("index", "")),
            _wait(values.get("wait", "")),
            "passing" in values and flag("passing", values["passing"]),
            frozenset(value.lower() for name, value in pairs if name == "tag" and value),
            values.get("near", ""),
            values.get("token", ""),
            values,
        )


NOTHING = ConsulQuery(0, DEFAULT_WAIT_SECONDS, False, frozenset(), "", "", {})


def flag(name: str, value: str) -> bool:
    """A parameter that is true or false; without a value it is true.

    Raises:
        ModelError: it is neither.
    """
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ModelError(f"Invalid value for ?{name}: {value[:20]!r}; expected true or false")


def _index(text: str) -> int:
    if not text:
        return 0
    if not _INDEX(text) or int(text) > MOST_INDEX:
        raise ModelError(f"Invalid index: {text[:40]!r}; expected a whole number from 0 to 2^64 - 1")
    return int(text)


def _wait(text: str) -> float:
    seconds = seconds_of("Invalid wait time: it", text) if text else 0.0
    return min(seconds, LONGEST_WAIT_SECONDS) if seconds else DEFAULT_WAIT_SECONDS
