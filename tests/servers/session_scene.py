"""The parts of a session server with slot leaders around them, for tests."""

from __future__ import annotations

from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import (
    Publish,
)
from slotreeve_protocol.slot_messages import (
    Access,
    Answers,
    SlotAnswer,
    Write,
)
from slotreeve_servers.session.clients.arrivals import Arrivals
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.push.push import PushRules
from slotreeve_servers.session.records.leaders import SlotLeaders
from slotreeve_servers.session.records.registrations import Registrations
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import Writes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer
from tests.servers.world import newer_view_of, node_of

LEADER = a_peer("data-1", Role.DATA)
OTHER = a_peer("data-2", Role.DATA)
SERVICE = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


class ByLength:
    """A slot function for tests: names of even length in slot 0, the others in slot 1."""

    def slot_of(self, key: str) -> int:
        return len(key) % 2


class Scene:
    """The collaborators of a session server's core; data-1 leads both slots."""

    def __init__(self, most_pending: int = 1000) -> None:
        self.outbox, self.routes, self.orders = RecordingOutbox(), Routes(), OrdersInForce("session-1")
        self.writes = Writes(self.outbox, self.routes)
        self.limits = ClientLimits(SessionSettings(max_pending_writes=most_pending))
        self.registrations = Registrations(self.outbox, "session-1@1", ByLength(), self.writes, self.limits)
        due = DuePushes(self.outbox, self.orders)
        pushes = PushRules(self.outbox, SessionSettings(), "", self.orders, None, None, due)
        self.interests = Interests(self.routes, pushes)
        self.leaders = SlotLeaders(
            self.outbox,
            self.routes,
            self.writes,
            self.interests,
            self.registrations,
            Arrivals(self.outbox, self.routes, SessionSettings(), self.let_in),
            newer_view_of(self.outbox, node_of("session-1")),
        )
        self.table(1, "data-1")
        self.leaders.opened(LEADER)
        self.leaders.opened(OTHER)
        self.outbox.end_turn()

    def table(self, epoch: int, leader: str) -> None:
        self.leaders.table_changed(SlotTable(epoch, tuple([Slot(n, leader, epoch, ()) for n in (0, 1)])))

    def client(self, name: str = "client") -> ConnectedClient:
        return ConnectedClient(a_peer(name, Role.CLIENT))

    def let_in(self, client: ConnectedClient) -> None:
        """No client of this scene waits to be let in."""

    def publish(self, client: ConnectedClient, *records: Publisher, sequence: int = 10) -> None:
        self.registrations.publish(client, Publish(sequence, list(records)))
        self.outbox.end_turn()

    def accept(self) -> list[Publisher]:
        """The leader stores every write that is on its way; returns the tombstones of those that said so,
        and the records of lost clients."""
        gone: list[Publisher] = []
        while any(isinstance(r.message, Write) for r in self.outbox.requests):
            request = next(r.message for r in self.outbox.requests if isinstance(r.message, Write))
            gone += [each for batch in request.batches for each in (*batch.gone, *batch.lost)]
            answers = [SlotAnswer(b.slot, Access.ACCEPT, b.leader_epoch) for b in request.batches]
            self.outbox.answer(Answers(answers), kind=Write)
        return gone


def record(register_id: str = "r1", version: int = 1, incarnation: int = 1, **changes: str) -> Publisher:
    fields = {"service": SERVICE, "session": "session-1@1", "zone": "", "data": "x"} | changes
    data = (fields["data"].encode(),)
    return Publisher(register_id, fields["service"], version, incarnation, fields["session"], fields["zone"], data)
