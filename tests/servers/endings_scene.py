"""A data server that leads slot 0, with what decides when a registration ends, for tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_events.history import NO_REASONS
from slotreeve_protocol.slot_messages import Answers, Confirm, Presence, SlotWrite
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.ending import HeldLease, LostRecord
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.lost_clients import LostClients
from slotreeve_servers.data.endings.presence import client_of
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.outbox import Peer

from tests.servers.recording_outbox import RecordingOutbox, a_peer

SESSION_1, SESSION_2 = a_peer("session-1", Role.SESSION), a_peer("session-2", Role.SESSION)
RULES = DataSettings()
LOOK_SECONDS = 0.25
MOST_ROUNDS = 1_000
"""No scene has so many rounds at one time."""


def record(client: int | str, number: int = 0, incarnation: int = 1, session: Peer = SESSION_1) -> Publisher:
    name = client if isinstance(client, str) else f"client{client}"
    return Publisher(f"{name}-{number}", f"s{number}", 1, incarnation, session.process_id, "", (b"x",))


class EndingsScene:
    """data-1 serves slot 0; session-1 and session-2 are members and linked. ``clients`` clients of session-1 have a
    record of each of ``services`` services. Time begins at 0.

    Attributes:
        answers: session servers answer at once that they have delivered.
        confirms: the meta leader confirms this server at once, so that leases may end.
        reasons: why registrations ended, by register id.
    """

    def __init__(self, clients: int = 0, services: int = 1, rules: DataSettings = RULES, slots: int = 1) -> None:
        self.rules, self.outbox, self.sessions = rules, RecordingOutbox(time=0.0), SessionServers()
        self.outbox.unattended = -100.0
        self.slots = HeldSlots("data-1")
        self.table(*["data-1"] * slots)
        for slot in self.slots.led():
            slot.serve()
        self.brake = Brake(rules)
        self.endings = Endings(self.outbox, self.slots, self, self.sessions, rules, self.brake)
        self.endings.leases = self
        self.lost_clients = LostClients(self.outbox, self.slots, self, self.sessions, self.endings)
        self.answers, self.confirms, self.heard = True, True, True
        self.regained_at = -math.inf
        self.reasons: dict[str, str] = {}
        self._ended: set[str] = set()
        self.view(SESSION_1, SESSION_2)
        for peer in (SESSION_1, SESSION_2):
            self.sessions.opened(peer)
        self.records = [record(client, number) for client in range(clients) for number in range(services)]
        self.put(*self.records)

    # --- what the endings need ---------------------------------------------------------------------------------------

    def store(self, slot: HeldSlot, write: SlotWrite, reasons: Mapping[str, str] = NO_REASONS) -> None:
        """As the core does."""
        before = {one.register_id for one in slot.store.records()}
        slot.apply(write, self.outbox.now())
        self.endings.stored(slot, write.records)
        self._ended |= before - {one.register_id for one in slot.store.records()}
        self.reasons.update(reasons)

    def may_end(self, lease: HeldLease) -> bool:
        return self.confirms

    def is_unheard(self, lease: HeldLease) -> bool:
        return not self.heard

    # --- what happens ------------------------------------------------------------------------------------------------

    @property
    def slot(self) -> HeldSlot:
        return self.slots.held[0]

    def table(self, *leaders: str, epoch: int = 1) -> None:
        self.slots.apply(SlotTable(epoch, tuple([Slot(n, leader, epoch, ()) for n, leader in enumerate(leaders)])))

    def view(self, *members: Peer) -> None:
        self.lost_clients.view_changed([Node(p.node, Role.SESSION, "x:1", p.process_id) for p in members])

    def put(self, *records: Publisher, slot: int = 0) -> None:
        self.store(self.slots.held[slot], SlotWrite(slot, 1, list(records), [], []))

    def comes_back(self, client: int | str, *numbers: int, incarnation: int = 2) -> None:
        """A client has sent its records again, at session-2."""
        self.put(*[record(client, number, incarnation, SESSION_2) for number in numbers or (0,)])

    def lose(self, *records: Publisher) -> int:
        """session-1 reports that it has lost the clients of these records."""
        return self.endings.lost(LostRecord(self.slot, one, is_reported=True) for one in records)

    def say(self, *records: Publisher) -> None:
        """The clients of these records say that they leave."""
        self.endings.said(self.slot, [one.tombstone() for one in records])

    def dies(self, peer: Peer, *others: Peer) -> None:
        """A session process is killed; ``others`` are the members then."""
        for connection in [each for each in self.sessions.connections if each.process_id == peer.process_id]:
            self.sessions.closed(connection)
        self.view(*(others or [each for each in (SESSION_1, SESSION_2) if each is not peer]))

    def session_dies(self) -> None:
        self.dies(SESSION_1)

    def links_again(self, peer: Peer) -> Peer:
        """The session process of this peer makes another connection."""
        newer = Peer(peer.node, peer.role, peer.process_id)
        self.sessions.opened(newer)
        self.lost_clients.look()
        return newer

    def tell(
        self, peer: Peer, arriving: Iterable[str] = (), arrived: Iterable[str] = (), left: tuple[str, ...] = ()
    ) -> None:
        self.lost_clients.told(peer, Presence(list(arriving), list(arrived), list(left)))

    def arrive(self, *clients: int) -> None:
        self.tell(SESSION_2, [f"client{client}" for client in clients])

    def arrived(self, *clients: int) -> None:
        self.tell(SESSION_2, arrived=[f"client{client}" for client in clients])

    def freeze(self, frozen: bool) -> None:
        self.brake.freeze(frozen, self.outbox.attended())
        self.endings.rules_changed(self.rules)

    # --- time passes -------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.outbox.time

    def until(self, at: float) -> None:
        """Let time pass until then, as the core does."""
        self.settle()
        while self.outbox.time < at:
            step = min(LOOK_SECONDS, at - self.outbox.time)
            self.outbox.advance(step)
            self.lost_clients.look()
            self.endings.look()
            self.settle()

    def settle(self) -> None:
        """Gather, ask, and let session servers answer, until nothing is under way."""
        self.outbox.end_turn()
        for _ in range(MOST_ROUNDS):
            if not self.answers or not (self.endings.rounds.is_asking or self.endings.rounds._gathered):
                return
            self.outbox.advance(0.01)
            while any(isinstance(request.message, Confirm) for request in self.outbox.requests):
                self.outbox.answer(Answers([]), kind=Confirm)
            if self.needs_time():
                return
        raise AssertionError("what is due is asked about for ever, or never")

    def needs_time(self) -> bool:
        """Whether a round waits for a session server that is not connected, or for the view."""
        return self.endings.rounds.is_asking and not any(isinstance(r.message, Confirm) for r in self.outbox.requests)

    def end_turns_until_some_ended(self, count: int) -> None:
        """Turns of one step of work each, until fewer than ``count`` registrations are left."""
        self.outbox.turn_steps = 1
        for _ in range(20 * count):
            self.outbox.end_one_turn()
            if len(self.left) < count:
                return
        raise AssertionError("nothing ended")

    def ended(self, at: float) -> set[str]:
        """The clients of which something has ended until then, and was not told before."""
        self.until(at)
        ended, self._ended = self._ended, set()
        return {client_of(register_id) for register_id in ended}

    @property
    def left(self) -> list[str]:
        """Register ids of what the led slots still have."""
        return sorted(one.register_id for slot in self.slots.led() for one in slot.store.records())


def state_of(scene: EndingsScene, register_id: str) -> str:
    """The state of a registration in slot 0; one for each session process that has it."""
    held = scene.endings._held.get(scene.slot, {})
    endings = [ending for key, same in held.items() if key[1] == register_id for ending in same]
    return ", ".join(ending.state.value for ending in endings) or "vouched"
