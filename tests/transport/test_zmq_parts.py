"""The parts of the ZeroMQ transport: the shared context, the monitor, the flusher, and a dialled link that fails."""

from __future__ import annotations

import asyncio
import time

import pytest
import uvloop
import zmq
from slotreeve.clock import LoopClock
from slotreeve.errors import Unreachable
from slotreeve.ports import Connection, Message, TransportCounters
from slotreeve_conformance.transport_scene import CLIENT, SERVER, RecordingHandler, opaque, until
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_zmq.contexts import take_context
from slotreeve_transport_zmq.dialling import DialledLink
from slotreeve_transport_zmq.sockets import Flusher, Monitor, new_socket
from slotreeve_transport_zmq.transport import ZmqTransport

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


def test_a_dialled_address_without_a_listener_is_unreachable_and_leaves_no_link() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        transport = ZmqTransport(clock)
        with pytest.raises(Unreachable, match="the connection was refused"):
            await transport.connect("127.0.0.1:1", CLIENT, RecordingHandler(), 5.0)
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


def hold_up(seconds: float) -> None:
    """The event loop does nothing else for so long."""
    time.sleep(seconds)


class SlowHandler(RecordingHandler):
    """Works for a while on each message, and notes in which turn of the event loop it came."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.turns: list[int] = []

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        super().received(connection, message, request_id)
        self.turns.append(self.turn)
        hold_up(0.01)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_many_connections_with_much_to_read_leave_the_loop_time_for_others(new_loop: type) -> None:
    async def scenario() -> None:
        clock, far, near = LoopClock(), RecordingHandler(), SlowHandler()
        transports = [ZmqTransport(clock) for _ in range(31)]
        listener = await transports[0].listen("127.0.0.1:0", SERVER, far)
        for transport in transports[1:]:
            await transport.connect(listener.address, CLIENT, near, 5.0)
        await until(lambda: len(far.events) == 30)
        for _, connection in far.events:
            connection.send(opaque(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        hold_up(0.3)  # everything arrives before the next turn
        while len(near.turns) < 30:
            near.turn += 1
            await asyncio.sleep(0)
        assert near.turns[-1] - near.turns[0] >= 5
        for transport in transports[::-1]:
            await transport.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
