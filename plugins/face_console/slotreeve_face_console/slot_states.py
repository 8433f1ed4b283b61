"""Slots as the slot map shows them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slotreeve_client.condition import ClusterCondition


class ServerNumbers:
    """A number for each data server, which it keeps for as long as the gateway runs: maps on open pages go on meaning
    the same."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, name: str | None) -> int:
        """The number of a server; -1 for None."""
        return -1 if name is None else self.numbers.setdefault(name, len(self.numbers))


@dataclass(frozen=True)
class SlotStates:
    """What is known of all slots.

    Attributes:
        cells: for each slot, by its id: the number of its leader (-1: none) and those of its followers and learners,
            with commas; then ``g`` where the leader is gone (no member any more), ``s`` where it does not serve yet,
            ``c`` where a learner or follower still copies.
        leads, follows: number of slots by server.
        kinds: number of slots that are ``whole``, lack followers (``thin``), have a follower that still copies
            (``copying``), a leader that does not serve yet (``settling``), or none or one that is gone (``lost``). Each
            slot is counted once, as the worst.
    """

    cells: Mapping[str, str] = field(default_factory=dict)
    leads: Mapping[str, int] = field(default_factory=dict)
    follows: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)

    @property
    def not_serving(self) -> int:
        """Number of slots that answer nobody now."""
        return self.kinds.get("lost", 0) + self.kinds.get("settling", 0)

    @property
    def without_all_copies(self) -> int:
        """Number of slots that serve, and lack a complete copy."""
        return self.kinds.get("thin", 0) + self.kinds.get("copying", 0)


def wanted_followers(condition: ClusterCondition) -> int:
    """How many followers each slot should have by the configuration, whether or not so many data servers live."""
    view = condition.view
    return 0 if view is None or view.facts is None else max(0, view.facts.replicas - 1)


def slots_key(condition: ClusterCondition) -> object:
    """What :func:`slot_states` depends on: where two keys are equal, the states are."""
    if condition.view is None:
        return None
    members = condition.members.members if condition.members is not None else ()
    unsettled = {member.node.name: tuple(member.unsettled) for member in members if member.unsettled}
    view = condition.view
    return view.term, view.revision, view.table.epoch, wanted_followers(condition), unsettled


def slot_states(condition: ClusterCondition, numbers: ServerNumbers) -> SlotStates:
    """All slots of the table."""
    if condition.view is None:
        return SlotStates()
    unsettled = _unsettled(condition)
    followers, alive = wanted_followers(condition), {node.name for node in condition.view.data}
    cells: dict[str, str] = {}
    kinds: Counter[str] = Counter()
    for node in sorted(condition.view.data, key=lambda node: node.name):
        numbers.of(node.name)
    for slot in condition.view.table.slots:
        incomplete = unsettled.get(slot.id, ())
        settles = slot.leader in incomplete
        copies = bool(slot.learners) or any(name in incomplete for name in slot.followers)
        is_gone = slot.leader is not None and slot.leader not in alive
        places = ",".join(str(numbers.of(name)) for name in (slot.leader, *slot.followers, *slot.learners))
        cells[str(slot.id)] = f"{places}{'g' * is_gone}{'s' * settles}{'c' * copies}"
        if slot.leader is None or is_gone:
            kinds["lost"] += 1
        elif settles:
            kinds["settling"] += 1
        elif len(slot.followers) + len(slot.learners) < followers:
            kinds["thin"] += 1
        else:
            kinds["copying" if copies else "whole"] += 1
    slots = condition.view.table.slots
    leads = Counter(slot.leader for slot in slots if slot.leader is not None)
    return SlotStates(cells, leads, Counter(name for slot in slots for name in slot.holders[1:]), kinds)


def _unsettled(condition: ClusterCondition) -> dict[int, Sequence[str]]:
    """For each slot the servers that do not hold it completely yet."""
    found: dict[int, list[str]] = {}
    for member in condition.members.members if condition.members is not None else ():
        for slot in member.unsettled:
            found.setdefault(slot, []).append(member.node.name)
    return dict(found)
