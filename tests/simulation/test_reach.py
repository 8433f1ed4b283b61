"""Which clients could keep their registrations alive."""

from __future__ import annotations

import asyncio

from slotreeve_simulator.reach import RECOVERY_SECONDS

from tests.simulation.test_injector import Scene, play


async def a_while(scene: Scene, seconds: float = 0.2) -> None:
    """Let time pass, and look at it as a run does."""
    for _ in range(round(seconds / 0.05)):
        await asyncio.sleep(0.05)
        scene.reach.look()


def test_a_client_that_reaches_one_of_two_session_servers_has_no_reason_to_vanish() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.network.partition(["client-1"], ["session-1"])
        scene.cluster.network.partition(["meta-1"], ["session-1", "session-2"])
        await a_while(scene)
        assert not scene.reach.tolerates_loss("client-1")
        scene.cluster.network.partition(["session-2"], ["client-1"], one_way=True)
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-1")
        assert not scene.reach.tolerates_loss("client-2")
        scene.cluster.network.heal()
        await a_while(scene, RECOVERY_SECONDS - 1.0)
        assert scene.reach.tolerates_loss("client-1")
        await a_while(scene, 2.0)
        assert not scene.reach.tolerates_loss("client-1")

    play(story)


def test_frozen_clients_and_session_servers_reach_nothing_and_data_servers_are_no_reason() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.freeze("client-1")
        scene.cluster.freeze("session-1")
        scene.cluster.freeze("data-1")
        scene.cluster.network.partition(["data-2"], ["session-1", "session-2", "meta-1"])
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-1")
        assert not scene.reach.tolerates_loss("client-2")
        scene.cluster.freeze("session-2")
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-2")
        scene.reach.recovered()
        assert not scene.reach.tolerates_loss("client-2")
        for name in ("client-1", "session-1", "session-2", "data-1"):
            scene.cluster.thaw(name)
        scene.cluster.network.heal()
        await asyncio.sleep(10)

    play(story)


def test_a_session_server_that_one_leader_alone_does_not_reach_serves_nobody() -> None:
    async def story(scene: Scene) -> None:
        scene.cluster.network.partition(["session-1"], ["client-1"])
        scene.cluster.network.partition(["session-2"], ["data-1"])
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-1")
        assert not scene.reach.tolerates_loss("client-2")
        scene.cluster.network.heal()
        await asyncio.sleep(2)

    play(story)
