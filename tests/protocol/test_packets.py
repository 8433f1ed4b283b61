"""Frames in packets, and out of them again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import MalformedFrame
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.general_messages import Done, Ping
from slotreeve_protocol.packets import PACKET_BYTES, ChannelLimits, Outbox, frames_of

sizes = st.one_of(st.integers(1, 50), st.integers(1, 2 * PACKET_BYTES))


@given(st.lists(sizes, max_size=40), st.integers(0, 3))
def test_what_goes_into_an_outbox_comes_out_of_its_packets(frame_sizes: list[int], put_back_every: int) -> None:
    outbox = Outbox(ChannelLimits())
    frames = [encode_message(Ping())[:1] + bytes([i]) * (size - 1) for i, size in enumerate(frame_sizes)]
    for frame in frames:
        outbox.add(frame)
    assert outbox.waiting_bytes == sum(frame_sizes)
    came: list[bytes] = []
    turn = 0
    while packet := outbox.take_packet():
        turn += 1
        if put_back_every and turn % (put_back_every + 1) == 0:
            outbox.put_back(packet)
            continue
        assert len(packet) <= PACKET_BYTES or len(frames_of(packet)) == 1
        came += frames_of(packet)
    assert came == frames
    assert (len(outbox), outbox.waiting_bytes) == (0, 0)


@given(st.binary(max_size=60))
def test_a_packet_of_any_bytes_is_cut_or_malformed(body: bytes) -> None:
    outbox = Outbox(ChannelLimits())
    outbox.add(encode_message(Ping()))
    outbox.add(encode_message(Done()))
    packet = outbox.take_packet()[:1] + body  # the first byte says that it holds several frames
    try:
        frames = frames_of(packet)
    except MalformedFrame:
        return
    assert sum(len(frame) + 4 for frame in frames) == len(body)
