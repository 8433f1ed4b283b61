"""The copy of the meta state: changes by revision, each taken once."""

from __future__ import annotations

from slotreeve.ports import Versioned
from slotreeve_election_mysql.state import CopiedState


async def refuse(key: str, value: bytes, expected_version: int | None, term: int) -> int:
    raise AssertionError("nothing is written here")


def test_changes_are_taken_by_revision_and_only_once() -> None:
    state, seen = CopiedState(refuse), list[tuple[str, int]]()
    state.watch(lambda key, held: seen.append((key, held.version)))
    state.apply([(3, "a", Versioned(b"1", 1, 1)), (5, "b", Versioned(b"1", 1, 1))])
    state.apply([(3, "a", Versioned(b"1", 1, 1)), (6, "a", Versioned(b"2", 2, 1))])
    assert seen == [("a", 1), ("b", 1), ("a", 2)]
    assert state.newest.revision == 6
    assert state.keys() == ["a", "b"]


def test_a_key_that_an_accepted_older_state_does_not_have_is_told_as_version_0() -> None:
    state, seen = CopiedState(refuse), list[tuple[str, int]]()
    state.apply([(3, "a", Versioned(b"1", 1, 1)), (5, "b", Versioned(b"1", 1, 1)), (6, "c", Versioned(b"1", 1, 1))])
    state.watch(lambda key, held: seen.append((key, held.version)))
    state.replace([(3, "a", Versioned(b"1", 1, 1)), (4, "d", Versioned(b"1", 1, 1))])
    assert seen == [("d", 1), ("b", 0), ("c", 0)]
    assert state.read("b") is None
