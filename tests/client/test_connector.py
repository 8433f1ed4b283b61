"""The connector against session servers that follow a script, on the memory network and virtual time."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.errors import ClientClosed
from slotreeve_client.connector import MOVE_SECONDS, Connector
from slotreeve_conformance import virtual_time
from slotreeve_protocol.client_messages import Moved, Redirect, Services, Sessions, Withdraw
from slotreeve_protocol.general_messages import Ping

from tests.client.connector_scene import Scene, play
from tests.client.scripted_server import ScriptedServer


def test_a_closed_connector_says_goodbye_and_refuses_to_wait() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await asyncio.sleep(0.1)
        assert connector.address == "first:1"

    async def wait_after_the_end(_rng: random.Random) -> None:
        connector = Scene().connector()
        await connector.close()
        with pytest.raises(ClientClosed):
            await connector.connected()

    scene = play(story)
    assert (scene.first.messages, scene.first.connections) == ([Withdraw()], [])
    virtual_time.run(wait_after_the_end)


def test_the_owner_gets_messages_but_not_the_addresses_of_servers() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Sessions(["second:1"]))
        scene.first.connections[0].send(Services({"a": 1}))
        await asyncio.sleep(0.1)
        assert scene.owner.messages == [Services({"a": 1})]

    assert play(story).owner.events == ["first@process", "closed"]


def test_a_lost_server_is_replaced_by_one_that_the_client_learned_of() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Sessions(["first:1", "second:1"]))
        await asyncio.sleep(0.1)
        scene.network.kill("first")
        await asyncio.sleep(0.1)
        assert connector.address == "second:1"

    assert play(story).owner.events[:3] == ["first@process", "closed", "second@process"]


def test_a_server_that_stops_is_left_only_once_another_has_taken_over() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.network.freeze("second")
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.5)
        assert (connector.address, connector.is_moving) == ("first:1", False)
        scene.network.thaw("second")
        await asyncio.sleep(5)
        assert (connector.address, connector.is_moving) == ("second:1", True)
        scene.first.connections[0].send(Services({"former": 1}))
        scene.second.connections[0].send(Services({"present": 1}))
        await asyncio.sleep(0.1)
        assert scene.owner.former_messages == [Services({"former": 1})]
        assert scene.owner.messages == [Services({"present": 1})]
        connector.taken_over()
        await asyncio.sleep(0.1)
        assert (scene.first.connections, connector.is_moving) == ([], False)
        assert [message for message in scene.first.messages if not isinstance(message, Ping)] == [Moved()]

    assert play(story).owner.events == ["first@process", "second@process", "closed"]


def test_a_client_that_moves_goes_back_if_the_new_connection_breaks_and_then_moves_again() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        assert connector.address == "second:1"
        scene.second.admits = False
        scene.network.cut("client", "second")
        await asyncio.sleep(0.5)
        assert (connector.address, connector.is_moving) == ("first:1", False)
        scene.second.connections[0].send(Sessions([]))
        await asyncio.sleep(0.1)
        assert (connector.address, connector.is_moving) == ("second:1", True)

    assert play(story).owner.events[:4] == ["first@process", "second@process", "first@process", "second@process"]


@pytest.mark.parametrize("seconds", [0.5, 3.0, 20.0])
def test_a_client_whose_connection_ends_while_it_looks_for_a_server_to_move_to_is_back_at_once(seconds: float) -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        await asyncio.sleep(10)
        scene.network.freeze("second")
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(seconds)
        scene.network.cut("client", "first")
        await asyncio.sleep(0.25)
        assert connector.address == "first:1"

    assert play(story).owner.events[:3] == ["first@process", "closed", "first@process"]


def test_a_client_that_moves_goes_on_if_the_former_connection_breaks() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        scene.network.kill("first")
        await asyncio.sleep(5)
        assert (connector.address, connector.is_moving) == ("second:1", False)

    assert play(story).owner.events == ["first@process", "second@process", "closed"]


def test_the_former_connection_is_closed_after_a_bounded_time() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(MOVE_SECONDS - 1)
        assert connector.is_moving
        await asyncio.sleep(2)
        assert (scene.first.connections, connector.address) == ([], "second:1")

    play(story)


def test_a_second_move_from_the_same_server_has_all_of_its_time() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(MOVE_SECONDS / 2)
        scene.network.cut("client", "second")
        await asyncio.sleep(MOVE_SECONDS / 4)
        assert (connector.address, connector.is_moving) == ("second:1", True), "it went back, and moves again"
        await asyncio.sleep(MOVE_SECONDS / 2)
        assert connector.is_moving
        await asyncio.sleep(MOVE_SECONDS / 2)
        assert not connector.is_moving

    play(story)


def test_a_client_that_is_sent_on_before_it_has_moved_keeps_its_complete_connection() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        third = await ScriptedServer(scene.network, "third").start()
        await connector.connected()
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        scene.second.connections[0].send(Redirect(["third:1"]))
        await asyncio.sleep(1)
        assert (connector.address, connector.is_moving) == ("third:1", True)
        assert [len(server.connections) for server in (scene.first, scene.second, third)] == [1, 0, 1]

    play(story)


def test_the_owner_learns_once_that_its_server_counts_in_another_era() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        for era in ("one", "one", "", "two", "two", ""):
            scene.first.connections[0].send(Sessions(["first:1", "second:1"], era))
        await asyncio.sleep(0.1)
        scene.second.era = "three"
        scene.network.kill("first")
        await asyncio.sleep(0.1)

    events = play(story).owner.events
    assert events[:4] == ["first@process", "another era", "closed", "second@process in another era"]


def test_what_a_former_server_sends_counts_only_where_it_has_the_era_of_the_present_one() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        former = scene.first.connections[0]
        former.send(Sessions(["first:1", "second:1"], "one"))
        former.send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        assert connector.address == "second:1"
        for era in ("two", "one"):
            scene.second.connections[0].send(Sessions(["second:1"], era))
            await asyncio.sleep(0.1)
            former.send(Services({era: 1}))
            await asyncio.sleep(0.1)

    assert play(story).owner.former_messages == [Services({"one": 1})]
