"""For whom a connector waits, whom it leaves, and what becomes of requests meanwhile."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import ClientClosed, Refused
from slotreeve_client.connector import Connector
from slotreeve_client.line import LASTING_SECONDS, LONGEST_ADMISSION_SECONDS
from slotreeve_client.options import ClientOptions
from slotreeve_client.reconnect import FIRST_PAUSE_SECONDS, Reconnect
from slotreeve_conformance import virtual_time
from slotreeve_protocol.client_messages import Get, GivenUp, Pong, Redirect, Services, Sessions, Withdraw
from slotreeve_protocol.general_messages import Ping
from slotreeve_simulator.process_clock import ProcessClock

from tests.client.connector_scene import Scene, play
from tests.client.scripted_server import ScriptedServer


def test_a_server_from_which_nothing_arrives_is_left_after_the_silence_time() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.first.answer = lambda _message: None
        await connector.connected()
        scene.first.connections[0].send(Sessions(["second:1"]))
        await asyncio.sleep(2.9)
        assert connector.address == "first:1"
        await asyncio.sleep(0.4)
        assert connector.address == "second:1"

    scene = play(story)
    assert scene.first.messages == [Ping(), GivenUp()]


def test_a_server_gets_as_few_pings_as_it_asks_for_and_is_left_all_the_same_when_it_is_silent() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.first.answer = lambda _message: Pong(3.0)
        await connector.connected()
        scene.first.connections[0].send(Sessions(["second:1"]))
        await asyncio.sleep(31.5)
        assert scene.first.messages == [Ping()] * 11
        scene.first.answer = lambda _message: None
        await asyncio.sleep(5.3)
        assert connector.address == "first:1"
        await asyncio.sleep(0.5)
        assert connector.address == "second:1"

    play(story)


def test_a_server_that_sends_but_does_not_answer_pings_is_kept() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.first.answer = lambda _message: None
        await connector.connected()
        for number in range(20):
            await asyncio.sleep(2)
            scene.first.connections[0].send(Services({"a": number}))
        assert connector.address == "first:1"

    scene = play(story)
    assert scene.first.messages == [Ping(), Withdraw()]
    assert scene.owner.events == ["first@process", "closed"]


def test_a_client_that_stood_still_reads_before_it_gives_a_server_up() -> None:
    async def scenario(_rng: random.Random) -> list[str]:
        scene = Scene()
        await scene.first.start()
        clock = ProcessClock()
        connector = scene.connector(clock=clock)
        connector.start()
        await connector.connected()
        for _ in range(3):
            await asyncio.sleep(2)
            clock.freeze()
            scene.network.freeze("client")
            await asyncio.sleep(13)
            clock.thaw()
            scene.network.thaw("client")
        await connector.close()
        await asyncio.sleep(1)
        return scene.owner.events

    assert virtual_time.run(scenario) == ["first@process", "closed"]


def test_a_server_that_admits_late_is_waited_for_while_it_answers_pings() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await asyncio.sleep(20)
        assert (scene.owner.events, connector.address, len(scene.first.connections)) == ([], None, 1)
        scene.first.connections[0].send(Sessions(["first:1"]))
        await connector.connected()
        scene.first.connections[0].send(Sessions(["first:1", "second:1"]))
        await asyncio.sleep(0.1)

    scene = play(story, admits=False)
    assert scene.owner.events == ["first@process", "closed"]
    assert scene.first.messages[:20] == [Ping(pause_seconds=FIRST_PAUSE_SECONDS)] * 20


def test_a_server_that_sends_an_arriving_client_elsewhere_is_left_at_once() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await asyncio.sleep(0.1)
        scene.second.admits = True
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        assert connector.address == "second:1"

    assert play(story, admits=False).owner.events == ["second@process", "closed"]


def test_a_server_that_answers_pings_and_never_admits_the_client_is_left_in_the_end() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await asyncio.sleep(LONGEST_ADMISSION_SECONDS - 5.0)
        assert scene.first.accepted + scene.second.accepted == 1
        await asyncio.sleep(10.0)
        assert scene.first.accepted + scene.second.accepted == 2

    play(story, admits=False)


@pytest.mark.parametrize("admits", [False, True], ids=["before_it_admits", "after_it_admits"])
def test_a_server_that_closes_each_connection_at_once_is_tried_with_growing_pauses(admits: bool) -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.first.closes = True
        await asyncio.sleep(30)
        assert 5 < scene.first.accepted < 60

    play(story, admits=admits)


def test_a_connection_that_has_lasted_is_replaced_at_once() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        for _ in range(5):
            await connector.connected()
            await asyncio.sleep(LASTING_SECONDS)
            scene.network.cut("client", "first")
            await asyncio.sleep(0)
            before = scene.first.accepted
            await asyncio.sleep(0.001)
            assert scene.first.accepted == before + 1

    play(story)


def test_a_connection_that_was_cut_soon_is_replaced_within_the_pause_that_its_server_was_told() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.network.partition(["client"], ["first", "second"])
        scene.network.cut("client", "first")
        await asyncio.sleep(20.0)
        scene.network.heal()
        await connector.connected()
        told = scene.first.connections[0].peer.pause_seconds
        assert FIRST_PAUSE_SECONDS < told <= ClientOptions().longest_pause_seconds
        await asyncio.sleep(LASTING_SECONDS / 2)
        scene.network.cut("client", "first")
        await asyncio.sleep(told + 0.01)
        assert connector.address

    play(story)


def test_a_client_tells_by_its_pings_that_it_comes_back_at_once_when_its_connection_has_lasted() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await asyncio.sleep(5.0)
        pauses = [message.pause_seconds for message in scene.first.messages if isinstance(message, Ping)]
        assert pauses[0] in (0.0, scene.first.connections[0].peer.pause_seconds)
        assert pauses[1:] == [0.0] * (len(pauses) - 1)
        assert len(pauses) > 1

    play(story)


def test_the_owner_learns_of_the_pings_of_the_connection_that_it_uses() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        await asyncio.sleep(3.5)

    owner = play(story).owner
    assert (owner.pings, owner.answered_pings) == (3, 3)


def test_messages_go_to_the_connected_server_in_order() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.send(Get("lost: there is no connection"))
        await connector.connected()
        connector.send(Get("a"))
        connector.send(Get("b"))
        await asyncio.sleep(0.1)
        assert scene.first.messages == [Get("a"), Get("b")]

    play(story)


def test_a_message_that_cannot_be_sent_ends_the_connection_and_another_one_follows() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        connector.send(Get("x" * (40 << 20)))
        connector.send(Get("never sent"))
        await asyncio.sleep(1)
        assert connector.address == "first:1"
        assert not any(isinstance(message, Get) for message in scene.first.messages)

    assert play(story).owner.events[:3] == ["first@process", "closed", "first@process"]


def test_a_server_of_another_cluster_refuses_and_the_connector_goes_on_trying() -> None:
    async def scenario(_rng: random.Random) -> None:
        scene = Scene("another")
        await scene.first.start()
        connector = scene.connector()
        connector.start()
        with pytest.raises(Refused, match="another"):
            await connector.connected()
        assert "another" in connector.failures
        scene.network.kill("first")
        await ScriptedServer(scene.network, "first").start()
        await asyncio.sleep(2)
        await connector.connected()
        assert connector.failures == ""
        await connector.close()

    virtual_time.run(scenario)


def test_a_defect_in_the_connecting_task_is_reported_and_the_transport_can_still_be_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Defective(Reconnect):
        def next_round(self, now: float) -> list[str]:
            if self.failures:
                raise RuntimeError("a defect")
            return super().next_round(now)

    async def scenario(_rng: random.Random) -> Scene:
        scene = Scene()
        connector = scene.connector(plan=Defective(["first:1"], 1.0, 1.0, random.Random(1)))
        connector.start()
        await asyncio.sleep(5)
        assert scene.owner.events == ["failed"]
        with pytest.raises(ClientClosed):
            await connector.connected()
        assert scene.network.endpoints == ["first", "second", "client"]
        await asyncio.gather(connector.close(), connector.close())
        assert scene.network.endpoints == ["first", "second"]
        return scene

    virtual_time.run(scenario)
    assert "the task that keeps the client connected failed" in caplog.text
