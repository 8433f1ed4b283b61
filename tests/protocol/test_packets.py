"""Packing frames into packets and unpacking them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import MalformedFrame
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.packets import PACKET_BYTES, ChannelLimits, FrameQueue, frames_of

sizes = st.one_of(st.integers(1, 50), st.integers(1, 2 * PACKET_BYTES))


@given(st.lists(sizes, max_size=40), st.integers(0, 3))
def test_the_packets_of_an_outbox_hold_its_frames_in_order(frame_sizes: list[int], put_back_every: int) -> None:
    outbox = FrameQueue(ChannelLimits())
    frames = [encode_message(Ping())[:1] + bytes([i]) * (size - 1) for i, size in enumerate(frame_sizes)]
    for frame in frames:
        outbox.add(frame)
    assert outbox.waiting_bytes == sum(frame_sizes)
    found: list[bytes] = []
    turn = 0
    while packet := outbox.take_packet():
        turn += 1
        if put_back_every and turn % (put_back_every + 1) == 0:
            outbox.put_back(packet)
            continue
        assert len(packet) <= PACKET_BYTES or len(frames_of(packet)) == 1
        found += frames_of(packet)
    assert found == frames
    assert (len(outbox), outbox.waiting_bytes) == (0, 0)


@given(st.binary(max_size=60))
def test_any_bytes_are_either_a_batch_or_malformed(body: bytes) -> None:
    outbox = FrameQueue(ChannelLimits())
    outbox.add(encode_message(Ping()))
    outbox.add(encode_message(Done()))
    packet = outbox.take_packet()[:1] + body  # the first byte says that it holds several frames
    try:
        frames = frames_of(packet)
    except MalformedFrame:
        return
    assert sum(len(frame) + 4 for frame in frames) == len(body)


@given(st.lists(st.integers(1, 30), max_size=12), st.integers(1, 3))
def test_an_outbox_is_full_at_its_limit_of_frames_or_bytes_but_takes_one_frame_of_any_size(
    frame_sizes: list[int], allowance: int
) -> None:
    outbox = FrameQueue(ChannelLimits(queue_frames=3, queue_bytes=50))
    waiting: list[int] = []
    for size in frame_sizes:
        too_many = len(waiting) >= 3 * allowance
        too_large = sum(waiting) + size > 50 * allowance
        assert outbox.is_full(size, allowance) == (bool(waiting) and (too_many or too_large))
        if not outbox.is_full(size, allowance):
            assert outbox.add(b"x" * size) == (not waiting)
            waiting.append(size)
    outbox.clear()
    assert (len(outbox), outbox.waiting_bytes, outbox.take_packet()) == (0, 0, b"")


def test_the_message_for_a_frame_that_is_too_large_names_both_sizes() -> None:
    assert ChannelLimits(max_frame_bytes=10).too_large(11) == "a frame of 11 bytes exceeds max_frame_bytes = 10"
