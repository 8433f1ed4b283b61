"""Packing frames into packets and unpacking them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import MalformedFrame
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.packets import FRAME_OVERHEAD, PACKET_BYTES, ChannelLimits, FrameQueue, frames_of

sizes = st.one_of(st.integers(1, 50), st.integers(1, 2 * PACKET_BYTES))


@given(st.lists(st.tuples(sizes, st.booleans()), max_size=40), st.integers(0, 3), st.integers(0, 40))
def test_the_packets_of_an_outbox_hold_its_frames_in_order_the_urgent_ones_first(
    added: list[tuple[int, bool]], put_back_every: int, late: int
) -> None:
    """The dumb twin is two lists. The frames from number ``late`` on are added after the first packet was taken."""
    outbox = FrameQueue(ChannelLimits())
    frames = [(encode_message(Ping())[:1] + bytes([i]) * (size - 1), urgent) for i, (size, urgent) in enumerate(added)]
    for frame, urgent in frames[:late]:
        outbox.add(frame, urgent)
    assert outbox.waiting_bytes == sum(len(frame) + FRAME_OVERHEAD for frame, _ in frames[:late])
    found: list[bytes] = []
    waiting = [frame for frame, urgent in frames[:late] if urgent], [f for f, urgent in frames[:late] if not urgent]
    turn = 0
    while True:
        packet = outbox.take_packet()
        turn += 1
        if packet and put_back_every and turn % (put_back_every + 1) == 0:
            outbox.put_back(packet)
            continue
        if packet:
            assert len(packet) <= PACKET_BYTES or len(frames_of(packet)) == 1
            for frame in frames_of(packet):
                assert frame == (waiting[0] or waiting[1]).pop(0)
                found.append(frame)
        elif late >= len(frames):
            break
        for frame, urgent in frames[late:]:
            outbox.add(frame, urgent)
            waiting[0 if urgent else 1].append(frame)
        late = len(frames)
    assert sorted(found) == sorted(frame for frame, _ in frames)
    assert (len(outbox), outbox.waiting_bytes) == (0, 0)


def test_a_batch_larger_than_any_that_is_sent_is_malformed() -> None:
    """It could hold millions of frames, and others would wait for their end."""
    frame = encode_message(Ping())
    outbox = FrameQueue(ChannelLimits())
    for _ in range(PACKET_BYTES):
        outbox.add(frame)
    packet = outbox.take_packet()
    assert len(frames_of(packet)) > 1_000
    with pytest.raises(MalformedFrame, match=f"expected at most {PACKET_BYTES}"):
        frames_of(packet + packet[1:])


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
def test_an_outbox_is_full_at_its_limit_of_bytes_but_takes_one_frame_of_any_size(
    frame_sizes: list[int], allowance: int
) -> None:
    outbox = FrameQueue(ChannelLimits(queue_bytes=250))
    waiting: list[int] = []
    for size in frame_sizes:
        too_large = sum(waiting) + size + FRAME_OVERHEAD > 250 * allowance
        assert outbox.is_full(size, allowance) == (bool(waiting) and too_large)
        if not outbox.is_full(size, allowance):
            assert outbox.add(b"x" * size) == (not waiting)
            waiting.append(size + FRAME_OVERHEAD)
    outbox.clear()
    assert (len(outbox), outbox.waiting_bytes, outbox.take_packet()) == (0, 0, b"")


def test_the_message_for_a_frame_that_is_too_large_names_both_sizes() -> None:
    assert ChannelLimits(max_frame_bytes=10).too_large(11) == "a frame of 11 bytes exceeds max_frame_bytes = 10"
