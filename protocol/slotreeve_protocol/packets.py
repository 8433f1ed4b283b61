"""Packets: what a transport carries, one or more frames at a time.

A packet is one frame (:mod:`slotreeve_protocol.codec`), or a batch: one head byte (kind 15), then frames, each after
its length in four bytes (little-endian). Frames sent within one turn of the event loop travel in one packet: that is
worth more for throughput than anything else, because a packet costs a transport far more than a frame costs us.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from slotreeve.clock import Clock
from slotreeve.errors import MalformedFrame

from slotreeve_protocol.codec import WIRE_VERSION

PACKET_BYTES = 64 * 1024
"""Frames are batched up to this size; a larger frame travels alone."""

_BATCH = WIRE_VERSION << 4 | 15
_BATCH_HEAD = bytes([_BATCH])
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class ChannelLimits:
    """Bounds of one connection.

    Attributes:
        max_frame_bytes: largest frame, and packet, sent or taken.
        queue_frames: frames waiting to be written, from which on sending raises Backpressure.
        queue_bytes: the same in bytes (one frame is always taken, however large).
    """

    max_frame_bytes: int = 32 * 1024 * 1024
    queue_frames: int = 10_000
    queue_bytes: int = 64 * 1024 * 1024


def frames_of(packet: bytes) -> list[bytes]:
    """The frames in a packet, in order.

    Raises:
        MalformedFrame: a batch whose lengths do not add up; none of its frames is to be used.
    """
    if not packet or packet[0] != _BATCH:
        return [packet]
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
    """What a transport supplies for one channel."""

    @property
    def address(self) -> str:
        """Where the other side is, for messages to people."""

    def write(self, packet: bytes) -> bool:
        """Hand over one packet. False: no room now, nothing was taken; flush the channel when there is.

        May tell the channel that the link is lost (and then returns True)."""

    def wake(self) -> None:
        """Frames are queued: flush the channel before the event loop waits again."""

    def release(self) -> None:
        """The channel needs the link no more: carry what was written, then drop it. Called exactly once."""


async def settle(clock: Clock) -> None:
    """Wait until the handlers of channels that have just ended have been told."""
    for _ in range(2):
        await clock.sleep(0)


class Outbox:
    """Frames of one connection that wait to be written, and their packing."""

    __slots__ = ("_frames", "_limits", "_packet_bytes", "_unsent", "waiting_bytes")

    def __init__(self, limits: ChannelLimits) -> None:
        self._limits = limits
        self._packet_bytes = min(PACKET_BYTES, limits.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._unsent = b""
        self.waiting_bytes = 0

    def __len__(self) -> int:
        """Number of frames waiting, without those in a packet put back."""
        return len(self._frames)

    def is_full(self, size: int, allowance: int = 1) -> bool:
        """True if a frame of ``size`` bytes more would break the limits, taken ``allowance`` times."""
        frames = self._frames
        return bool(frames) and (
            len(frames) >= allowance * self._limits.queue_frames
            or self.waiting_bytes + size > allowance * self._limits.queue_bytes
        )

    def add(self, frame: bytes) -> bool:
        """Queue a frame; True if nothing was waiting before."""
        was_empty = not self._frames and not self._unsent
        self._frames.append(frame)
        self.waiting_bytes += len(frame)
        return was_empty

    def put_back(self, packet: bytes) -> None:
        """Keep a packet that could not be written; it is the next to be taken."""
        self._unsent = packet

    def take_packet(self) -> bytes:
        """As many waiting frames as fit one packet; empty when nothing waits."""
        if self._unsent:
            packet, self._unsent = self._unsent, b""
            return packet
        frames = self._frames
        if not frames:
            return b""
        frame = frames.popleft()
        if not frames:
            self.waiting_bytes = 0
            return frame
        room = self._packet_bytes - 1 - _LENGTH_BYTES - len(frame)
        parts = [_BATCH_HEAD, len(frame).to_bytes(_LENGTH_BYTES, "little"), frame]
        taken = len(frame)
        while frames and (size := len(frames[0])) + _LENGTH_BYTES <= room:
            room -= size + _LENGTH_BYTES
            taken += size
            parts.append(size.to_bytes(_LENGTH_BYTES, "little"))
            parts.append(frames.popleft())
        self.waiting_bytes -= taken
        return frame if len(parts) == 3 else b"".join(parts)

    def clear(self) -> None:
        """Forget everything that waits."""
        self._frames.clear()
        self._unsent = b""
        self.waiting_bytes = 0
