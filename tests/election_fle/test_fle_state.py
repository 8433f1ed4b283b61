"""The committed state as a process sees it: each change reported once, also over a restart of the state machine."""

from __future__ import annotations

from slotreeve.ports import Versioned
from slotreeve_election_fle.state import ReplicatedState


async def refuse(key: str, value: bytes, expected_version: int | None, term: int) -> int:
    raise AssertionError("nothing is written here")


def test_what_the_disk_holds_is_read_without_a_call_to_the_watchers() -> None:
    state, seen = ReplicatedState(refuse), list[str]()
    state.watch(lambda key, _held: seen.append(key))
    state.load({"a": Versioned(b"1", 1, 1)})
    assert state.read("a") == Versioned(b"1", 1, 1)
    assert seen == []


def test_a_change_that_is_known_already_is_not_reported_again() -> None:
    state, seen = ReplicatedState(refuse), list[int]()
    state.watch(lambda _key, held: seen.append(held.version))
    state.apply([("a", Versioned(b"1", 1, 1)), ("a", Versioned(b"2", 2, 1))])
    state.load({"a": Versioned(b"2", 2, 1)})
    state.apply([("a", Versioned(b"1", 1, 1)), ("a", Versioned(b"3", 3, 2))])
    assert seen == [1, 2, 3]
    assert state.read("a") == Versioned(b"3", 3, 2)
