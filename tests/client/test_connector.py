"""The connector against session servers that follow a script, on the memory network and virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve.errors import ClientClosed, ClientError, Refused, RequestTimeout
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_client.connector import Connector
from slotreeve_client.options import ClientOptions
from slotreeve_client.reconnect import Reconnect
from slotreeve_conformance import virtual_time
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.client_messages import Get, Redirect, Services, Sessions, Withdraw
from slotreeve_protocol.general_messages import Done, Failed, Ping
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


class ScriptedServer:
    """A session server that answers as its script says, and keeps what it received."""

    def __init__(self, network: MemoryNetwork, name: str, cluster: str = "slotreeve") -> None:
        self.name, self.address = name, f"{name}:1"
        self.messages: list[Message] = []
        self.connections: list[Connection] = []
        self.answer: Callable[[Message], Message | None] = lambda _message: Done()
        self._hello = Hello(cluster, name, Role.SESSION, f"{name}@process")
        self._transport = MemoryTransport(VirtualClock(), name, network)

    async def start(self) -> ScriptedServer:
        await self._transport.listen(self.address, self._hello, self)
        return self

    def opened(self, connection: Connection) -> None:
        self.connections.append(connection)

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        self.messages.append(message)
        if request_id is not None and (reply := self.answer(message)) is not None:
            connection.reply(request_id, reply)

    def closed(self, connection: Connection, reason: str) -> None:
        self.connections.remove(connection)


class RecordingOwner:
    """The owner of a connector, which keeps what it was called with."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.messages: list[Message] = []
        self.pings = 0
        self.fails = False

    def session_opened(self, process_id: str) -> None:
        self.events.append(process_id)

    def session_message(self, message: Message) -> None:
        self.messages.append(message)

    def session_closed(self) -> None:
        self.events.append("closed")

    def ping_sent(self) -> None:
        if self.fails:
            raise RuntimeError("a defect")
        self.pings += 1

    def connector_failed(self) -> None:
        self.events.append("failed")


class Scene:
    """Two servers, a connector that knows the first of them, and its owner."""

    def __init__(self, cluster: str = "slotreeve") -> None:
        self.network = MemoryNetwork()
        self.first, self.second = (ScriptedServer(self.network, name, cluster) for name in ("first", "second"))
        self.owner = RecordingOwner()

    def connector(self, *addresses: str) -> Connector:
        options = ClientOptions(request_seconds=5.0)
        hello = Hello(options.cluster, "client", Role.CLIENT, "client")
        reconnect = Reconnect(addresses or ("first:1",), options.longest_pause_seconds, random.Random(1))
        transport = MemoryTransport(VirtualClock(), "client", self.network)
        return Connector(self.owner, transport, hello, reconnect, options, VirtualClock())


def play(story: Callable[[Scene, Connector], Awaitable[None]], *addresses: str) -> Scene:
    """Tell a story with both servers running; the connector is started before it and closed after it."""

    async def scenario(_rng: random.Random) -> Scene:
        scene = Scene()
        await scene.first.start()
        await scene.second.start()
        connector = scene.connector(*addresses)
        connector.start()
        await story(scene, connector)
        await connector.close()
        await asyncio.sleep(1)
        return scene

    return virtual_time.run(scenario)


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


def test_a_server_that_stops_is_left_only_once_there_is_another() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.network.freeze("second")
        scene.first.connections[0].send(Redirect(["second:1"]))
        await asyncio.sleep(0.5)
        assert connector.address == "first:1"
        scene.network.thaw("second")
        await asyncio.sleep(5)
        assert connector.address == "second:1"
        assert scene.first.connections == []

    assert play(story).owner.events == ["first@process", "second@process", "closed"]


def test_a_server_that_does_not_reply_to_pings_is_left_after_the_silence_time() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.first.answer = lambda _message: None
        await connector.connected()
        scene.first.connections[0].send(Sessions(["second:1"]))
        await asyncio.sleep(3.9)  # a ping after 1 s, and 3 s of silence
        assert connector.address == "first:1"
        await asyncio.sleep(0.3)
        assert connector.address == "second:1"

    scene = play(story)
    assert scene.first.messages[:3] == [Ping()] * 3
    assert scene.owner.pings >= 3


def test_messages_go_to_the_connected_server_in_order() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        connector.send([Get("lost: there is no connection")])
        await connector.connected()
        connector.send([Get("a"), Get("b")])
        await asyncio.sleep(0.1)
        assert scene.first.messages == [Get("a"), Get("b")]

    play(story)


def test_a_message_that_cannot_be_sent_ends_the_connection_and_another_one_follows() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        connector.send([Get("x" * (40 << 20)), Get("never sent")])
        await asyncio.sleep(1)
        assert connector.address == "first:1"
        assert not any(isinstance(message, Get) for message in scene.first.messages)

    assert play(story).owner.events[:3] == ["first@process", "closed", "first@process"]


def test_a_request_whose_connection_is_lost_is_sent_to_the_next_server() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.first.connections[0].send(Sessions(["second:1"]))
        scene.first.answer = lambda _message: None
        scene.second.answer = lambda _message: Services({"a": 1})
        asyncio.get_running_loop().call_later(0.5, scene.network.kill, "first")
        assert await connector.ask(Get("a")) == Services({"a": 1})

    play(story)


def test_a_failed_reply_is_an_error_with_the_servers_reason() -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        scene.first.answer = lambda _message: Failed("SR301", "there is no leader")
        with pytest.raises(ClientError, match="there is no leader"):
            await connector.ask(Get("a"))
        scene.first.answer = lambda _message: Failed(RequestTimeout.code, "data-1 is silent")
        with pytest.raises(RequestTimeout, match="data-1 is silent"):
            await connector.ask(Get("a"))

    play(story)


def test_a_request_without_any_server_times_out_and_names_the_reason_for_each_address() -> None:
    async def story(_scene: Scene, connector: Connector) -> None:
        with pytest.raises(RequestTimeout, match=r"answered a Get within 5\.0 s; nowhere:1: "):
            await connector.ask(Get("a"))
        assert connector.address is None

    play(story, "nowhere:1")


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


def test_a_defect_in_the_connecting_task_is_logged_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def story(scene: Scene, connector: Connector) -> None:
        await connector.connected()
        scene.owner.fails = True
        await asyncio.sleep(2)

    assert "failed" in play(story).owner.events
    assert "the task that keeps the client connected failed" in caplog.text
