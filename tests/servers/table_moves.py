"""The moves of committed tables, made again: a second opinion on what each kind of move means."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.model.slots import Move, Slot


def moved(row: Slot, moves: Iterable[Move]) -> tuple[str | None, set[str], set[str]]:
    """Leader, followers and learners after the moves of one slot. Fails where a move is not possible."""
    leader, followers, learners = row.leader, set(row.followers), set(row.learners)
    for move in moves:
        match move.kind:
            case "leader":
                assert move.source == leader != move.target
                leader = move.target
                followers.discard(str(leader))
                learners.discard(str(leader))
            case "follower":
                assert move.target is not None
                assert move.target not in {leader, *followers}
                learners.discard(move.target)
                followers.add(move.target)
            case "learn":
                assert move.target is not None
                assert move.target not in {leader, *followers, *learners}
                learners.add(move.target)
            case "demote":
                assert move.source in followers | learners
                followers.discard(str(move.source))
                learners.add(str(move.source))
            case "drop":
                assert move.source in followers | learners
                followers.discard(move.source)
                learners.discard(move.source)
            case other:
                raise AssertionError(f"there is no move {other}")
    return leader, followers, learners
