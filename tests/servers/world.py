"""Cores of data and session servers wired together for transcripts: every message is shown when it is delivered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from slotreeve.errors import ConnectionLost
from slotreeve.model.datum import COUNTER_BITS
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import (
    Publish,
    PushesReceived,
    PushReceipt,
    ReplayEnded,
    Scope,
    Subscribe,
    Want,
    Withdraw,
)
from slotreeve_protocol.codec import decode_frame
from slotreeve_protocol.meta_messages import LeaseGranted, View
from slotreeve_protocol.slot_messages import Confirm
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.dispatch import Handlers, PeerOwner
from slotreeve_servers.node.membership import Holdings, Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Answered, Peer, Request
from slotreeve_servers.session.core import SessionCore
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox
from tests.servers.short_lines import describe, records_text

STEP_SECONDS = 0.01


class OneSlot:
    """A slot function for tests: every service is in slot 0."""

    def slot_of(self, key: str) -> int:
        return 0


@dataclass(eq=False)
class End:
    """One end of a connection: the peer that its owner sees, and what its owner does with messages."""

    owner: str
    peer: Peer
    handlers: Handlers
    peer_owner: PeerOwner | None
    other: End | None = None


@dataclass(eq=False)
class Packet:
    """A message on its way. ``answered`` is set for requests, ``answers`` for replies. An upkeep message that is sent
    all the time, and its reply, are not shown."""

    end: End
    message: Message
    answered: Answered | None = None
    answers: Answered | None = None
    is_shown: bool = True


class NodeOutbox(RecordingOutbox):
    """The outbox of one core of the world."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self._world, self._name = world, name

    def send(self, peer: Peer, message: Message) -> bool:
        return self._world.post(peer, message)

    def send_encoded(self, peer: Peer, frame: bytes, what: str) -> bool:
        return self.send(peer, decode_frame(frame)[2])

    def ask(self, peer: Peer, message: Message, answered: Answered, timeout_seconds: float) -> bool:
        return self._world.post(peer, message, answered)

    def reply(self, request: Request, message: Message) -> None:
        self._world.answer(request.number, message)

    def close(self, peer: Peer, reason: str) -> None:
        self._world.lines.append(f"{self._name} closes {peer.node}: {reason}")
        self._world.disconnect(peer)

    def keep_links(self, nodes: Iterable[Node]) -> None:
        self._world.links[self._name] = [node.name for node in nodes]


class World:
    """Plays commands; see the transcripts for what there is.

    Messages between two processes are delivered in order, one at a time, when a command ends; those from or to a held
    process wait.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.links: dict[str, list[str]] = {}
        self._cores: dict[str, DataCore | SessionCore] = {}
        self._outboxes: dict[str, NodeOutbox] = {}
        self._ends: dict[Peer, End] = {}
        self._queue: list[Packet] = []
        self._waiting: dict[int, Packet] = {}
        self._held: set[str] = set()
        self._versions: dict[str, int] = {}
        self._incarnations: dict[str, int] = {}
        self._meta = Peer("meta-1", Role.META, "meta-1@1")
        self._revision = 0

    def play(self, command: str) -> str:
        """Carry out one command, and return what happened."""
        verb, *words = command.split()
        self.lines = []
        commands: Mapping[str, Callable[..., None]] = {
            "data": self._data,
            "session": self._session,
            "view": self._view,
            "connect": self._connect_client,
            "publish": self._publish,
            "subscribe": self._subscribe,
            "receipt": self._receipt,
            "withdraw": self._withdraw,
            "replayed": self._replayed,
            "hold": self._hold,
            "release": self._release,
            "kill": self._kill,
            "disconnect": lambda client: self.disconnect(self._newest(client).peer),
            "pass": self._pass,
            "slot": self._show_slot,
        }
        commands[verb](*words)
        self._deliver()
        return "\n".join(self.lines) or "nothing"

    # --- processes ---------------------------------------------------------------------------------------------------

    def _data(self, name: str) -> None:
        outbox = self._outboxes[name] = NodeOutbox(self, name)
        core = self._cores[name] = DataCore(outbox, node_of(name), DataSettings(), math.inf)
        core.start()

    def _session(self, name: str) -> None:
        outbox = self._outboxes[name] = NodeOutbox(self, name)
        core = self._cores[name] = SessionCore(outbox, node_of(name), SessionSettings(), 1.0, OneSlot())
        core.membership.granted_at = math.inf  # the meta leader answers each heartbeat
        core.start()

    def _kill(self, name: str) -> None:
        del self._cores[name], self._outboxes[name]
        for end in [end for end in self._ends.values() if end.owner == name]:
            self.disconnect(end.peer)

    def _hold(self, name: str) -> None:
        self._held.add(name)

    def _release(self, name: str) -> None:
        self._held.discard(name)

    def _view(self, leader: str, epoch: str, followers: str, sessions: str) -> None:
        """A view in which one slot has this leader, and these session servers are members ('-' for none)."""
        self._revision += 1
        table = SlotTable(int(epoch), (Slot(0, leader, int(epoch), tuple(_names(followers))),))
        data = [node_of(name) for name in sorted({leader, *_names(followers)})]
        view = View(1, self._revision, table, data, [node_of(name) for name in _names(sessions)])
        for name, core in self._cores.items():
            core.membership.handlers.messages[View](self._meta, view)
            self._outboxes[name].end_turn()
        self._make_links()

    def _make_links(self) -> None:
        """Keep the links that each core asked for, and end the others."""
        for name, wanted in self.links.items():
            core = self._cores.get(name)
            if core is None:
                continue
            near = core.leaders
            linked = [end.peer for end in self._ends.values() if end.peer_owner is near]
            for peer in linked:
                if peer.node not in wanted:
                    self.disconnect(peer)
            for other in sorted(set(wanted) - {peer.node for peer in linked}):
                far = self._cores.get(other)
                if isinstance(far, DataCore):
                    self._connect(
                        End(name, _peer(other), near.handlers, near), End(other, _peer(name), far.handlers, far)
                    )

    def _connect(self, near: End, far: End) -> None:
        near.other, far.other = far, near
        for end in (far, near):
            self._ends[end.peer] = end
            if end.peer_owner is not None:
                end.peer_owner.opened(end.peer)
                self._outboxes[end.owner].end_turn()

    def disconnect(self, peer: Peer) -> None:
        """The connection that ``peer`` is the far end of breaks: both ends learn of it, and what was on its way is
        lost."""
        end = self._ends.get(peer)
        if end is None or end.other is None:
            return
        lost = [packet for packet in self._queue if packet.end in (end, end.other)]
        waiting = [packet for packet in self._waiting.values() if packet.end in (end, end.other)]
        self._queue = [packet for packet in self._queue if packet not in lost]
        for one in (end, end.other):
            self._ends.pop(one.peer, None)
        for packet in (*lost, *waiting):
            asker = packet.end.other
            if packet.answered is not None and asker is not None and asker.owner in self._cores:
                packet.answered(None, ConnectionLost("the connection broke"))
        for one in (end, end.other):
            if one.peer_owner is not None and one.owner in self._cores:
                one.peer_owner.closed(one.peer, "the connection broke")
                self._outboxes[one.owner].end_turn()

    # --- clients -----------------------------------------------------------------------------------------------------

    def _connect_client(self, client: str, session: str) -> None:
        core = self._cores[session]
        assert isinstance(core, SessionCore)
        self._incarnations[client] = self._incarnations.get(client, 0) + 1
        end = End(session, Peer(client, Role.CLIENT, client), core.handlers, core)
        self._connect(End(client, _peer(session), Handlers(), None), end)

    def _newest(self, client: str) -> End:
        return [end for end in self._ends.values() if end.owner == client][-1]

    def _publish(self, client: str, register_id: str, data: str) -> None:
        end = self._newest(client)
        content = None if data == "-" else (data.encode(),)
        fresh = self._versions.get(register_id + data) is None
        if fresh:
            self._versions[register_id] = self._versions[register_id + data] = self._versions.get(register_id, 0) + 1
        record = Publisher(
            f"{client}-{register_id}",
            "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP",
            self._versions[register_id],
            self._incarnations[client],
            end.peer.process_id,
            "",
            content,
        )
        self.post(end.peer, Publish(self._versions[register_id], [record]))

    def _subscribe(self, client: str) -> None:
        self.post(self._newest(client).peer, Subscribe([Want("s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", Scope(1))]))

    def _receipt(self, client: str, epoch: str, counter: str) -> None:
        version = (int(epoch) << COUNTER_BITS) + int(counter)
        receipt = PushReceipt("s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", Scope(1), version, version)
        self.post(self._newest(client).peer, PushesReceived([receipt]))

    def _withdraw(self, client: str) -> None:
        self.post(self._newest(client).peer, Withdraw())

    def _replayed(self, client: str) -> None:
        self.post(self._newest(client).peer, ReplayEnded())

    # --- messages and time -------------------------------------------------------------------------------------------

    def post(self, peer: Peer, message: Message, answered: Answered | None = None) -> bool:
        """Put a message on its way to ``peer``; False where the connection has ended."""
        end = self._ends.get(peer)
        if end is None or end.other is None:
            return False
        asks_for_life = isinstance(message, Confirm) and isinstance(self._cores.get(end.owner), SessionCore)
        self._queue.append(Packet(end.other, message, answered, is_shown=not asks_for_life))
        return True

    def answer(self, number: int, message: Message) -> None:
        """Put the reply to a request on its way."""
        asked = self._waiting.pop(number, None)
        if asked is not None and asked.end.other is not None:
            self._queue.append(Packet(asked.end.other, message, answers=asked.answered, is_shown=asked.is_shown))

    def _deliver(self) -> None:
        while (packet := next((p for p in self._queue if not self._is_held(p)), None)) is not None:
            self._queue.remove(packet)
            end = packet.end
            if packet.is_shown:
                self.lines.append(f"{end.peer.node} -> {end.owner}: {describe(packet.message)}")
            if end.owner not in self._cores:
                continue  # a client only reads
            self._take(packet)
            self._outboxes[end.owner].end_turn()

    def _is_held(self, packet: Packet) -> bool:
        return packet.end.owner in self._held or packet.end.peer.node in self._held

    def _take(self, packet: Packet) -> None:
        end, kind = packet.end, type(packet.message)
        if packet.answers is not None:
            packet.answers(packet.message, None)
        elif packet.answered is None:
            end.handlers.messages[kind](end.peer, packet.message)
        else:
            number = max(self._waiting, default=0) + 1
            self._waiting[number] = packet
            if kind in end.handlers.requests:
                self.answer(number, end.handlers.requests[kind](end.peer, packet.message))
            else:
                end.handlers.later[kind](end.peer, packet.message, Request(end.peer, number))

    def _pass(self, seconds: str) -> None:
        for _ in range(round(float(seconds) / STEP_SECONDS)):
            for name, outbox in list(self._outboxes.items()):
                if name not in self._held:
                    outbox.advance(STEP_SECONDS)
            self._deliver()

    def _show_slot(self, name: str) -> None:
        core = self._cores[name]
        assert isinstance(core, DataCore)
        slot = core.slots.get(0)
        if slot is None:
            self.lines.append(f"{name} does not hold the slot")
            return
        state = ("serves" if slot.serving else "migrates") if slot.leads else ("in sync" if slot.synced else "copies")
        self.lines.append(f"{name} {state} under epoch {slot.slot.leader_epoch}: {records_text(slot.store.records())}")


def _names(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")


def node_of(name: str) -> Node:
    role = Role.DATA if name.startswith("data") else Role.SESSION
    return Node(name, role, f"{name}:1", f"{name}@1")


def _peer(name: str) -> Peer:
    node = node_of(name)
    return Peer(name, node.role, node.process_id, node.address)


class NoMember:
    """Follows no view: the owner of a membership of which only the view is needed."""

    def view_changed(self, old: View, view: View) -> None:
        """Nothing to do."""

    def holdings(self) -> Holdings:
        return Holdings()

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        """Nothing to do."""


def newer_view_of(outbox: RecordingOutbox, node: Node) -> NewerView:
    """What a server knows of newer views that has none yet."""
    return NewerView(outbox, Membership(outbox, node, 1.0, NoMember()))
