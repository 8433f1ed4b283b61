"""Slot tables and servers for property tests, and a check of a plan's moves."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from slotreeve import Limits, Move, Plan, Server, Slot, SlotTable

Situation = tuple[SlotTable, list[Server], Limits]
"""The arguments of a call of an assigner or balancer."""


@st.composite
def complete_tables(draw: st.DrawFn, most_slots: int = 24, most_servers: int = 8) -> Situation:
    """Complete tables, spread over some of the live servers as unevenly as can be."""
    servers = _servers(draw, draw(st.integers(1, most_servers)))
    replicas = draw(st.integers(1, 4))
    copies = min(replicas, len(servers))
    holders = [server.name for server in servers[: draw(st.integers(copies, len(servers)))]]
    slots = [
        _slot(number, draw(st.permutations(holders))[:copies]) for number in range(draw(st.integers(1, most_slots)))
    ]
    return SlotTable(1, tuple(slots)), draw(st.permutations(servers)), Limits(replicas)


@st.composite
def broken_tables(draw: st.DrawFn, most_slots: int = 24, most_servers: int = 8) -> Situation:
    """Tables with servers that have left, missing leaders and missing followers; also unassigned tables."""
    servers_before = _servers(draw, draw(st.integers(1, most_servers)))
    live = servers_before[: draw(st.integers(1, len(servers_before)))]
    replicas = draw(st.integers(1, 4))
    names = [server.name for server in servers_before]
    slots = []
    for number in range(draw(st.integers(1, most_slots))):
        held = draw(st.permutations(names))[: draw(st.integers(0, min(replicas, len(names))))]
        slots.append(_slot(number, held) if draw(st.booleans()) else Slot(number, None, 0, tuple(held[1:])))
    return SlotTable(1, tuple(slots)), draw(st.permutations(live)), Limits(replicas)


def _servers(draw: st.DrawFn, count: int) -> list[Server]:
    """Servers, half of the time without zones, half of the time of equal weight. Their names do not sort as numbers."""
    zones = draw(st.sampled_from([[""], ["east", "west"], ["a", "b", "c", "d"]]))
    weights = draw(st.sampled_from([[1.0], [0.5, 1.0, 3.0]]))
    return [
        Server(f"data-{number}", draw(st.sampled_from(zones)), draw(st.sampled_from(weights)))
        for number in range(7, 7 + count)
    ]


def _slot(number: int, held: Sequence[str]) -> Slot:
    return Slot(number, held[0], 1, tuple(held[1:])) if held else Slot(number, None, 0, ())


def replayed(table: SlotTable, moves: Sequence[Move]) -> list[tuple[str | None, set[str]]]:
    """Leader and followers of every slot after the moves.

    ``leader``: the target leads and does not follow; the source does not hold the slot any more. ``follower``: the
    target follows, in the place of the source if there is one. ``drop``: the source does not follow any more.
    """
    state: list[tuple[str | None, set[str]]] = [(slot.leader, set(slot.followers)) for slot in table.slots]
    for move in moves:
        leader, followers = state[move.slot]
        if move.kind == "leader":
            assert move.source == leader, f"{move} takes the slot from a server that does not lead it"
            state[move.slot] = (move.target, followers - {str(move.target)})
            continue
        assert move.kind in ("follower", "drop"), f"{move.kind} is no kind of move"
        assert move.source is None or move.source in followers, (
            f"{move} takes the place of a server that does not follow"
        )
        followers.discard(str(move.source))
        if move.kind == "follower":
            followers.add(str(move.target))
    return state


def check_moves(before: SlotTable, plan: Plan) -> None:
    """Check that the moves lead from ``before`` to the plan's table and that each has a reason."""
    after = [(slot.leader, set(slot.followers)) for slot in plan.table.slots]
    assert replayed(before, plan.moves) == after, "the moves do not lead to the table"
    for move in plan.moves:
        assert move.reason.strip(), f"{move} has no reason"
