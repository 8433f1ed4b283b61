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


def test_a_late_client_is_excused_sooner_without_a_connection_than_with_one() -> None:
    async def story(scene: Scene) -> None:
        processor = scene.cluster.processors["client-1"]
        processor.stall(1.0)
        await a_while(scene)
        assert not scene.reach.tolerates_loss("client-1")
        for other in ("session-1", "session-2"):
            scene.cluster.network.cut("client-1", other)
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-1")
        scene.cluster.processors["client-2"].stall(6.0)
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-2")

    play(story)


def test_a_late_server_is_as_good_as_frozen_only_after_the_silence_of_a_link() -> None:
    async def story(scene: Scene) -> None:
        for name in ("session-1", "session-2"):
            scene.cluster.processors[name].stall(2.0)
        await a_while(scene)
        assert not scene.reach.tolerates_loss("client-1")
        for name in ("session-1", "session-2"):
            scene.cluster.processors[name].stall(4.0)
        await a_while(scene)
        assert scene.reach.tolerates_loss("client-1")
        await asyncio.sleep(10)

    play(story)


def test_the_end_of_all_copies_excuses_only_clients_that_have_not_sent_everything() -> None:
    async def story(scene: Scene) -> None:
        await a_while(scene)
        scene.cluster.kill("data-1")
        await a_while(scene)
        await asyncio.sleep(0.05)
        assert not scene.reach.tolerates_loss("client-1")
        scene.cluster.kill("data-2")
        for other in ("session-1", "session-2"):
            scene.cluster.network.cut("client-1", other)
        await asyncio.sleep(0.0002)
        scene.reach.look()
        assert scene.reach.tolerates_loss("client-1")
        assert not scene.reach.tolerates_loss("client-2")
        for name in ("data-1", "data-2"):
            await scene.cluster.start(name)

    play(story)


def test_a_data_server_that_loses_its_place_counts_as_one_that_has_ended() -> None:
    async def story(scene: Scene) -> None:
        network = scene.cluster.network
        await a_while(scene)
        network.partition(["data-1"], ["meta-1", "data-2"])
        while "data-1" in [n.name for n in max(scene.cluster.views(), key=lambda view: view.revision).data]:
            await a_while(scene)
        network.heal()
        network.partition(["data-1"], ["data-2"])
        await a_while(scene, 6.0)
        await asyncio.sleep(0.05)
        assert not scene.reach.tolerates_loss("client-1")
        scene.cluster.kill("data-2")
        for other in ("session-1", "session-2"):
            network.cut("client-1", other)
        await asyncio.sleep(0.0002)
        scene.reach.look()
        assert scene.reach.tolerates_loss("client-1")
        assert not scene.reach.tolerates_loss("client-2")
        network.heal()
        await scene.cluster.start("data-2")
        await asyncio.sleep(2)

    play(story)
