"""A stream of events, apart from HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from slotreeve.clock import LoopClock
from slotreeve.errors import RequestTimeout
from slotreeve_face_rest.face import COUNTERS
from slotreeve_face_rest.stream import PART_BYTES, EventStream


class States:
    """States of a service, one after the other; then the registry is gone."""

    def __init__(self, *states: bytes) -> None:
        self._states = states

    async def after(self, index: int, seconds: float) -> tuple[int, bytes] | None:
        if index >= len(self._states):
            raise RequestTimeout("the registry is gone")
        return index + 1, self._states[index]


def sent(source: States, method: str = "GET", after: int = 0) -> list[bytes]:
    """The bodies that a stream sends."""
    bodies: list[bytes] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            bodies.append(message["body"])

    async def story() -> None:
        stream = EventStream(source, after, 60, LoopClock(), dict.fromkeys(COUNTERS, 0))
        await stream({"type": "http", "method": method}, receive, send)

    asyncio.run(story())
    return bodies


def test_a_large_event_waits_for_its_reader_in_small_parts() -> None:
    state = bytes(range(1, 251)) * 1000
    bodies = sent(States(state))
    assert max(map(len, bodies)) <= PART_BYTES
    assert b"".join(bodies) == b"id: 1\nevent: service\ndata: " + state + b"\n\n"


def test_a_stream_goes_on_from_event_to_event_and_ends_where_the_registry_is_gone() -> None:
    assert b"".join(sent(States(b"A", b"B", b"C"), after=1)) == (
        b"id: 2\nevent: service\ndata: B\n\nid: 3\nevent: service\ndata: C\n\n"
    )


def test_a_head_gets_no_events() -> None:
    assert sent(States(b"A"), "HEAD") == [b""]
