"""An outbox that writes down what a core does, with a clock that the test turns."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from slotreeve.clock import Timer
from slotreeve.errors import SlotreeveError
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Message
from slotreeve_machines.beside import Work, Worked
from slotreeve_protocol.codec import decode_frame
from slotreeve_protocol.meta_messages import PutConfig, View
from slotreeve_servers.node.deltas import PART_BYTES
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.node.outbox import Answered, Peer, Request
from slotreeve_servers.node.paced_work import PacedWork


@dataclass(eq=False)
class ScheduledCall:
    """A timer of the core."""

    action: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass(eq=False)
class OpenRequest:
    """A request of the core that has no answer yet."""

    peer: Peer
    message: Message
    answered: Answered
    timeout_seconds: float


@dataclass(frozen=True)
class Effect:
    """One thing that the core did: ``sent``, ``asked``, ``replied``, ``closed``, ``links``, ``commit``, ..."""

    kind: str
    peer: Peer | None
    what: object


@dataclass
class RecordingOutbox:
    """Implements Outbox and MetaOutbox. Peers in ``unreachable`` take nothing that is sent to them.

    ``silence`` holds for how many seconds nothing has arrived from a peer; ``unattended`` is for how many seconds the
    process was frozen, and ``stood_until`` when it stood still last. ``has_unread``: something has arrived that was not
    read. The queues of ``crowded`` have no room.
    Of work in parts a turn does ``turn_steps`` steps, as far as the clock does not end it before.
    """

    time: float = 100.0
    part_bytes: int = PART_BYTES
    effects: list[Effect] = field(default_factory=list)
    requests: list[OpenRequest] = field(default_factory=list)
    unreachable: set[Peer] = field(default_factory=set)
    crowded: set[Peer] = field(default_factory=set)
    unattended: float = 30.0
    stood_until: float = -math.inf
    silence: dict[Peer, float] = field(default_factory=dict)
    has_unread: bool = False
    turn_steps: int = 1_000_000
    steps: int = 0
    denials: list[tuple[Peer, str]] = field(default_factory=list)
    repeated: dict[str, Callable[[], float | None]] = field(default_factory=dict)
    _timers: list[tuple[float, int, ScheduledCall]] = field(default_factory=list)
    _turn: list[Callable[[], None]] = field(default_factory=list)
    _until_read: list[Callable[[], None]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    # --- what the core calls -----------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self.pace = PacedWork(self).run

    def now(self) -> float:
        return self.time

    def reached(self, at: float) -> bool:
        self.steps += 1
        return self.time >= at or self.steps % self.turn_steps == 0

    def attended(self) -> float:
        return self.time - self.unattended

    def steady_seconds(self) -> float:
        return self.time - self.stood_until

    def denied(self, peer: Peer, reason: str) -> None:
        self.denials.append((peer, reason))

    def silent_for(self, peer: Peer) -> float:
        return self.silence.get(peer, 0.0)

    def wall_ms(self) -> int:
        return 1_000_000 + round(1000 * self.time)

    def has_room(self, peer: Peer) -> bool:
        return peer not in self.crowded

    def send(self, peer: Peer, message: Message) -> bool:
        if peer in self.unreachable:
            return False
        self.effects.append(Effect("sent", peer, message))
        return True

    def send_encoded(self, peer: Peer, frame: bytes, what: str) -> bool:
        message = decode_frame(frame)[2]
        assert type(message).__name__ == what
        return self.send(peer, message)

    def ask(self, peer: Peer, message: Message, answered: Answered, timeout_seconds: float) -> bool:
        if peer in self.unreachable:
            return False
        self.effects.append(Effect("asked", peer, message))
        self.requests.append(OpenRequest(peer, message, answered, timeout_seconds))
        return True

    def reply(self, request: Request, message: Message) -> None:
        self.effects.append(Effect("replied", request.peer, message))

    def close(self, peer: Peer, reason: str) -> None:
        self.effects.append(Effect("closed", peer, reason))

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        call = ScheduledCall(action)
        heapq.heappush(self._timers, (self.time + seconds, next(self._numbers), call))
        return call

    def at_turns_end(self, action: Callable[[], None]) -> None:
        self._turn.append(action)

    def when_read(self, action: Callable[[], None]) -> None:
        (self._until_read if self.has_unread else self._turn).append(action)

    def repeat(self, name: str, seconds: float, action: Callable[[], float | None]) -> None:
        self.repeated[name] = action

        def again() -> None:
            pause = action()
            self.after(seconds if pause is None else pause, again)

        self.after(seconds, again)

    def keep_links(self, nodes: Iterable[Node]) -> None:
        self.effects.append(Effect("links", None, {node.name: node.address for node in nodes}))

    def commit(self, view: View, after: int) -> None:
        self.effects.append(Effect("commit", None, view))

    def compute(self, work: Work, worked: Worked) -> None:
        try:
            result = work()
        except SlotreeveError as error:
            worked(None, error)
        else:
            worked(result, None)

    def put_config(self, message: PutConfig, term: int, request: Request) -> None:
        self.effects.append(Effect("put_config", request.peer, message))

    def resign(self, request: Request | None, to: str = "") -> None:
        self.effects.append(Effect("resign", request.peer if request is not None else None, None))

    def notify(self, hook: str, **arguments: object) -> None:
        self.effects.append(Effect("notify", None, hook))

    # --- what the test calls -----------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Run what the core wanted to run at the end of this turn, and what that asks for in turn."""
        if not self.has_unread:
            self._turn += self._until_read
            self._until_read.clear()
        while self._turn:
            self.end_one_turn()

    def end_one_turn(self) -> None:
        """Run what the core wanted to run at the end of this turn. What that asks for waits for the next turn."""
        turn, self._turn = self._turn, []
        for action in turn:
            action()

    def advance(self, seconds: float) -> None:
        """Let time pass: run every timer that is due, in order."""
        self.end_turn()
        end = self.time + seconds
        while self._timers and self._timers[0][0] <= end:
            at, _, call = heapq.heappop(self._timers)
            self.time = max(self.time, at)
            if not call.cancelled:
                call.action()
                self.end_turn()
        self.time = end

    def answer(self, message: Message | None, error: Exception | None = None, kind: type | None = None) -> Message:
        """Answer the oldest open request (of this type); returns the request."""
        request = next(r for r in self.requests if kind is None or isinstance(r.message, kind))
        self.requests.remove(request)
        request.answered(message, error)
        self.end_turn()
        return request.message

    def take(self, *kinds: str) -> list[Effect]:
        """Remove and return the effects so far (of these kinds; the others are dropped)."""
        effects, self.effects = self.effects, []
        return [effect for effect in effects if not kinds or effect.kind in kinds]

    def messages(self, kind: type[Message], peer: Peer | None = None) -> list[Message]:
        """The messages of one type that were sent, asked or replied (to this peer), without removing them."""
        return [
            effect.what
            for effect in self.effects
            if isinstance(effect.what, kind) and (peer is None or effect.peer is peer)
        ]


def deliver(outbox: RecordingOutbox, handlers: Handlers, peer: Peer, message: Message) -> Message | None:
    """A message from ``peer`` arrives at a core's handlers; returns the reply that it gives at once, if any."""
    kind = type(message)
    reply: Message | None = None
    if kind in handlers.requests:
        reply = handlers.requests[kind](peer, message)
    elif kind in handlers.later:
        handlers.later[kind](peer, message, Request(peer, 1))
    else:
        handlers.messages[kind](peer, message)
    outbox.end_turn()
    return reply


def a_peer(node: str, role: Role, life: int = 1) -> Peer:
    """A peer of this name and role; ``life`` tells processes of one name apart."""
    return Peer(node, role, f"{node}@{life}", f"10.0.0.{len(node)}:7000")
