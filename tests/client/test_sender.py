"""When what a client has to send goes out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from slotreeve.errors import Backpressure
from slotreeve_client import Client, ClientOptions, Scope
from slotreeve_client.sender import RECEIPT_SECONDS
from slotreeve_conformance import virtual_time
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.client_messages import (
    Publish,
    Published,
    Push,
    PushesReceived,
    Redirect,
    Rejected,
    ReplayEnded,
    Subscribe,
)
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.client.scripted_server import ScriptedServer


def play(story: Callable[[Client, ScriptedServer, ScriptedServer], Awaitable[None]]) -> None:
    """Tell a story with a client that is connected to the first of two servers."""

    async def scenario(rng: random.Random) -> None:
        network, clock = MemoryNetwork(), VirtualClock()
        first, second = (ScriptedServer(network, name) for name in ("first", "second"))
        await first.start()
        await second.start()
        client = Client(["first:1"], ClientOptions(), MemoryTransport(clock, "client", network), clock, rng)
        await client.connected()
        await story(client, first, second)
        await client.close()

    virtual_time.run(scenario)


def test_what_was_published_in_one_turn_goes_out_in_one_message_after_the_end_of_the_replay() -> None:
    async def story(client: Client, server: ScriptedServer, _second: ScriptedServer) -> None:
        await asyncio.sleep(0.1)
        for number in range(3):
            client.publish("a", str(number))
        await asyncio.sleep(0.1)
        assert [type(message) for message in server.messages] == [ReplayEnded, Publish]

    play(story)


def test_acknowledgements_of_pushes_wait_a_moment_and_go_together() -> None:
    async def story(client: Client, server: ScriptedServer, _second: ScriptedServer) -> None:
        ids = [client.subscribe(name).data_info_id for name in ("a", "b")]
        await asyncio.sleep(0.1)
        for data_info_id in ids:
            server.connections[0].send(Push(data_info_id, Scope.DATA_CENTER, 0, 1, 0, [], []))
            await asyncio.sleep(RECEIPT_SECONDS / 4)
        assert [type(message) for message in server.messages] == [ReplayEnded, Subscribe]
        await asyncio.sleep(RECEIPT_SECONDS)
        received = server.messages[-1]
        assert isinstance(received, PushesReceived)
        assert [receipt.data_info_id for receipt in received.receipts] == ids

    play(story)


def test_a_rejected_record_is_sent_again_after_growing_pauses_and_a_new_one_is_not_held_up() -> None:
    async def story(client: Client, server: ScriptedServer, _second: ScriptedServer) -> None:
        def published() -> list[int]:
            return [message.sequence for message in server.messages if isinstance(message, Publish)]

        client.publish("a", "1")
        await asyncio.sleep(0.01)
        for sequence, pause in enumerate((0.05, 0.1, 0.2)):
            assert published()[-1] == sequence
            server.connections[0].send(Rejected(sequence, Backpressure.code, "busy"))
            await asyncio.sleep(pause - 0.01)
            assert published()[-1] == sequence
            await asyncio.sleep(0.02)
        server.connections[0].send(Rejected(3, Backpressure.code, "busy"))
        await asyncio.sleep(0.01)
        client.publish("b", "1")
        await asyncio.sleep(0.01)
        assert published() == [0, 1, 2, 3, 4]
        await asyncio.sleep(1)
        server.connections[0].send(Published([4, 5]))
        await client.flush()
        assert client.statistics().rejected == 4

    play(story)


def test_a_client_that_has_nothing_to_bring_moves_at_once() -> None:
    async def story(client: Client, first: ScriptedServer, second: ScriptedServer) -> None:
        first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        assert (first.connections, client.server) == ([], "second:1")
        assert second.messages == [ReplayEnded(2)]
        assert client.statistics().reconnections == 1

    play(story)


def test_a_client_that_moves_keeps_the_former_connection_until_it_is_served_by_the_new_one() -> None:
    async def story(client: Client, first: ScriptedServer, second: ScriptedServer) -> None:
        subscription = client.subscribe("a")
        client.publish("a", "1")
        await asyncio.sleep(0.1)
        first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.1)
        first.connections[0].send(Push(subscription.data_info_id, Scope.DATA_CENTER, 0, 1, 0, [], []))
        await asyncio.sleep(0.1)
        assert subscription.version == 1
        second.connections[0].send(Push(subscription.data_info_id, Scope.DATA_CENTER, 0, 2, 0, [], []))
        await asyncio.sleep(0.1)
        assert len(first.connections) == 1
        second.connections[0].send(Published([1]))
        await asyncio.sleep(0.1)
        assert (len(first.connections), subscription.version) == (0, 2)
        assert not any(isinstance(message, PushesReceived) for message in first.messages)

    play(story)
