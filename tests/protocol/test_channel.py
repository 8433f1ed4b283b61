"""The protocol over one link, without a transport: greeting and queues."""

from __future__ import annotations

import asyncio
import time

import pytest
from slotreeve.errors import Backpressure, ConnectionLost, Refused, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message, TransportCounters
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.channel import BUSY_PEER_LOOKS, Channel
from slotreeve_protocol.client_messages import Published, Redirect
from slotreeve_protocol.codec import Kind, decode_frame, encode_frame, encode_message
from slotreeve_protocol.general_messages import Done, Goodbye, Opaque, Ping
from slotreeve_protocol.packets import FRAME_OVERHEAD, ChannelLimits, frames_of

from tests.protocol.channel_scene import OURS, THEIRS, RecordingHandler, Scene, ScriptedLink, play

# --- greeting --------------------------------------------------------------------------------------------------------


def test_what_the_handler_sends_at_the_end_of_the_turn_travels_with_the_welcome() -> None:
    packets: list[list[Message]] = []

    async def main(_rng: object) -> None:
        clock = VirtualClock()

        class FlushingLink(ScriptedLink):
            def write(self, packet: bytes) -> bool:
                packets.append([decode_frame(frame)[2] for frame in frames_of(packet)])
                return True

            def wake(self) -> None:
                clock.call_soon(flush)

        class AdmittingHandler(RecordingHandler):
            def opened(self, connection: Connection) -> None:
                clock.call_soon(lambda: connection.send(Redirect(["a:1"])))

        def flush() -> None:
            assert channel.flush()

        channel = Channel(FlushingLink(), OURS, AdmittingHandler(), clock, TransportCounters(), ChannelLimits())
        channel.receive(encode_frame(Kind.HELLO, THEIRS))
        await clock.sleep(1)

    run(main)
    assert packets == [[OURS, Redirect(["a:1"])]]


def test_a_handler_may_close_the_connection_that_has_just_opened() -> None:
    class ClosingHandler(RecordingHandler):
        def opened(self, connection: Connection) -> None:
            connection.close("not here")

    async def main(_rng: object) -> None:
        link = ScriptedLink()
        channel = Channel(link, OURS, ClosingHandler(), VirtualClock(), TransportCounters(), ChannelLimits())
        channel.receive(encode_frame(Kind.HELLO, THEIRS))
        assert [message for _, _, message in link.frames] == [OURS, Goodbye("not here")]
        assert (link.released, link.woken) == (1, 0)

    run(main)


def test_the_accepting_end_answers_a_hello_with_its_own() -> None:
    async def scenario(scene: Scene) -> None:
        assert not scene.channel.opened
        with pytest.raises(ConnectionLost):
            _ = scene.channel.peer
        scene.receive(Kind.HELLO, THEIRS)
        assert scene.channel.flush()
        assert scene.link.frames == [(Kind.WELCOME, 0, OURS)]
        assert scene.channel.peer == THEIRS
        assert scene.handler.events == ["opened"]

    play(scenario, opened=False)


def test_the_dialling_end_is_open_once_it_is_welcome() -> None:
    async def scenario(scene: Scene) -> None:
        dialling = asyncio.ensure_future(scene.channel.establish(1.0))
        await asyncio.sleep(0)
        scene.channel.flush()
        assert scene.link.frames == [(Kind.HELLO, 0, OURS)]
        scene.receive(Kind.WELCOME, THEIRS)
        await dialling
        assert scene.handler.events == ["opened"]

    play(scenario, opened=False)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (encode_frame(Kind.REFUSED, Goodbye("go away")), Refused, "peer:1: go away"),
        (
            encode_frame(Kind.WELCOME, Hello("other", "n", Role.DATA, "p")),
            Refused,
            "this is cluster 'test', not 'other'",
        ),
        (encode_frame(Kind.BYE, Goodbye("stopping")), Unreachable, "peer:1: stopping"),
        (b"", Unreachable, "did not answer the hello within 0.5 s"),
    ],
)
def test_the_dialling_end_gets_the_reason_for_a_refusal(answer: bytes, error: type[Exception], text: str) -> None:
    async def scenario(scene: Scene) -> None:
        dialling = asyncio.ensure_future(scene.channel.establish(0.5))
        await asyncio.sleep(0)
        if answer:
            scene.channel.receive(answer)
        with pytest.raises(error, match=text):
            await dialling
        assert scene.channel.closed
        assert scene.link.released == 1
        assert scene.handler.events == []

    play(scenario, opened=False)


def test_a_dialler_whose_loop_was_busy_reads_the_answer_before_it_gives_up() -> None:
    async def scenario(scene: Scene) -> None:
        dialling = asyncio.ensure_future(scene.channel.establish(0.04))
        await asyncio.sleep(0)
        time.sleep(0.1)  # noqa: ASYNC251 - the event loop stands still for longer than the attempt may take
        asyncio.get_running_loop().call_later(0.005, scene.receive, Kind.WELCOME, THEIRS)
        await dialling
        assert scene.handler.events == ["opened"]

    play(scenario, opened=False)


def test_a_peer_whose_transport_has_answered_gets_more_time() -> None:
    async def scenario(scene: Scene) -> None:
        dialling = asyncio.ensure_future(scene.channel.establish(0.04))
        await asyncio.sleep(0)
        scene.channel.greeting_looks += BUSY_PEER_LOOKS
        asyncio.get_running_loop().call_later(0.1, scene.receive, Kind.WELCOME, THEIRS)
        await dialling
        assert scene.handler.events == ["opened"]

    play(scenario, opened=False)


def test_a_dialler_that_is_cancelled_just_after_it_opened_closes() -> None:
    async def scenario(scene: Scene) -> None:
        dialling = asyncio.ensure_future(scene.channel.establish(1.0))
        await asyncio.sleep(0)
        scene.receive(Kind.WELCOME, THEIRS)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        await asyncio.sleep(0)
        assert scene.handler.events == ["opened", "the attempt was cancelled"]
        assert scene.link.frames[-1] == (Kind.BYE, 0, Goodbye("the attempt was cancelled"))

    play(scenario, opened=False)


# --- queues ----------------------------------------------------------------------------------------------------------


def test_frames_of_one_turn_travel_in_one_packet() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room, scene.link.woken = 1, 0
        for i in range(100):
            scene.channel.send(Opaque(str(i), b""))
        assert scene.link.woken == 1
        assert scene.channel.flush()
        assert [frame[2] for frame in scene.link.frames] == [Opaque(str(i), b"") for i in range(100)]

    play(scenario)


def test_packets_without_room_are_written_later_in_order() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room = 0
        scene.channel.send(Opaque("0", b""))
        assert not scene.channel.flush()
        for i in range(1, 5):
            scene.channel.send(Opaque(str(i), b""))
        assert not scene.channel.flush()
        scene.link.room = 10
        assert scene.channel.flush()
        assert [frame[2] for frame in scene.link.frames] == [Opaque(str(i), b"") for i in range(5)]

    play(scenario)


def test_the_queue_is_bounded_in_bytes_too_but_takes_one_frame_of_any_size() -> None:
    async def scenario(scene: Scene) -> None:
        scene.channel.send(Opaque("large", b"x" * 5_000))
        with pytest.raises(Backpressure, match="peer:1"):
            scene.channel.send(Opaque("small", b""))
        assert scene.channel.flush()
        scene.channel.send(Opaque("small", b""))
        assert scene.counters.backpressure == 1

    play(scenario, ChannelLimits(queue_bytes=1_000))


def test_a_connection_has_room_while_less_than_half_of_its_queue_waits() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room = 0
        rooms = []
        for i in range(6):
            rooms.append(scene.channel.has_room)
            scene.channel.send(Opaque(str(i), b"x" * 100))
        assert rooms == [True] * 3 + [False] * 3
        scene.link.room = 1_000
        scene.channel.flush()
        assert scene.channel.has_room

    play(scenario, ChannelLimits(queue_bytes=6 * (len(encode_message(Opaque("0", b"x" * 100))) + FRAME_OVERHEAD)))


def test_a_peer_that_does_not_read_its_replies_loses_the_connection() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room = 0
        for i in range(20):
            assert not scene.channel.closed
            scene.channel.reply(i, Done())
        scene.channel.reply(20, Done())
        assert scene.channel.closed
        assert scene.counters.backpressure == 1

    play(scenario, ChannelLimits(queue_bytes=10 * (len(encode_frame(Kind.REPLY, Done())) + FRAME_OVERHEAD)))


def test_urgent_messages_overtake_a_long_queue_and_find_room_where_others_do_not() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room = 0
        for i in range(20):
            scene.channel.send(Opaque(str(i), b"x" * 100))
        with pytest.raises(Backpressure):
            scene.channel.send(Opaque("20", b"x" * 100))
        scene.channel.send(Published([1]))
        scene.channel.request(Ping(), lambda reply, error: None, 1.0)
        scene.channel.reply(7, Done())
        scene.channel.send(Published([2]))
        scene.channel.close("enough")
        scene.link.room = 1_000
        scene.channel.flush()
        sent = [message for _, _, message in scene.link.frames]
        assert sent[:4] == [Published([1]), Ping(), Done(), Published([2])]
        assert sent[4:-1] == [Opaque(str(i), b"x" * 100) for i in range(20)]
        assert sent[-1] == Goodbye("enough")

    play(scenario, ChannelLimits(queue_bytes=20 * (len(encode_message(Opaque("20", b"x" * 100))) + FRAME_OVERHEAD)))


def test_the_welcome_is_first_even_if_the_handler_sends_something_urgent_when_it_opens() -> None:
    class Eager(RecordingHandler):
        def opened(self, connection: Connection) -> None:
            connection.send(Redirect(["a:1"]))

    async def main(_rng: object) -> None:
        link = ScriptedLink()
        channel = Channel(link, OURS, Eager(), VirtualClock(), TransportCounters(), ChannelLimits())
        channel.receive(encode_frame(Kind.HELLO, THEIRS))
        channel.flush()
        assert [kind for kind, _, _ in link.frames] == [Kind.WELCOME, Kind.MESSAGE]

    run(main)
