"""Requests of a client: what becomes of them where servers die, fail, or are asked for very much."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from slotreeve.errors import Backpressure, ClientError, RequestTimeout
from slotreeve.model.publisher import Publisher
from slotreeve_client.asking import MOST_READS, SessionRequests
from slotreeve_client.connector import Connector
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.client_messages import Get, Publish, Services, Sessions
from slotreeve_protocol.general_messages import Done, Failed

from tests.client.connector_scene import Scene, play


def requests_over(connector: Connector) -> SessionRequests:
    return SessionRequests(connector, 5.0, VirtualClock())


def test_of_very_many_reads_some_wait_for_their_turn() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        requests = requests_over(connector)
        scene.first.answer = lambda message: None if isinstance(message, Get) else Done()
        await connector.connected()
        asked = [asyncio.ensure_future(requests.read(Get(str(number)))) for number in range(MOST_READS + 10)]
        await asyncio.sleep(1)
        assert scene.first.messages.count(Get(str(MOST_READS - 1))) == 1
        assert Get(str(MOST_READS)) not in scene.first.messages
        scene.first.answer = lambda _message: Done()
        asked[3].cancel()
        await asyncio.sleep(1)
        assert scene.first.messages.count(Get(str(MOST_READS))) == 1
        results = await asyncio.gather(*asked, return_exceptions=True)
        kinds = [type(result) for result in results]
        counts = [kinds.count(kind) for kind in (asyncio.CancelledError, RequestTimeout, Done)]
        assert counts == [1, MOST_READS - 1, 10]

    play(story)


def test_a_request_waits_while_the_queue_of_its_connection_is_full() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        requests = requests_over(connector)
        scene.first.answer = lambda message: Services({"a": 1}) if isinstance(message, Get) else None
        connection = await connector.connected()
        scene.network.bytes_per_second = 20e6
        for size in (1_000_000, 1):
            with suppress(Backpressure):
                while True:
                    connection.send(Publish(1, [Publisher("r1", "s", 1, 1, "first", "", (bytes(size),))]))
        with pytest.raises(Backpressure):
            connection.request(Get("a"), lambda _reply, _error: None, 1.0)
        assert await requests.ask(Get("a")) == Services({"a": 1})

    play(story)


def test_a_request_whose_connection_is_lost_is_sent_to_the_next_server() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        requests = requests_over(connector)
        await connector.connected()
        scene.first.connections[0].send(Sessions(["second:1"]))
        scene.first.answer = lambda _message: None
        scene.second.answer = lambda _message: Services({"a": 1})
        asyncio.get_running_loop().call_later(0.5, scene.network.kill, "first")
        assert await requests.ask(Get("a")) == Services({"a": 1})

    play(story)


def test_a_failed_reply_is_an_error_with_the_servers_reason() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        requests = requests_over(connector)
        scene.first.answer = lambda _message: Failed("SR301", "there is no leader")
        with pytest.raises(ClientError, match="there is no leader"):
            await requests.ask(Get("a"))
        scene.first.answer = lambda _message: Failed(RequestTimeout.code, "data-1 is silent")
        with pytest.raises(RequestTimeout, match="data-1 is silent"):
            await requests.ask(Get("a"))

    play(story)


def test_a_request_without_any_server_times_out_and_names_the_reason_for_each_address() -> None:
    async def story(_scene: Scene, connector: Connector) -> None:
        requests = requests_over(connector)
        with pytest.raises(RequestTimeout, match=r"answered a Get within 5\.0 s; nowhere:1: "):
            await requests.ask(Get("a"))
        assert connector.address is None

    play(story, "nowhere:1")
