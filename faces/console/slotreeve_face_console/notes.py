"""What changed between two readings of the cluster, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slotreeve.model.nodes import Node
from slotreeve.model.slots import Slot
from slotreeve_client.condition import ClusterCondition


def differences(before: ClusterCondition, after: ClusterCondition) -> list[str]:
    """Sentences about who leads, who joined or was started again, and which slots have another leader. Who left is
    told with the reason by :meth:`ClusterCondition.news` and :meth:`~ClusterCondition.problems`."""
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
    moved = [(was, now) for was, now in zip(old, new, strict=True) if was.leader != now.leader]
    if moved:
        yield _moved(moved, after.view.table.epoch)


def _moved(moved: Sequence[tuple[Slot, Slot]], epoch: int) -> str:
    lost, won = _names(was.leader for was, _ in moved), _names(now.leader for _, now in moved)
    number = "1 slot has" if len(moved) == 1 else f"{len(moved):,} slots have"
    return f"{number} another leader since slot table {epoch}: {won} instead of {lost}."


def _names(leaders: Iterator[str | None]) -> str:
    found = sorted({leader or "nobody" for leader in leaders})
    return ", ".join(found) if len(found) <= 4 else f"{', '.join(found[:3])} and {len(found) - 3} others"
