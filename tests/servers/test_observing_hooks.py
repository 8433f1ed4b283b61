"""What observing plugins are told by a running cluster."""

from __future__ import annotations

import random
from collections.abc import Sequence

from slotreeve.hookspecs import hookimpl
from slotreeve.model.nodes import Node
from slotreeve.model.slots import Move, SlotTable
from slotreeve.ports import Leadership
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.simulated_cluster import SimulatedCluster


class Observer:
    def __init__(self) -> None:
        self.leaders: list[Leadership] = []
        self.tables: list[tuple[SlotTable, Sequence[Move], str]] = []
        self.joined: list[str] = []
        self.left: list[tuple[str, str]] = []

    @hookimpl
    def slotreeve_leader_changed(self, leadership: Leadership) -> None:
        self.leaders.append(leadership)

    @hookimpl
    def slotreeve_table_published(self, table: SlotTable, moves: Sequence[Move], reason: str) -> None:
        self.tables.append((table, moves, reason))

    @hookimpl
    def slotreeve_node_joined(self, node: Node) -> None:
        self.joined.append(node.name)

    @hookimpl
    def slotreeve_node_left(self, node: Node, reason: str) -> None:
        self.left.append((node.name, reason))
        raise RuntimeError("an observer that fails disturbs nobody")


def test_an_observer_hears_of_leaders_members_and_tables_with_moves_and_reasons() -> None:
    observer = Observer()

    async def scenario(rng: random.Random) -> None:
        cluster = SimulatedCluster(rng)
        cluster.catalogue.manager.register(observer)
        async with cluster:
            assert sorted(observer.joined) == ["data-1", "data-2", "data-3", "session-1", "session-2"]
            before = cluster.views()[0].table
            cluster.kill("data-1")
            await cluster.ready()
            assert observer.left == [("data-1", "connection lost")]
            after = cluster.views()[0].table
            published = [entry for entry in observer.tables if entry[0].epoch > before.epoch]
            assert published[-1][0] == after
            moves = [move for _, moves, _ in published for move in moves]
            moved = {slot.id for slot, old in zip(after.slots, before.slots, strict=True) if slot.leader != old.leader}
            assert moved
            assert moved <= {move.slot for move in moves if move.kind == "leader"}
            assert all(move.reason for move in moves)
            assert any(leadership.leading for leadership in observer.leaders)

    run(scenario, seed=5)
