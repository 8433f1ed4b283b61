"""The protocol over one link, without a transport: its end, and requests."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from slotreeve.errors import ConnectionLost, FrameTooLarge, RequestTimeout
from slotreeve.model.nodes import Role
from slotreeve.ports import Message, TransportCounters
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.channel import (
    BAD_FRAMES_ALLOWED,
    CLOSE_GRACE_SECONDS,
    FROM_A_CLIENT_BYTES,
    LONGEST_GREETING_BYTES,
    Channel,
)
from slotreeve_protocol.codec import Kind, encode_frame, encode_message
from slotreeve_protocol.general_messages import Done, Goodbye, Opaque, Ping
from slotreeve_protocol.hello import LONGEST_NAME
from slotreeve_protocol.packets import ChannelLimits, FrameQueue
from slotreeve_protocol.requests import TIMEOUT_GRAIN_SECONDS

from tests.protocol.channel_scene import OURS, THEIRS, RecordingHandler, Scene, ScriptedLink, play


def batch(frames: list[bytes]) -> bytes:
    """One packet with all these frames."""
    outbox = FrameQueue(ChannelLimits())
    for frame in frames:
        outbox.add(frame)
    packet = outbox.take_packet()
    assert outbox.take_packet() == b""
    return packet


# --- ending ----------------------------------------------------------------------------------------------------------


def test_a_closed_channel_waits_for_room_for_a_limited_time() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room = 0
        scene.channel.send(Ping())
        scene.channel.close("enough")
        assert scene.link.released == 0
        await asyncio.sleep(CLOSE_GRACE_SECONDS / 2)
        assert scene.handler.events == ["opened", "enough"]
        assert scene.link.released == 0
        await asyncio.sleep(CLOSE_GRACE_SECONDS)
        assert scene.link.released == 1
        assert scene.link.frames == []

    play(scenario)


def test_a_closed_channel_sends_what_was_queued_and_the_goodbye_once_there_is_room() -> None:
    async def scenario(scene: Scene) -> None:
        scene.link.room = 0
        scene.channel.send(Ping())
        scene.channel.close("enough")
        scene.link.room = 10
        assert scene.channel.flush()
        assert scene.link.released == 1
        assert scene.link.frames == [(Kind.MESSAGE, 0, Ping()), (Kind.BYE, 0, Goodbye("enough"))]

    play(scenario)


@pytest.mark.parametrize("ending", ["close", "lost", "goodbye"])
def test_every_kind_of_end_calls_the_handler_once_and_releases_the_link_once(ending: str) -> None:
    async def scenario(scene: Scene) -> None:
        answers: list[Exception | None] = []
        scene.channel.request(Ping(), lambda _reply, error: answers.append(error), 10.0)
        if ending == "close":
            scene.channel.close("enough")
        elif ending == "lost":
            scene.channel.lost("enough")
        else:
            scene.receive(Kind.BYE, Goodbye("enough"))
        assert scene.handler.events == ["opened"]
        scene.channel.lost("again")
        scene.channel.close("again")
        scene.receive(Kind.MESSAGE, Ping())
        await asyncio.sleep(20)
        assert scene.handler.events == ["opened", "enough"]
        assert [type(error) for error in answers] == [ConnectionLost]
        assert scene.link.released == 1

    play(scenario)


def test_frames_behind_a_goodbye_are_not_delivered() -> None:
    async def scenario(scene: Scene) -> None:
        scene.channel.receive(
            batch([encode_message(Ping()), encode_frame(Kind.BYE, Goodbye("enough")), encode_message(Done())])
        )
        await asyncio.sleep(0)
        assert scene.handler.events == ["opened", (Ping(), None), "enough"]

    play(scenario)


def test_an_abandoned_channel_does_not_call_its_handler() -> None:
    async def scenario(scene: Scene) -> None:
        scene.channel.request(Ping(), lambda _reply, _error: pytest.fail("told"), 1.0)
        scene.channel.abandon()
        await asyncio.sleep(5)
        assert scene.handler.events == ["opened"]
        assert scene.link.released == 1

    play(scenario)


# --- requests --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0.001, 3), st.booleans()), max_size=30))
def test_each_request_ends_once_with_a_reply_or_a_time_out(requests: list[tuple[float, float, bool]]) -> None:
    async def scenario(scene: Scene) -> None:
        clock = asyncio.get_running_loop()
        outcomes: list[list[tuple[float, type[Exception] | None]]] = [[] for _ in requests]

        async def ask(index: int, delay: float, patience: float, answer: bool) -> None:
            await asyncio.sleep(delay)
            asked = clock.time()

            def answered(_reply: Message | None, error: Exception | None) -> None:
                outcomes[index].append((clock.time() - asked, type(error) if error else None))

            scene.channel.request(Ping(), answered, patience)
            scene.channel.flush()
            request_id = scene.link.frames[-1][1]
            await asyncio.sleep(patience / 2)
            if answer:
                scene.receive(Kind.REPLY, Done(), request_id)

        await asyncio.gather(*(ask(i, *request) for i, request in enumerate(requests)))
        await asyncio.sleep(10)
        for (_, patience, answer), outcome in zip(requests, outcomes, strict=True):
            ((seconds, error),) = outcome
            assert error is (None if answer else RequestTimeout)
            assert seconds <= patience + TIMEOUT_GRAIN_SECONDS + 1e-9
            assert answer or seconds >= patience - 1e-9

    play(scenario)


def test_a_batch_with_wrong_lengths_is_dropped_whole_and_counted_once() -> None:
    async def scenario(scene: Scene) -> None:
        scene.channel.receive(batch([encode_message(Ping()), encode_message(Ping())])[:-1])
        assert scene.handler.events == ["opened"]
        assert scene.counters.malformed_frames == 1

    play(scenario)


def test_a_greeting_that_is_longer_than_any_is_neither_taken_nor_written_down(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(BAD_FRAMES_ALLOWED + 1):
            assert not scene.channel.closed
            scene.receive(Kind.HELLO, structs.replace(THEIRS, node="x" * LONGEST_GREETING_BYTES))
        assert scene.channel.closed
        assert scene.counters.malformed_frames == BAD_FRAMES_ALLOWED + 1
        assert len(caplog.text) < LONGEST_GREETING_BYTES

    play(scenario, opened=False)


def test_a_hello_that_is_refused_is_not_repeated_whole(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(scene: Scene) -> None:
        scene.receive(Kind.HELLO, structs.replace(THEIRS, node="x" * 8_000, cluster="y" * 6_000))
        assert scene.counters.refused_hellos == 1
        assert 2 * LONGEST_NAME < len(caplog.text) < 4 * LONGEST_NAME

    play(scenario, opened=False)


def test_who_is_no_server_and_sends_a_larger_message_than_a_server_takes_learns_of_it_at_once() -> None:
    async def main(_rng: object) -> None:
        ours = structs.replace(OURS, role=Role.CLIENT)
        channel = Channel(
            ScriptedLink(), ours, RecordingHandler(), VirtualClock(), TransportCounters(), ChannelLimits()
        )
        channel.receive(encode_frame(Kind.HELLO, THEIRS))
        with pytest.raises(FrameTooLarge, match=f"max_frame_bytes = {FROM_A_CLIENT_BYTES}"):
            channel.send(Opaque("large", b"x" * FROM_A_CLIENT_BYTES))

    run(main)


def test_a_process_that_is_no_server_sends_smaller_packets_than_one_that_is() -> None:
    async def scenario(scene: Scene, role: Role, taken: bool) -> None:
        scene.receive(Kind.HELLO, structs.replace(THEIRS, role=role))
        scene.channel.receive(encode_message(Opaque("large", b"x" * FROM_A_CLIENT_BYTES)))
        assert ("large" in str(scene.handler.events)) is taken
        assert scene.channel.closed is False
        scene.channel.receive(encode_message(Opaque("small", b"x")))
        assert "small" in str(scene.handler.events)

    for role, taken in ((Role.SESSION, True), (Role.CLIENT, False), (Role.TOOL, False), (Role.GATEWAY, False)):
        play(partial(scenario, role=role, taken=taken), opened=False)
