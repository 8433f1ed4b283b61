"""ZeroMQ between real processes and within one: deaths, stand-stills, lost wake-ups, threads, addresses."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
import uvloop
from slotreeve.clock import LoopClock
from slotreeve.errors import Backpressure, Unreachable
from slotreeve.ports import Connection, Message
from slotreeve_conformance.transport_scene import (
    CLIENT,
    PATIENCE_SECONDS,
    SERVER,
    Pair,
    RecordingHandler,
    TransportScene,
    opaque,
    turns,
    until,
)
from slotreeve_protocol.general_messages import Done, Opaque, Ping
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_zmq.addresses import endpoint_of, join_address, split_address
from slotreeve_transport_zmq.listening import HELLOS_PER_TURN, TURN_SECONDS
from slotreeve_transport_zmq.transport import ZmqTransport

from tests.transport.conftest import Start, line_of

Run = Callable[[Coroutine[None, None, None]], None]

NEWS_OF_DEATH_SECONDS = 0.2
"""Milliseconds as a rule; a busy machine takes longer."""


def sends(connection: Connection, number: int, size: int = 0) -> bool:
    """True if the connection took this numbered message."""
    try:
        connection.send(opaque(number, size))
    except Backpressure:
        return False
    return True


# --- processes that die or stand still -------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_accepting_end_learns_of_a_killed_peer_in_milliseconds(
    scene: TransportScene, peer: Start, run: Run
) -> None:
    async def main() -> None:
        async with scene.pair(ChannelLimits()) as pair:
            process = peer("dial", pair.listener.address)
            await until(lambda: len(pair.server_handler.connections) == 1)
            process.kill()
            killed = time.monotonic()
            await until(lambda: bool(pair.server_handler.reasons))
            assert time.monotonic() - killed < NEWS_OF_DEATH_SECONDS
            assert pair.server_handler.reasons == ["connection lost"]

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_dialling_end_learns_of_a_killed_peer_in_milliseconds(peer: Start, run: Run) -> None:
    async def main() -> None:
        process = peer("listen")
        transport, told = ZmqTransport(LoopClock()), RecordingHandler()
        address = await line_of(process)
        connection = await transport.connect(address, CLIENT, told, PATIENCE_SECONDS)
        process.kill()
        killed = time.monotonic()
        await until(lambda: bool(told.reasons))
        assert time.monotonic() - killed < NEWS_OF_DEATH_SECONDS
        assert told.reasons == ["connection lost"]
        assert connection.closed
        process.wait()
        with pytest.raises(Unreachable, match="refused"):
            await transport.connect(address, CLIENT, told, PATIENCE_SECONDS)
        await transport.close()

    run(main())


def test_a_frozen_peer_causes_backpressure_and_loses_nothing(scene: TransportScene, peer: Start) -> None:
    async def scenario(pair: Pair) -> None:
        process = peer("dial", pair.listener.address)
        assert await line_of(process) == "opened"
        process.send_signal(signal.SIGSTOP)
        (far,) = pair.server_handler.connections
        sent = 0
        while sends(far, sent, 10_000):
            sent += 1
            if sent % 100 == 0:
                await turns(2)
        assert not far.has_room
        process.send_signal(signal.SIGCONT)

        await until(lambda: sends(far, sent))
        far.close("enough")
        assert int(await line_of(process)) == sent + 1

    scene.check(scenario, ChannelLimits(queue_bytes=10_000_000))


# --- the reader ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_send_that_resets_the_edge_does_not_stop_the_reader(scene: TransportScene, run: Run) -> None:
    async def main() -> None:
        async with scene.pair(ChannelLimits()) as pair:
            for _ in range(10):
                await pair.both_ends()

            async def chat(recorder: RecordingHandler, index: int) -> None:
                end = recorder.connections[index]
                for i in range(200):
                    end.send(Opaque("noise", b""))
                    assert await end.ask(Ping(), PATIENCE_SECONDS) == Done()
                    if i % 7 == index % 7:
                        await turns(1)

            await asyncio.gather(*(chat(r, i) for r in (pair.client_handler, pair.server_handler) for i in range(10)))

    run(main())


# --- the process -----------------------------------------------------------------------------------------------------


def libzmq_threads() -> int:
    """Number of libzmq's threads in this process."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            names.append(Path(f"/proc/self/task/{task}/comm").read_text())
        except OSError:
            continue
    return sum(name.startswith("ZMQbg") for name in names)


def test_transports_of_a_process_share_one_libzmq_and_leave_none(scene: TransportScene) -> None:
    async def main() -> None:
        async with scene.pair(ChannelLimits()) as pair:
            await pair.connect()
            await until(lambda: libzmq_threads() == 2)
            others = [ZmqTransport(LoopClock()) for _ in range(5)]
            for transport in others:
                near = await transport.connect(pair.listener.address, CLIENT, RecordingHandler(), PATIENCE_SECONDS)
                assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
            assert libzmq_threads() == 2
            for transport in others:
                await transport.close()
        await until(lambda: libzmq_threads() == 0)

    asyncio.run(main())


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["[::1]:0", "localhost:0"])
def test_names_and_ipv6_can_be_listened_on_and_reached(address: str) -> None:
    async def main() -> None:
        transport = ZmqTransport(LoopClock())
        listener = await transport.listen(address, SERVER, RecordingHandler())
        assert listener.address.rpartition(":")[0] == address.rpartition(":")[0]
        connection = await transport.connect(listener.address, CLIENT, RecordingHandler(), PATIENCE_SECONDS)
        assert await connection.ask(Ping(), PATIENCE_SECONDS) == Done()
        await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 0), ("::1", 65535), ("meta-1.example", 7710)])
def test_addresses_are_split_as_they_are_joined(host: str, port: int) -> None:
    assert split_address(join_address(host, port)) == (host, port)


@pytest.mark.parametrize("address", ["", "host", ":1", "host:", "host:65536", "host:-1", "host:x", "::1:7710"])
def test_the_error_for_a_wrong_address_names_it(address: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|brackets"):
        split_address(address)


def test_an_endpoint_is_what_libzmq_reads() -> None:
    assert asyncio.run(endpoint_of("[::1]:7710")) == "tcp://[::1]:7710"
    assert asyncio.run(endpoint_of("localhost:7710")) == "tcp://127.0.0.1:7710"


# --- many connections at once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_hello_that_was_read_and_not_answered_counts_as_unread(scene: TransportScene, run: Run) -> None:
    async def main() -> None:
        async with scene.pair(ChannelLimits()) as pair:
            count = 5 * HELLOS_PER_TURN
            connecting = [asyncio.ensure_future(pair.connect()) for _ in range(count)]
            await turns(3)
            time.sleep(0.3)  # noqa: ASYNC251 - all hellos arrive before the loop turns again
            halfway = 0
            while (opened := len(pair.server_handler.connections)) < count:
                if opened:
                    halfway += 1
                    assert pair.listener.has_unread, f"{opened} of {count} hellos were answered, and none seems to wait"
                await asyncio.sleep(0)
            assert halfway, "all hellos were answered in one turn"
            await asyncio.gather(*connecting)

    run(main())


def test_peers_whose_hellos_were_not_read_in_time_are_not_disconnected(
    scene: TransportScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotreeve_transport_zmq.listening.SILENCE_SECONDS", 0.05)

    async def scenario(pair: Pair) -> None:
        connecting = [asyncio.ensure_future(pair.connect()) for _ in range(10 * HELLOS_PER_TURN)]
        await turns(3)
        time.sleep(0.3)  # noqa: ASYNC251 - all hellos arrive, and their time is over, before the loop turns again
        connections = await asyncio.gather(*connecting)
        for connection in connections:
            assert await connection.ask(Ping(), 5.0) == Done()

    scene.check(scenario)


def test_a_listener_with_unread_packets_gets_as_much_time_as_all_else(scene: TransportScene) -> None:
    """Otherwise very many peers wait for ever behind what few others send."""

    async def scenario(pair: Pair) -> None:
        near, _far = await pair.both_ends()
        reading = 0.0
        turns_between = 0
        received = pair.server_handler.received

        def slow(connection: Connection, message: Message, request_id: int | None) -> None:
            nonlocal reading
            began = time.monotonic()
            time.sleep(0.0002)
            received(connection, message, request_id)
            reading += time.monotonic() - began

        def work() -> None:
            nonlocal turns_between
            if len(pair.server_handler.received_messages) < 1_000:
                turns_between += 1
                time.sleep(0.015)
                loop.call_soon(work)

        pair.server_handler.received = slow  # type: ignore[method-assign]
        for number in range(1_000):
            near.send(opaque(number, 10))
            if number % 4 == 3:
                await turns(2)  # a packet of its own for a few messages
        loop = asyncio.get_running_loop()
        work()
        await until(lambda: len(pair.server_handler.received_messages) == 1_000)
        assert turns_between < reading / (1.5 * TURN_SECONDS)

    scene.check(scenario)


# --- no memory is left -----------------------------------------------------------------------------------------------


class WithoutMemory(RecordingHandler):
    """A handler that gets no memory for what it does with a message."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Raises MemoryError."""
        raise MemoryError


@pytest.mark.parametrize("accepts", [True, False])
def test_an_end_without_memory_ends_all_its_connections_and_tells_the_event_loop(accepts: bool) -> None:
    async def main() -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context.get("exception")))
        near, far = ZmqTransport(LoopClock()), ZmqTransport(LoopClock())
        server = WithoutMemory() if accepts else RecordingHandler()
        client = RecordingHandler() if accepts else WithoutMemory()
        listener = await near.listen("127.0.0.1:0", SERVER, server)
        made = [await far.connect(listener.address, CLIENT, client, 10.0) for _ in range(2 if accepts else 1)]
        sender = made[0] if accepts else server.connections[0]
        sender.send(opaque(1))
        await until(lambda: len(client.reasons) == len(server.reasons) == len(made))
        assert [type(error) for error in errors] == [MemoryError]
        await far.close()
        await near.close()

    asyncio.run(main())
