"""What tests of the cores of data and session servers share."""

from __future__ import annotations

from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Publish,
)
from slotreeve_protocol.meta_messages import (
    View,
)
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    SlotAnswer,
    Write,
)
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.core import (
    SessionCore,
)
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver

META = a_peer("meta-1", Role.META)
SERVICE = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


def node(name: str) -> Node:
    role = Role.DATA if name.startswith("data") else Role.SESSION
    return Node(name, role, f"{name}:1", f"{name}@1")


def record(register_id: str = "r1", session: str = "session-1@1", incarnation: int = 1) -> Publisher:
    return Publisher(register_id, SERVICE, 1, incarnation, session, "", (b"x",))


class OneSlot:
    def slot_of(self, key: str) -> int:
        return 0


class SessionScene:
    """session-1 with one data server that leads slot 0."""

    def __init__(self, **rules: float) -> None:
        self.outbox = RecordingOutbox()
        settings = SessionSettings.model_validate(rules)
        self.core = SessionCore(self.outbox, node("session-1"), settings, 1.0, OneSlot())
        self.core.start()
        view = View(
            1, 1, SlotTable(1, (Slot(0, "data-1", 1, ()),)), [node("data-1")], [node("session-1"), node("session-2")]
        )
        self.core.membership.handlers.messages[View](META, view)
        self.data = a_peer("data-1", Role.DATA)
        self.core.leaders.opened(self.data)
        self.outbox.end_turn()
        self.outbox.take()

    def client(self, name: str = "client") -> Peer:
        peer = a_peer(name, Role.CLIENT)
        self.core.opened(peer)
        self.outbox.end_turn()
        return peer

    def publish(self, peer: Peer, *records: Publisher) -> None:
        deliver(self.outbox, self.core.handlers, peer, Publish(1, list(records)))

    def stored(self) -> None:
        """The slot's leader stores what is on its way to it."""
        self.outbox.end_turn()
        while any(isinstance(request.message, Write) for request in self.outbox.requests):
            self.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)]), kind=Write)

    def gone(self) -> list[str]:
        """Register ids of the departures that are on their way to the leader."""
        writes = [r.message for r in self.outbox.requests if isinstance(r.message, Write)]
        return [tombstone.register_id for write in writes for batch in write.batches for tombstone in batch.gone]

    def lost(self) -> list[str]:
        """Register ids of the lost registrations that are on their way to the leader."""
        writes = [r.message for r in self.outbox.requests if isinstance(r.message, Write)]
        return [tombstone.register_id for write in writes for batch in write.batches for tombstone in batch.lost]
