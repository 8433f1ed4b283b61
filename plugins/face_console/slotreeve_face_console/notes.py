"""What changed between two readings of the cluster, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slotreeve.model.nodes import Node
from slotreeve_client.condition import RECENT_SECONDS, ClusterCondition

MOST_FORMER = 4
"""Servers that lost slots, each of which has a sentence."""
MOST_NAMES = 4


@dataclass(frozen=True)
class Note:
    """Something that happened: when, in milliseconds of a wall clock, and what, in a sentence."""

    at_ms: int
    text: str


def departures(condition: ClusterCondition) -> list[Note]:
    """Who left in the last hour and why, as the meta leader tells."""
    if condition.members is None:
        return []
    since = condition.members.at_ms - 1000 * RECENT_SECONDS
    return [
        Note(left.at_ms, f"{left.node.role} server {left.node.name} left: {left.reason}.")
        for left in condition.members.left
        if left.at_ms >= since
    ]


def differences(before: ClusterCondition, after: ClusterCondition) -> list[str]:
    """Sentences about who leads, who joined or was started again, and which slots have another leader. Who left is
    told by :func:`departures`."""
    return [*_of_leader(before, after), *_of_members(before, after), *_of_slots(before, after)]


def _of_leader(before: ClusterCondition, after: ClusterCondition) -> Iterator[str]:
    old, new = before.leader, after.leader
    old_name, new_name = old and old.name, new and new.name
    if new is None or new.known is None:
        if old_name:
            yield f"{old_name} does not lead the meta servers any more; no other leads yet."
    elif old_name is None:
        yield f"{new_name} leads the meta servers in term {new.known.term}; nobody led before."
    elif old_name != new_name:
        yield f"{new_name} leads the meta servers in term {new.known.term}; {old_name} led before."
    elif old is not None and old.known is not None and old.known.term != new.known.term:
        yield f"{new_name} was elected again: the term is {new.known.term}, and was {old.known.term}."


def _of_members(before: ClusterCondition, after: ClusterCondition) -> Iterator[str]:
    if before.view is None or after.view is None:
        return
    old = {node.name: node for node in _nodes(before)}
    for node in _nodes(after):
        if node.name not in old:
            yield f"{node.role} server {node.name} joined."
        elif old[node.name].process_id != node.process_id:
            yield f"{node.role} server {node.name} was started again."


def _nodes(condition: ClusterCondition) -> list[Node]:
    return [] if condition.view is None else [*condition.view.data, *condition.view.sessions]


def _of_slots(before: ClusterCondition, after: ClusterCondition) -> Iterator[str]:
    if before.view is None or after.view is None or before.view.table.epoch == after.view.table.epoch:
        return
    old, new = before.view.table.slots, after.view.table.slots
    if len(old) != len(new):
        if not old:
            yield f"The first slot table was made, with {len(new):,} slots."
        return
    gone: dict[str | None, list[str]] = {}
    for was, now in zip(old, new, strict=True):
        if was.leader != now.leader:
            gone.setdefault(was.leader, []).append(now.leader or "nobody")
    for former, leaders in sorted(gone.items(), key=lambda moves: -len(moves[1]))[:MOST_FORMER]:
        yield _moved(former, leaders, after.view.table.epoch)


def _moved(former: str | None, leaders: Sequence[str], epoch: int) -> str:
    names = sorted(set(leaders))
    shown = ", ".join(names) if len(names) <= MOST_NAMES else f"{', '.join(names[:MOST_NAMES])} and others"
    slots = "1 slot" if len(leaders) == 1 else f"{len(leaders):,} slots"
    led = f"{former} led" if former is not None else "nobody led"
    return f"{slots} that {led} went to {shown} (slot table {epoch})."
