"""Packets, which transports carry: one or more frames each.

A packet is one frame (:mod:`slotreeve_protocol.codec`), or a batch: one head byte (kind 15), then frames, each after
its length in four bytes (little-endian). Frames sent within one turn of the event loop travel in one packet. That is
the largest single gain in throughput, because a packet costs far more time than a frame.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import MalformedFrame
from slotreeve.keys import Principal

from slotreeve_protocol.codec import WIRE_VERSION

PACKET_BYTES = 64 * 1024
"""Largest batch. A larger frame travels alone."""

FRAME_OVERHEAD = 64
"""Memory that a waiting frame takes beside its bytes, roughly. Without it, many tiny frames could wait."""
SPARE_ROOM = 2
"""How far urgent frames and replies may exceed the bound of the queue."""

_BATCH = WIRE_VERSION << 4 | 15
_BATCH_HEAD = bytes([_BATCH])
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class ChannelLimits:
    """Bounds of one connection.

    Attributes:
        max_frame_bytes: largest frame, and packet, that is sent or accepted.
        queue_bytes: sending raises Backpressure while so many bytes wait to be written, where each frame counts
            :data:`FRAME_OVERHEAD` bytes more than it has; an empty queue takes one frame of any size. Urgent frames and
            replies have :data:`SPARE_ROOM` times as much room.
    """

    max_frame_bytes: int = 32 * 1024 * 1024
    queue_bytes: int = 64 * 1024 * 1024

    def too_large(self, size: int) -> str:
        """The message for a frame or packet of ``size`` bytes that exceeds ``max_frame_bytes``."""
        return f"a frame of {size} bytes exceeds max_frame_bytes = {self.max_frame_bytes}"


def frames_of(packet: bytes) -> list[bytes]:
    """The frames in a packet, in order.

    Raises:
        MalformedFrame: the lengths in a batch do not add up, or it is larger than any that is sent, and would take
            others their time; none of its frames may be used.
    """
    if not packet or packet[0] != _BATCH:
        return [packet]
    if len(packet) > PACKET_BYTES:
        raise MalformedFrame(f"a batch of {len(packet)} bytes; expected at most {PACKET_BYTES}")
    frames: list[bytes] = []
    position, end = 1, len(packet)
    while position < end:
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(packet[position:start], "little")
        if position > end:
            raise MalformedFrame(f"a batch of {end} bytes is cut short in its frame {len(frames) + 1}")
        frames.append(packet[start:position])
    return frames


class Link(Protocol):
    """Carries the packets of one channel. A transport implements it."""

    @property
    def address(self) -> str:
        """The address of the peer, for messages to people."""

    @property
    def proven(self) -> Principal | None:
        """Who the peer has proven to be by its key, before the first packet arrives; None where no keys are used."""

    def write(self, packet: bytes) -> bool:
        """Send one packet. False if there is no room now: nothing was sent, and the transport flushes the channel when
        there is room. May call the channel's ``lost`` (and then returns True)."""

    def wake(self) -> None:
        """Frames are queued: the transport must flush the channel before the event loop waits again."""

    def release(self) -> None:
        """The channel does not need the link any more. Send what was written, then close. Called exactly once."""


async def settle(clock: Clock) -> None:
    """Wait until ``closed`` was called on the handlers of channels that have just ended."""
    for _ in range(2):
        await clock.sleep(0)


class FrameQueue:
    """The queue of frames of one connection, which it packs into packets.

    It has two lanes. Urgent frames overtake the others; frames of one lane keep their order.
    """

    __slots__ = ("_limits", "_ordinary", "_packet_bytes", "_unsent", "_urgent", "waiting_bytes")

    def __init__(self, limits: ChannelLimits) -> None:
        self._limits = limits
        self._packet_bytes = min(PACKET_BYTES, limits.max_frame_bytes)
        self._urgent: deque[bytes] = deque()
        self._ordinary: deque[bytes] = deque()
        self._unsent = b""
        self.waiting_bytes = 0

    def __len__(self) -> int:
        """Number of waiting frames, without those in a packet that was put back."""
        return len(self._urgent) + len(self._ordinary)

    @property
    def has_room(self) -> bool:
        """Whether less than half of the bytes wait that may wait."""
        return 2 * self.waiting_bytes < self._limits.queue_bytes

    def is_full(self, size: int, allowance: int = 1) -> bool:
        """True if one more frame of ``size`` bytes would exceed ``allowance`` times the limit."""
        waiting = self.waiting_bytes
        return waiting > 0 and waiting + size + FRAME_OVERHEAD > allowance * self._limits.queue_bytes

    def add(self, frame: bytes, urgent: bool = False) -> bool:
        """Queue a frame. True if nothing was waiting before."""
        was_empty = not (self._ordinary or self._urgent or self._unsent)
        (self._urgent if urgent else self._ordinary).append(frame)
        self.waiting_bytes += len(frame) + FRAME_OVERHEAD
        return was_empty

    def put_back(self, packet: bytes) -> None:
        """Keep a packet that could not be written. :meth:`take_packet` returns it next."""
        self._unsent = packet

    def take_packet(self) -> bytes:
        """The next packet: as many waiting frames as fit, the urgent ones first; empty if none waits."""
        if self._unsent:
            packet, self._unsent = self._unsent, b""
            return packet
        frames = self._urgent or self._ordinary
        if not frames:
            return b""
        frame = frames.popleft()
        size = len(frame)
        taken = size + FRAME_OVERHEAD
        if taken == self.waiting_bytes:
            self.waiting_bytes = 0
            return frame
        room = self._packet_bytes - 1 - _LENGTH_BYTES - size
        parts = [_BATCH_HEAD, size.to_bytes(_LENGTH_BYTES, "little"), frame]
        for lane in (self._urgent, self._ordinary):
            while lane and (size := len(lane[0])) + _LENGTH_BYTES <= room:
                room -= size + _LENGTH_BYTES
                taken += size + FRAME_OVERHEAD
                parts.append(size.to_bytes(_LENGTH_BYTES, "little"))
                parts.append(lane.popleft())
            if lane:
                break  # an ordinary frame must not overtake an urgent one
        self.waiting_bytes -= taken
        return frame if len(parts) == 3 else b"".join(parts)

    def clear(self) -> None:
        """Drop everything that waits."""
        self._urgent.clear()
        self._ordinary.clear()
        self._unsent = b""
        self.waiting_bytes = 0
