"""Latency bounds and tables that must be empty, on a calm cluster and on one that is not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from slotreeve_conformance import virtual_time
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.leftovers import leftover
from slotreeve_simulator.probes import Death, Probes
from slotreeve_simulator.processor_faults import PROCESSOR_FAULTS

from tests.simulation.test_injector import SMALL, Scene, play


class Chosen(random.Random):
    """Chooses this death, and the first client."""

    def __init__(self, how: Death) -> None:
        super().__init__(1)
        self._how = how

    def choices(self, population: Any, *_: Any, **__: Any) -> list[Any]:
        return [self._how]


def probes(scene: Scene) -> Probes:
    return Probes(scene.cluster, scene.clients, 0.003, scene.trace, scene.verdict)


@pytest.mark.parametrize("how", list(Death))
def test_in_a_calm_cluster_changes_and_deaths_are_seen_in_time(how: Death) -> None:
    async def story(scene: Scene) -> None:
        await probes(scene).change()
        lives = sum(scene.cluster.lives.values())
        assert await probes(scene).death(Chosen(how)) is (how is not Death.NONE)
        assert sum(scene.cluster.lives.values()) == lives + (how is not Death.NONE)

    play(story)


def test_a_change_that_comes_too_late_breaks_a_bound() -> None:
    async def scenario(_rng: random.Random) -> str:
        scene = Scene(SMALL)
        async with scene.cluster:
            scene.clients.come_all()
            await asyncio.sleep(2)
            scene.cluster.freeze("data-1")
            scene.cluster.freeze("data-2")
            await probes(scene).change()
            scene.cluster.thaw("data-1")
            scene.cluster.thaw("data-2")
        assert scene.verdict.violation is not None
        return scene.verdict.violation.invariant

    assert virtual_time.run(scenario) == "latency"


def test_what_is_left_over_in_a_calm_cluster_is_named() -> None:
    async def story(scene: Scene) -> None:
        assert leftover(scene.cluster) is None
        lost_clients = scene.cluster.data("data-1").core.lost_clients
        session = scene.cluster.session("session-1").view.sessions[0].process_id
        lost_clients._endings.presence.arrive(session, ["somebody"])
        assert leftover(scene.cluster) == "data-1 has clients_arriving 1"
        lost_clients._endings.presence.arrived(session, ["somebody"])
        slot = next(scene.cluster.data("data-1").core.slots.led())
        slot.leaving += 1
        assert leftover(scene.cluster) == f"data-1: slot {slot.slot.id} waits for 1 departures"
        slot.leaving -= 1
        streams = dict(slot.streams)
        slot.streams.clear()
        assert "is streamed to []" in (leftover(scene.cluster) or "")
        slot.streams.update(streams)
        lost_clients._sessions.suspect([session])
        lost_clients._sessions.look(lambda _process: False)
        assert "count as gone" in (leftover(scene.cluster) or "")
        lost_clients._sessions.forget([session])

    play(story)


@pytest.mark.parametrize("kind", sorted(PROCESSOR_FAULTS))
def test_a_fault_of_a_processor_ends(kind: FaultKind) -> None:
    async def story(scene: Scene) -> None:
        scene.begin(kind, "data-1", "client-1", seconds=0.4)
        await asyncio.sleep(0.05)
        processor = scene.cluster.processors["data-1"]
        assert processor.busy_for() > 0.2 or processor.starvation > 1.0
        await scene.injector.mend()
        await asyncio.sleep(0.05)
        assert processor.starvation == 1.0

    play(story)
