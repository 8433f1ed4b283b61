"""The contract of transports under faults."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from slotreeve.errors import Backpressure, FrameTooLarge
from slotreeve.ports import Connection, Message
from slotreeve_protocol.codec import Kind, encode_frame, encode_message
from slotreeve_protocol.general_messages import Done, Failed, Ping
from slotreeve_protocol.packets import ChannelLimits

from slotreeve_conformance.transport_scene import (
    PATIENCE_SECONDS,
    SERVER,
    SMALL_FRAME,
    Pair,
    RecordedAnswers,
    RecordingHandler,
    TransportScene,
    opaque,
    until,
)


def fill(connection: Connection) -> int:
    """Send numbered messages until one is refused. Returns the number of accepted messages."""
    for number in range(1_000_000):
        try:
            connection.send(opaque(number))
        except Backpressure:
            return number
    raise AssertionError("a million messages were accepted from a sender that never waits")


def has_received(handler: RecordingHandler, count: int) -> bool:
    """Whether so many one-way messages have arrived."""
    return len(handler.received_messages) >= count


class TransportFaultsContract(TransportScene):
    """A fault is reported where it can be handled, is counted, and has no effect on other connections."""

    @pytest.mark.parametrize("event", ["opened", "received", "closed"])
    def test_a_handler_that_raises_is_counted_and_ends_that_connection_only(self, event: str) -> None:
        async def scenario(pair: Pair) -> None:
            other = await pair.connect()
            await until(lambda: len(pair.server_handler.connections) == 1)
            pair.server_handler.failing = frozenset({event})
            near = await pair.connect()
            await until(lambda: len(pair.server_handler.connections) == 2)
            if event == "received":
                near.send(opaque(1))
            elif event == "closed":
                near.close("enough")
            await until(lambda: near.closed and pair.server.counters.handler_errors == 1)
            await until(lambda: len(pair.server_handler.reasons) == 1)
            pair.server_handler.failing = frozenset()
            assert await other.ask(Ping(), PATIENCE_SECONDS) == Done()

        self.check(scenario)

    def test_a_callback_that_raises_is_counted_and_ends_the_connection(self) -> None:
        def answered(_reply: Message | None, _error: Exception | None) -> None:
            raise RuntimeError("the callback fails on purpose")

        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            near.request(Ping(), answered, PATIENCE_SECONDS)
            await until(lambda: near.closed and pair.client.counters.handler_errors == 1)

        self.check(scenario)

    @pytest.mark.parametrize(
        "frame",
        [
            b"\x00garbage",
            b"\xff" * 40,
            bytes([encode_message(Ping())[0] + 0x10]) + encode_message(Ping())[1:],
            encode_message(opaque(1))[:-3],
            encode_frame(Kind.REQUEST, opaque(1), 7)[:3],
            encode_message(Ping())[:1] + b"\x93\xcd\x03\xe7\x01\x02",
            encode_frame(Kind.WELCOME, SERVER),
            bytes([encode_message(Ping())[0] | 15]) + b"\xff\xff\xff\xff12",
        ],
        ids=["garbage", "ones", "version", "truncated", "short request", "unknown message", "second welcome", "batch"],
    )
    def test_malformed_frames_are_dropped_and_counted_and_the_third_ends_the_connection(self, frame: bytes) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            for i in range(1, 3):
                near.send_encoded(frame)
                await until(lambda i=i: pair.server.counters.malformed_frames == i)  # type: ignore[misc]
                assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
            near.send_encoded(frame)
            await until(lambda: far.closed and near.closed)
            assert pair.server.counters.malformed_frames == 3
            await until(lambda: bool(pair.server_handler.reasons))
            assert "3 bad frames" in pair.server_handler.reasons[0]
            assert pair.server_handler.received_messages == []

        self.check(scenario)

    def test_oversize_frames_are_dropped_and_counted_and_the_third_ends_the_connection(self) -> None:
        async def main() -> None:
            async with self.pair(ChannelLimits(max_frame_bytes=SMALL_FRAME), ChannelLimits()) as pair:
                near, far = await pair.both_ends()
                for i in range(1, 3):
                    near.send(opaque(1, SMALL_FRAME))
                    await until(lambda i=i: pair.server.counters.oversize_frames == i)  # type: ignore[misc]
                    assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
                near.send(opaque(1, SMALL_FRAME))
                await until(lambda: far.closed and near.closed)
                assert pair.server.counters.oversize_frames == 3
                assert pair.server_handler.received_messages == []

        self.run(main())

    def test_a_full_queue_is_an_error_for_the_sender_and_nothing_else_is_lost(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            for sender, transport, handler in (
                (near, pair.client, pair.server_handler),
                (far, pair.server, pair.client_handler),
            ):
                taken = fill(sender)
                with pytest.raises(Backpressure):
                    sender.request(opaque(taken), RecordedAnswers(), 1.0)
                assert transport.counters.backpressure == 2
                await until(lambda handler=handler, taken=taken: len(handler.received_messages) >= taken)  # type: ignore[misc]
                assert handler.received_messages == [opaque(i) for i in range(taken)]
                sender.send(opaque(0))

        self.check(scenario, ChannelLimits(queue_bytes=8_000))

    def test_more_than_the_network_holds_arrives_all_the_same(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            sent = [opaque(number, 60_000) for number in range(1000)]
            for sender in (near, far):
                for message in sent:
                    sender.send(message)
            for receiver in (pair.server_handler, pair.client_handler):
                await until(partial(has_received, receiver, len(sent)))
                assert receiver.received_messages == sent

        self.check(scenario)

    def test_a_message_too_large_is_an_error_for_the_sender_alone(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            with pytest.raises(FrameTooLarge, match=f"max_frame_bytes = {SMALL_FRAME}"):
                near.send(opaque(1, SMALL_FRAME))
            assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()

        self.check(scenario, ChannelLimits(max_frame_bytes=SMALL_FRAME))

    def test_a_reply_too_large_becomes_a_failure_that_says_so(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, _ = await pair.both_ends()
            waiting = asyncio.ensure_future(near.ask(opaque(1), PATIENCE_SECONDS))
            await until(lambda: bool(pair.server_handler.requests))
            connection, request_id, _ = pair.server_handler.requests[0]
            connection.reply(request_id, opaque(1, SMALL_FRAME))
            reply = await waiting
            assert isinstance(reply, Failed)
            assert reply.code == FrameTooLarge.code

        self.check(scenario, ChannelLimits(max_frame_bytes=SMALL_FRAME))
