"""Committed values and their watchers."""

from __future__ import annotations

import asyncio
import logging

import pytest
from slotreeve.ports import Versioned
from slotreeve_machines.watched_state import WatchedState

HELD = Versioned(b"v", 1, 1)


async def refuse(key: str, value: bytes, expected_version: int | None, term: int) -> int:
    raise AssertionError("nothing is written here")


def test_values_are_read_by_key() -> None:
    state = WatchedState(refuse)
    state.values.update({"b": HELD, "a": HELD})
    assert state.keys() == ["a", "b"]
    assert state.read("a") == HELD
    assert state.read("c") is None


def test_a_write_goes_to_the_writer_and_returns_its_version() -> None:
    async def write(key: str, value: bytes, expected_version: int | None, term: int) -> int:
        assert (key, value, expected_version, term) == ("k", b"v", 4, 9)
        return 5

    assert asyncio.run(WatchedState(write).write("k", b"v", 4, 9)) == 5


def test_each_watcher_is_called_until_it_stops_also_one_that_watches_twice() -> None:
    state, seen = WatchedState(refuse), list[str]()
    stops = [state.watch(lambda key, _held: seen.append(key)) for _ in range(2)]
    state.notify("a", HELD)
    stops[0]()
    stops[0]()
    state.notify("b", HELD)
    stops[1]()
    state.notify("c", HELD)
    assert seen == ["a", "a", "b"]


def test_a_watcher_that_raises_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_key: str, _held: Versioned) -> None:
        raise ValueError("not now")

    state, seen = WatchedState(refuse), list[str]()
    state.watch(fail)
    state.watch(lambda key, _held: seen.append(key))
    with caplog.at_level(logging.ERROR):
        state.notify("a", HELD)
    assert seen == ["a"]
    assert "'a'" in caplog.text
