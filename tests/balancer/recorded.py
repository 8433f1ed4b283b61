"""The recorded results of the original as values of our model."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotreeve import Limits, Server, Slot, SlotTable

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
Rows = list[tuple[str | None, set[str]]]


@dataclass(frozen=True)
class Vector:
    """One line; ``line`` is the JSON object as it stands there."""

    table: SlotTable
    servers: list[Server]
    limits: Limits
    line: dict[str, Any]


def vectors(name: str) -> list[Vector]:
    with gzip.open(VECTORS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [_vector(json.loads(line)) for line in lines]


def _vector(line: dict[str, Any]) -> Vector:
    table = SlotTable.unassigned(line["slots"])
    if line["initial"] is not None:
        table = SlotTable(0, tuple(Slot(slot, leader, 0, tuple(f)) for slot, leader, f in line["initial"]))
    return Vector(table, [Server(name) for name in line["servers"]], Limits(line["replicas"]), line)


def expected(rows: Sequence[Any]) -> Rows:
    return [(leader, set(followers)) for _, leader, followers in rows]


def actual(table: SlotTable) -> Rows:
    return [(slot.leader, set(slot.followers)) for slot in table.slots]


def changes(before: SlotTable, after: SlotTable) -> tuple[int, int]:
    """Leaders changed, followers added."""
    pairs = list(zip(before.slots, after.slots, strict=True))
    return (
        sum(a.leader != b.leader for a, b in pairs),
        sum(len(set(b.followers) - set(a.followers)) for a, b in pairs),
    )


def copied(before: SlotTable, after: SlotTable) -> int:
    """How many copies were made: servers that hold a slot they did not hold."""
    return sum(
        len({b.leader, *b.followers} - {a.leader, *a.followers}) for a, b in zip(before.slots, after.slots, strict=True)
    )


def counts(table: SlotTable, servers: Sequence[Server]) -> tuple[dict[str, int], dict[str, int]]:
    """Slots led and slots followed by each server."""
    led = dict.fromkeys((server.name for server in servers), 0)
    followed = dict(led)
    for slot in table.slots:
        if slot.leader is not None:
            led[slot.leader] += 1
        for name in slot.followers:
            followed[name] += 1
    return led, followed


def spread(table: SlotTable, servers: Sequence[Server]) -> list[int]:
    led, followed = counts(table, servers)
    return [min(led.values()), max(led.values()), min(followed.values()), max(followed.values())]
