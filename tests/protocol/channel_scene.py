"""A channel on a scripted link, for tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message, TransportCounters
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.codec import Kind, decode_frame, encode_frame
from slotreeve_protocol.packets import ChannelLimits, frames_of

OURS = Hello("test", "ours", Role.DATA, "our-process")
THEIRS = Hello("test", "theirs", Role.DATA, "their-process")


@dataclass
class ScriptedLink:
    """A link with room for ``room`` packets. ``frames`` are those it sent, as (kind, request id, message)."""

    address: str = "peer:1"
    proven: Principal | None = None
    room: int = 1_000
    woken: int = 0
    released: int = 0
    frames: list[tuple[Kind, int, Message]] = field(default_factory=list)

    def write(self, packet: bytes) -> bool:
        if not self.room:
            return False
        self.room -= 1
        self.frames += [decode_frame(frame) for frame in frames_of(packet)]
        return True

    def wake(self) -> None:
        self.woken += 1

    def release(self) -> None:
        self.released += 1


@dataclass
class RecordingHandler:
    """A handler that keeps the calls it got."""

    events: list[object] = field(default_factory=list)

    def opened(self, connection: Connection) -> None:
        self.events.append("opened")

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        self.events.append((message, request_id))

    def closed(self, connection: Connection, reason: str) -> None:
        self.events.append(reason)


@dataclass
class Scene:
    """A channel between a scripted link and a recording handler."""

    channel: Channel
    link: ScriptedLink
    handler: RecordingHandler
    counters: TransportCounters

    def receive(self, kind: Kind, message: Message, request_id: int = 0) -> None:
        self.channel.receive(encode_frame(kind, message, request_id))


def play(
    scenario: Callable[[Scene], Awaitable[None]], limits: ChannelLimits | None = None, *, opened: bool = True
) -> None:
    """Run a scenario with an accepting channel, opened by default."""

    async def main(_rng: object) -> None:
        link, handler, counters = ScriptedLink(), RecordingHandler(), TransportCounters()
        scene = Scene(
            Channel(link, OURS, handler, VirtualClock(), counters, limits or ChannelLimits()), link, handler, counters
        )
        if opened:
            scene.receive(Kind.HELLO, THEIRS)
            scene.channel.flush()
            link.frames.clear()
        await scenario(scene)

    run(main)
