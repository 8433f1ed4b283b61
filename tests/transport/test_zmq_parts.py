"""The parts of the ZeroMQ transport: the shared context, the monitor, the flusher, and a dialled link that fails."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import zmq
from slotreeve.clock import LoopClock
from slotreeve.errors import AddressInUse, Refused, Unreachable
from slotreeve.keys import KeyRing, Principal, TrustedKeys
from slotreeve.model.nodes import Role
from slotreeve.ports import Hello, TransportCounters
from slotreeve_conformance.transport_scene import CLIENT, RecordingHandler, until
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_zmq import addresses
from slotreeve_transport_zmq.addresses import hang_up, is_refused, join_address, peer_address
from slotreeve_transport_zmq.admission import new_pair
from slotreeve_transport_zmq.contexts import MOST_USERS, take_context
from slotreeve_transport_zmq.dialling import DialledLink
from slotreeve_transport_zmq.sockets import Flusher, Monitor, new_socket
from slotreeve_transport_zmq.transport import ZmqTransport

from tests.descriptors import none_free

MAX_FRAME_BYTES = 1 << 20


def test_transports_with_as_many_threads_share_a_context_until_the_last_gives_it_back() -> None:
    first, second = take_context(3), take_context(3)
    other = take_context(2)
    assert first is second
    assert first is not other
    other.give_back()
    first.give_back()
    assert not second.context.closed
    second.give_back()
    assert second.context.closed


def test_very_many_transports_have_several_contexts_because_libzmq_goes_through_all_monitors_of_one() -> None:
    users = [take_context(1) for _ in range(2 * MOST_USERS + 1)]
    assert [len({user.context for user in users[:most]}) for most in (MOST_USERS, 2 * MOST_USERS, len(users))] == [
        1,
        2,
        3,
    ]
    users.pop(0).give_back()
    users.append(take_context(1))
    assert len({user.context for user in users}) == 3
    for user in users:
        user.give_back()
    assert all(user.context.closed for user in users)


def test_a_socket_has_the_limits_of_its_connections() -> None:
    shared = take_context(1)
    socket = new_socket(shared.context, zmq.DEALER, "tcp://[::1]:1", MAX_FRAME_BYTES)
    assert (socket.getsockopt(zmq.MAXMSGSIZE), socket.getsockopt(zmq.IPV6)) == (2 * MAX_FRAME_BYTES, 1)
    socket.close(0)
    shared.give_back()


def test_the_monitor_reports_that_an_address_is_closed() -> None:
    async def scenario() -> None:
        shared = take_context(1)
        socket = new_socket(shared.context, zmq.ROUTER, "tcp://127.0.0.1:0", MAX_FRAME_BYTES)
        events: list[int] = []
        closed = asyncio.Event()

        def happened(event: int, _descriptor: int) -> None:
            events.append(event)
            closed.set()

        monitor = Monitor(shared.context, socket, zmq.EVENT_CLOSED, asyncio.get_running_loop(), happened)
        socket.bind("tcp://127.0.0.1:*")
        endpoint = socket.LAST_ENDPOINT
        assert isinstance(endpoint, bytes)
        socket.unbind(endpoint)
        async with asyncio.timeout(5):
            await closed.wait()
        assert events == [zmq.EVENT_CLOSED]
        monitor.close()
        monitor.close()
        socket.close(0)
        await asyncio.to_thread(shared.give_back)

    asyncio.run(scenario())


def test_peers_are_found_and_disconnected_where_no_descriptor_is_free() -> None:
    """Whoever takes all of them with connections that say nothing would keep them otherwise."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
        accepted, _ = server.accept()
        with accepted, none_free():
            address = peer_address(accepted.fileno())
            assert address == join_address(*peer.getsockname())
            hang_up(accepted.fileno(), "127.0.0.1:1")  # it has the descriptor no more
            accepted.sendall(b"still there")
            assert peer.recv(100) == b"still there"
            hang_up(accepted.fileno(), address)
            assert peer.recv(100) == b""
            assert (peer_address(10_000_000), peer_address(-1)) == (None, None)


class FailsOnce(TrustedKeys):
    """Cannot be looked at, the first time."""

    has_failed = False

    def holder(self, key: str) -> Principal | None:
        """Who has this key."""
        if not self.has_failed:
            self.has_failed = True
            raise MemoryError
        return super().holder(key)


def test_a_peer_that_cannot_be_looked_up_is_refused_and_the_next_one_is_let_in(caplog: Any) -> None:
    async def scenario() -> None:
        server, peer, clock = new_pair(), new_pair(), LoopClock()
        trusted = FailsOnce({Role.META: {"meta-1": [server.public]}, Role.DATA: {"data-1": [peer.public]}})
        listening = ZmqTransport(clock, keys=KeyRing(server, trusted, name="meta-1"))
        trusted.has_failed = True
        listener = await listening.listen("127.0.0.1:0", Hello("test", "meta-1", Role.META, "m"), RecordingHandler())
        address = f"meta-1@{listener.address}"
        dialling = ZmqTransport(clock, keys=KeyRing(peer, TrustedKeys({Role.META: {"meta-1": [server.public]}})))
        trusted.has_failed = False
        hello = Hello("test", "data-1", Role.DATA, "d")
        with pytest.raises(Refused):
            await dialling.connect(address, hello, RecordingHandler(), 5.0)
        assert "could not be looked up" in caplog.text
        connection = await dialling.connect(address, hello, RecordingHandler(), 5.0)
        assert connection.peer.node == "meta-1"
        for transport in (dialling, listening):
            await asyncio.wait_for(transport.close(), 30.0)

    asyncio.run(scenario())


def test_the_log_says_from_where_and_with_which_key_a_stranger_was_refused(caplog: Any) -> None:
    async def scenario() -> None:
        server, stranger, clock = new_pair(), new_pair(), LoopClock()
        keys = TrustedKeys({Role.META: {"meta-1": [server.public]}})
        listening = ZmqTransport(clock, keys=KeyRing(server, keys, name="meta-1"))
        hello = Hello("test", "meta-1", Role.META, "m")
        listener = await listening.listen("127.0.0.1:0", hello, RecordingHandler())
        dialling = ZmqTransport(clock, keys=KeyRing(stranger, keys))
        with pytest.raises(Refused):
            await dialling.connect(f"meta-1@{listener.address}", CLIENT, RecordingHandler(), 5.0)
        await until(lambda: bool(listening.counters.refused_keys))
        expected = f"refused 127.0.0.1 with the key {stranger.public}, which is not trusted here; 1 so far"
        assert [record.message for record in caplog.records] == [expected]
        for transport in (dialling, listening):
            await asyncio.wait_for(transport.close(), 30.0)

    asyncio.run(scenario())


def test_strangers_that_follow_each_other_wait_for_their_refusal_while_others_are_let_in(monkeypatch: Any) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("slotreeve_transport_zmq.admission.REFUSAL_SECONDS", 2.0)
        monkeypatch.setattr("slotreeve_transport_zmq.admission.CROWD_SECONDS", 10.0)
        server, peer, stranger, clock = new_pair(), new_pair(), new_pair(), LoopClock()
        trusted = TrustedKeys({Role.META: {"meta-1": [server.public]}, Role.DATA: {"data-1": [peer.public]}})
        listening = ZmqTransport(clock, keys=KeyRing(server, trusted, name="meta-1"))
        hello = Hello("test", "meta-1", Role.META, "m")
        listener = await listening.listen("127.0.0.1:0", hello, RecordingHandler())
        address = f"meta-1@{listener.address}"
        dialling, refused = (ZmqTransport(clock, keys=KeyRing(pair, trusted)) for pair in (peer, stranger))

        async def attempt() -> float:
            began = clock.now()
            with pytest.raises(Refused, match="not trusted there"):
                await refused.connect(address, CLIENT, RecordingHandler(), 10.0)
            return clock.now() - began

        assert await attempt() < 2.0  # a single one learns it at once
        attempts = [asyncio.create_task(attempt()) for _ in range(3)]
        await asyncio.sleep(0.2)
        await dialling.connect(address, Hello("test", "data-1", Role.DATA, "d"), RecordingHandler(), 5.0)
        assert not any(task.done() for task in attempts)
        assert min(await asyncio.gather(*attempts)) >= 2.0
        assert listening.counters.refused_keys == 4
        waits = asyncio.create_task(refused.connect(address, CLIENT, RecordingHandler(), 5.0))
        await asyncio.sleep(0.5)
        for transport in (listening, dialling, refused):
            await asyncio.wait_for(transport.close(), 30.0)
        with pytest.raises(Unreachable):
            await waits

    asyncio.run(scenario())


def test_strangers_that_do_not_wait_for_their_refusal_are_counted_and_the_first_is_logged(caplog: Any) -> None:
    async def scenario() -> None:
        server, clock = new_pair(), LoopClock()
        keys = TrustedKeys({Role.META: {"meta-1": [server.public]}})
        listening = ZmqTransport(clock, keys=KeyRing(server, keys, name="meta-1"))
        hello = Hello("test", "meta-1", Role.META, "m")
        listener = await listening.listen("127.0.0.1:0", hello, RecordingHandler())
        pairs = [new_pair() for _ in range(5)]
        strangers = [ZmqTransport(clock, keys=KeyRing(pair, keys)) for pair in pairs]
        for number, stranger in enumerate(strangers, 1):
            with pytest.raises((Refused, Unreachable)):
                await stranger.connect(f"meta-1@{listener.address}", CLIENT, RecordingHandler(), 0.3)
            await until(lambda number=number: listening.counters.refused_keys == number)  # type: ignore[misc]
        told = [record.message for record in caplog.records]
        assert told[0] == f"refused 127.0.0.1 with the key {pairs[0].public}, which is not trusted here; 1 so far"
        for transport in (*strangers, listening):
            await asyncio.wait_for(transport.close(), 30.0)

    asyncio.run(scenario())


def test_the_last_transport_closes_where_no_descriptor_is_free() -> None:
    async def scenario() -> None:
        clock, hello, server = LoopClock(), Hello("test", "meta-1", Role.META, "m"), new_pair()
        keys = KeyRing(server, TrustedKeys({Role.META: {"meta-1": [server.public]}}), name="meta-1")
        transport = ZmqTransport(clock, keys=keys)
        await transport.listen("127.0.0.1:0", hello, RecordingHandler())
        with none_free():
            await asyncio.wait_for(transport.close(), 30.0)
        assert "zap" not in {thread.name for thread in threading.enumerate()}

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [zmq.ROUTER, zmq.DEALER, zmq.PAIR], ids=["ROUTER", "DEALER", "PAIR"])
def test_a_listener_for_which_descriptors_are_missing_says_so_and_leaves_nothing(kind: int, monkeypatch: Any) -> None:
    """libzmq would wait for ever for a socket that was left open."""
    make = zmq.Context.socket

    def fails(context: Any, wanted: int) -> Any:
        if wanted == kind:
            raise zmq.ZMQError(errno.EMFILE)
        return make(context, wanted)

    async def scenario() -> None:
        server, hello = new_pair(), Hello("test", "meta-1", Role.META, "m")
        keys = KeyRing(server, TrustedKeys({Role.META: {"meta-1": [server.public]}}), name="meta-1")
        transport = ZmqTransport(LoopClock(), keys=keys)
        with monkeypatch.context() as patched:
            patched.setattr(zmq.Context, "socket", fails)
            with pytest.raises(AddressInUse, match="Too many open files"):
                await transport.listen("127.0.0.1:0", hello, RecordingHandler())
        await asyncio.wait_for(transport.close(), 30.0)

    asyncio.run(scenario())


def test_a_stranger_that_leaves_at_once_ends_no_connection_that_gets_its_descriptor(monkeypatch: Any) -> None:
    """The listener hears of it late, when its descriptor is that of a connection that this process has dialled."""

    async def scenario() -> None:
        monkeypatch.setattr("slotreeve_transport_zmq.listening.SILENCE_SECONDS", 0.3)
        clock, hello = LoopClock(), Hello("test", "data-1", Role.DATA, "d")
        near, far = ZmqTransport(clock), ZmqTransport(clock)
        listener = await near.listen("127.0.0.1:0", hello, RecordingHandler())
        there = await far.listen("127.0.0.1:0", hello, RecordingHandler())
        host, _, port = listener.address.rpartition(":")
        made = []
        for _ in range(10):
            socket.create_connection((host, int(port))).close()  # what follows within 100 ms is read later
            await asyncio.sleep(0.004)
            strangers = [socket.create_connection((host, int(port))) for _ in range(6)]
            await asyncio.sleep(0.002)
            for stranger in strangers:
                stranger.close()
            await asyncio.sleep(0.003)
            made.append(await near.connect(there.address, hello, RecordingHandler(), 5.0))
        await asyncio.sleep(0.6)
        assert [connection.closed for connection in made] == [False] * 10
        for transport in (near, far):
            await asyncio.wait_for(transport.close(), 30.0)

    asyncio.run(scenario())


def test_a_listener_with_keys_does_not_open_without_them_where_nobody_can_answer_for_it(monkeypatch: Any) -> None:
    def fails(thread: threading.Thread) -> None:
        raise RuntimeError(f"can't start {thread.name}")

    async def scenario() -> None:
        server, clock = new_pair(), LoopClock()
        keys = KeyRing(server, TrustedKeys({Role.META: {"meta-1": [server.public]}}), name="meta-1")
        transport, stranger = ZmqTransport(clock, keys=keys), ZmqTransport(clock)
        hello = Hello("test", "meta-1", Role.META, "m")
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fails)
            with pytest.raises(RuntimeError, match="can't start zap"):
                await transport.listen("127.0.0.1:0", hello, RecordingHandler())
        listener = None
        while listener is None:
            with contextlib.suppress(AddressInUse):  # libzmq takes a moment to free the address at which it asks
                listener = await transport.listen("127.0.0.1:0", hello, RecordingHandler())
            await asyncio.sleep(0.01)
        with pytest.raises(Unreachable, match="only one end uses keys"):
            await stranger.connect(listener.address, CLIENT, RecordingHandler(), 5.0)
        for each in (stranger, transport):
            await asyncio.wait_for(each.close(), 30.0)

    asyncio.run(scenario())


def test_an_address_to_which_there_is_no_way_does_not_count_as_one_where_nobody_listens() -> None:
    """The system refuses both at once, and libzmq reports both alike. The process there may live, and lead."""

    async def scenario() -> None:
        transport = ZmqTransport(LoopClock())
        with pytest.raises(Unreachable) as unreachable:
            await transport.connect("255.255.255.255:80", CLIENT, RecordingHandler(), 5.0)
        assert not unreachable.value.nobody_listens
        await transport.close()

    asyncio.run(scenario())


def test_a_dialled_address_without_a_listener_is_unreachable_and_leaves_no_link() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        transport = ZmqTransport(clock)
        with pytest.raises(Unreachable, match="the connection was refused") as refused:
            await transport.connect("127.0.0.1:1", CLIENT, RecordingHandler(), 5.0)
        assert refused.value.nobody_listens
        await transport.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.PAIR], ids=["DEALER", "PAIR"])
def test_a_connection_for_which_descriptors_are_missing_is_unreachable_and_leaves_nothing(
    kind: int, monkeypatch: Any
) -> None:
    make, made = zmq.Context.socket, list[zmq.Socket[bytes]]()

    def fails(context: Any, wanted: int) -> Any:
        if wanted == kind:
            raise zmq.ZMQError(errno.EMFILE)
        made.append(make(context, wanted))
        return made[-1]

    async def scenario() -> None:
        transport = ZmqTransport(LoopClock())
        with pytest.raises(Unreachable):
            await transport.connect("127.0.0.1:1", CLIENT, RecordingHandler(), 5.0)
        with monkeypatch.context() as patched:
            patched.setattr(zmq.Context, "socket", fails)
            with pytest.raises(Unreachable, match="Too many open files"):
                await transport.connect("127.0.0.1:1", CLIENT, RecordingHandler(), 5.0)
        assert [socket.closed for socket in made] == [True] * (kind == zmq.PAIR)
        await asyncio.wait_for(transport.close(), 30.0)

    asyncio.run(scenario())


def test_a_host_name_that_no_thread_can_look_up_is_unreachable(monkeypatch: Any) -> None:
    def no_thread(thread: threading.Thread) -> None:
        raise RuntimeError("there is no new thread")

    async def scenario() -> None:
        transport = ZmqTransport(LoopClock())
        with monkeypatch.context() as patched:
            patched.setattr(addresses, "_lookers", ThreadPoolExecutor(1))  # without an idle thread
            patched.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(Unreachable, match="localhost was not looked up: there is no new thread"):
                await transport.connect("localhost:1", CLIENT, RecordingHandler(), 5.0)
        with none_free():
            assert not await is_refused("tcp://127.0.0.1:1", 1.0)
        await transport.close()

    asyncio.run(scenario())


def test_a_link_to_an_impossible_endpoint_fails_and_is_released_once() -> None:
    async def scenario() -> None:
        shared, released = take_context(1), list[DialledLink]()
        clock = LoopClock()
        flusher = Flusher(asyncio.get_running_loop(), clock)
        socket = new_socket(shared.context, zmq.DEALER, "tcp://127.0.0.1:1", MAX_FRAME_BYTES)
        link = DialledLink(shared.context, socket, "127.0.0.1:1", flusher, released.append)
        link.channel = Channel(link, CLIENT, RecordingHandler(), clock, TransportCounters(), ChannelLimits())
        assert (link.address, link.end) == ("127.0.0.1:1", link)
        with pytest.raises(zmq.ZMQError):
            link.dial("no endpoint")
        link.channel.abandon()
        link.channel.abandon()
        assert (released, socket.closed) == ([link], True)
        flusher.close()
        await asyncio.to_thread(shared.give_back)

    asyncio.run(scenario())
