"""Foreign peers, streams that are cut, descriptors that are reused: what only a real network shows."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import zmq
from slotreeve.ports import Hello
from slotreeve_conformance.transport_scene import (
    CLIENT,
    PATIENCE_SECONDS,
    SMALL_FRAME,
    Pair,
    TransportScene,
    opaque,
    until,
)
from slotreeve_protocol.codec import Kind, encode_frame, encode_message
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_zmq import listening
from slotreeve_transport_zmq.addresses import join_address, peer_address, split_address

Dial = Callable[..., "zmq.Socket[bytes]"]

HELLO_FRAME = encode_frame(Kind.HELLO, CLIENT)


@pytest.fixture
def foreign() -> Iterator[Dial]:
    """Dials as a foreign peer, from a libzmq context that is not ours; all ends with the test."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sockets: list[zmq.Socket[bytes]] = []

    def dial(address: str, identity: bytes = b"") -> zmq.Socket[bytes]:
        sockets.append(context.socket(zmq.DEALER))
        if identity:
            sockets[-1].setsockopt(zmq.IDENTITY, identity)
        sockets[-1].connect(f"tcp://{address}")
        return sockets[-1]

    yield dial
    for sock in sockets:
        sock.close(0)
    context.term()


# --- foreign peers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: slotreeve\r\n\r\n",
        bytes(range(256)) * 40,
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f" + b"\x03\x00NULL" + bytes(48) + b"\xff" * 100,
        b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f" + b"\x03\x00NULL" + bytes(43) + b"\x02" + b"\xff" * 8,
    ],
    ids=["http", "every byte", "bad greeting", "endless command"],
)
def test_bytes_that_are_not_zeromq_have_no_effect_on_others(scene: TransportScene, garbage: bytes) -> None:
    async def scenario(pair: Pair) -> None:
        near = await pair.connect()
        for _ in range(5):
            with socket.create_connection(split_address(pair.listener.address)) as raw:
                raw.sendall(garbage)
                assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
        assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
        assert len(pair.server_handler.connections) == 1
        assert pair.server_handler.reasons == []

    scene.check(scenario)


ZMTP_2 = b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x01\x05"


@pytest.mark.parametrize(
    "old_version",
    [b"\x01\x00\x06\x00hello", b"\x01\x00\x01\x00\x06\x00hello", ZMTP_2 + b"\x00\x00\x00\x05hello"],
    ids=["ZMTP 1.0", "ZMTP 1.0, empty frame", "ZMTP 2.0"],
)
def test_a_peer_of_an_older_zeromq_is_dropped_and_counted(
    scene: TransportScene, monkeypatch: pytest.MonkeyPatch, old_version: bytes
) -> None:
    monkeypatch.setattr(listening, "SILENCE_SECONDS", 0.3)

    async def scenario(pair: Pair) -> None:
        near = await pair.connect()
        with socket.create_connection(split_address(pair.listener.address)) as raw:
            raw.sendall(old_version)
            await until(lambda: pair.server.counters.malformed_frames > 0)
            assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
            assert await (await pair.connect()).ask(Ping(), PATIENCE_SECONDS) == Done()
            raw.setblocking(False)
            await until(lambda: has_ended(raw))
        assert len(pair.server_handler.connections) == 2

    scene.check(scenario)


def has_ended(stream: socket.socket) -> bool:
    """Whether the other end has closed the stream; reads what it sent before."""
    try:
        return stream.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_whatever_bytes_come_in_the_listener_goes_on_reading(scene: TransportScene) -> None:
    rng = random.Random(5)
    greetings = [b"", b"\x01\x00", b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f", ZMTP_2, ZMTP_2[:-2] + b"\x03\x00NULL"]

    async def scenario(pair: Pair) -> None:
        failures: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
        near = await pair.connect()
        for _ in range(150):
            with socket.create_connection(split_address(pair.listener.address)) as raw:
                raw.sendall(rng.choice(greetings) + rng.randbytes(rng.choice([1, 5, 40, 200])))
                await asyncio.sleep(0.002)
                assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
        assert await (await pair.connect()).ask(Ping(), PATIENCE_SECONDS) == Done()
        assert failures == []

    scene.check(scenario)


def test_a_peer_without_a_hello_is_disconnected(scene: TransportScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "SILENCE_SECONDS", 0.05)

    async def scenario(pair: Pair) -> None:
        near = await pair.connect()
        reader, writer = await asyncio.open_connection(*split_address(pair.listener.address))
        async with asyncio.timeout(listening.SILENCE_SECONDS + 2.0):
            assert (await reader.read())[:1] == b"\xff", "libzmq's greeting, then the end"
        writer.close()
        assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()

    scene.check(scenario)


@pytest.mark.parametrize("parts", [[b"\x10", b"\x10"], [b""], [b"\xff" * 9], [encode_message(Ping())]])
def test_a_foreign_peer_without_a_hello_is_counted_and_never_reported(
    scene: TransportScene, foreign: Dial, parts: list[bytes]
) -> None:
    async def scenario(pair: Pair) -> None:
        sock = foreign(pair.listener.address)
        for count in range(1, 4):
            sock.send_multipart(parts)
            await until(lambda count=count: pair.server.counters.malformed_frames == count)  # type: ignore[misc]
        assert await (await pair.connect()).ask(Ping(), PATIENCE_SECONDS) == Done()
        assert len(pair.server_handler.connections) == 1

    scene.check(scenario)


def test_messages_of_several_parts_on_an_open_connection_are_malformed(scene: TransportScene, foreign: Dial) -> None:
    async def scenario(pair: Pair) -> None:
        sock = foreign(pair.listener.address)
        sock.send(HELLO_FRAME)
        await until(lambda: len(pair.server_handler.connections) == 1)
        for _ in range(3):
            sock.send_multipart([encode_message(opaque(1)), b"more", b"and more"])
        await until(lambda: pair.server.counters.malformed_frames == 3 and bool(pair.server_handler.reasons))
        assert pair.server_handler.received_messages == []

    scene.check(scenario)


def test_a_peer_that_chose_its_identity_is_not_accepted(scene: TransportScene, foreign: Dial) -> None:
    async def scenario(pair: Pair) -> None:
        sock = foreign(pair.listener.address, b"always me")
        sock.send(HELLO_FRAME)
        await until(lambda: pair.server.counters.malformed_frames == 1)
        assert pair.server_handler.connections == []

    scene.check(scenario)


def test_a_frame_far_too_large_ends_the_connection_at_both_ends(scene: TransportScene) -> None:
    async def main() -> None:
        async with scene.pair(ChannelLimits(max_frame_bytes=SMALL_FRAME), ChannelLimits()) as pair:
            near, far = await pair.both_ends()
            near.send(opaque(1, 3 * SMALL_FRAME))
            await until(lambda: near.closed and far.closed)
            assert pair.server_handler.received_messages == []

    asyncio.run(main())


# --- connections below connections -----------------------------------------------------------------------------------


class Proxy:
    """Passes bytes between whoever connects and ``target``, until :meth:`cut`."""

    def __init__(self, target: str) -> None:
        self.accepted = 0
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []
        self._pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return join_address(*self._server.sockets[0].getsockname())

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def stop(self) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._pumps)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        far_reader, far_writer = await asyncio.open_connection(*split_address(self._target))
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._pump(source, sink))
            self._pumps.add(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        except ConnectionError:
            pass
        sink.transport.abort()


def test_a_cut_stream_ends_the_connection_and_nothing_resumes_it(scene: TransportScene) -> None:
    async def scenario(pair: Pair) -> None:
        proxy = Proxy(pair.listener.address)
        near = await pair.client.connect(await proxy.start(), CLIENT, pair.client_handler, PATIENCE_SECONDS)
        await until(lambda: len(pair.server_handler.connections) == 1)
        proxy.cut()
        await until(lambda: bool(pair.client_handler.reasons and pair.server_handler.reasons))
        assert near.closed
        assert await (await pair.connect()).ask(Ping(), PATIENCE_SECONDS) == Done()
        assert proxy.accepted == 1
        await proxy.stop()

    scene.check(scenario)


def test_a_foreign_peer_that_reconnects_below_us_must_greet_again(scene: TransportScene, foreign: Dial) -> None:
    async def scenario(pair: Pair) -> None:
        proxy = Proxy(pair.listener.address)
        sock = foreign(await proxy.start())
        sock.send(HELLO_FRAME)
        await until(lambda: len(pair.server_handler.connections) == 1)
        proxy.cut()
        await until(lambda: len(pair.server_handler.reasons) == 1 and proxy.accepted == 2)
        sock.send(encode_message(opaque(1)))
        await until(lambda: pair.server.counters.malformed_frames == 1)
        sock.send(HELLO_FRAME)
        await until(lambda: len(pair.server_handler.connections) == 2)
        assert pair.server_handler.received_messages == []
        await proxy.stop()

    scene.check(scenario)


def shake_hands(stream: socket.socket) -> None:
    """Do what a DEALER socket does on a new stream before its first message."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
    stream.sendall(greeting + bytes([4, len(ready)]) + ready)
    answer = b""
    while b"READY" not in answer:
        answer += stream.recv(1000)


def zmtp(frame: bytes) -> bytes:
    """A short message as a DEALER socket writes it to a stream."""
    return bytes([0, len(frame)]) + frame


def accepted_descriptors(address: str) -> set[int]:
    """Our descriptors of streams accepted at ``address``."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        if peer_address(int(name)) is not None:
            with socket.socket(fileno=os.dup(int(name))) as stream:
                if join_address(*stream.getsockname()[:2]) == address:
                    found.add(int(name))
    return found


@contextmanager
def next_descriptor_is(wanted: int) -> Iterator[None]:
    """Make ``wanted``, which is free, the lowest free descriptor."""
    fillers = []
    while (filler := os.dup(0)) < wanted:
        fillers.append(filler)
    os.close(filler)
    try:
        yield
    finally:
        for filler in fillers:
            os.close(filler)


@pytest.mark.parametrize("greets", [True, False], ids=["greets", "is silent"])
def test_a_reused_descriptor_is_not_taken_for_the_connection_before(scene: TransportScene, greets: bool) -> None:
    late_hello = Hello("test", "late", CLIENT.role, "late-process")

    async def scenario(pair: Pair) -> None:
        address = pair.listener.address
        with socket.socket() as early, socket.socket() as late:
            # The event loop stands still here: all of this has happened before the listener reads any of it.
            early.connect(split_address(address))
            shake_hands(early)
            (descriptor,) = accepted_descriptors(address)
            early.sendall(zmtp(HELLO_FRAME))
            early.shutdown(socket.SHUT_WR)
            while early.recv(1000):
                pass  # until the listener has closed its end, having read everything
            with next_descriptor_is(descriptor):
                late.connect(split_address(address))
                shake_hands(late)
            if greets:
                late.sendall(zmtp(encode_frame(Kind.HELLO, late_hello)))
            assert accepted_descriptors(address) == {descriptor}

            await until(
                lambda: len(pair.server_handler.connections) == 1 + greets and len(pair.server_handler.reasons) == 1
            )
            first = pair.server_handler.connections[0]
            assert pair.server_handler.history(first) == ["opened", "closed"]
            if greets:
                second = pair.server_handler.connections[1]
                assert second.peer.node == "late"
                late.sendall(zmtp(encode_message(opaque(1))))
                await until(lambda: pair.server_handler.received_messages == [opaque(1)])
                late.close()
                await until(lambda: len(pair.server_handler.reasons) == 2)
                assert pair.server_handler.history(second) == ["opened", "received", "closed"]

    scene.check(scenario)
