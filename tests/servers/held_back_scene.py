"""Registrations of a session server that dies, held back by a data server, for tests."""

from __future__ import annotations

from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_servers.data.brake import Brake, limits_of
from slotreeve_servers.data.claims import ClaimedClients, client_of
from slotreeve_servers.data.held_back import HeldBack, LostRecord
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots import HeldSlot, HeldSlots

GONE = "session-1@1"
RULES = DataSettings()


def record(client: int, number: int = 0, incarnation: int = 1, session: str = GONE) -> Publisher:
    return Publisher(f"client{client}-{number}", f"s{number}", 1, incarnation, session, "", (b"x",))


class Scene:
    """data-1 leads slot 0, in which ``clients`` clients of session-1 have a record of each of ``services`` services."""

    def __init__(
        self, clients: int, services: int = 1, rules: DataSettings = RULES, slots: HeldSlots | None = None
    ) -> None:
        self.rules = rules
        self.slots = slots or HeldSlots("data-1")
        self.claims = ClaimedClients()
        self.slots.apply(SlotTable(1, (Slot(0, "data-1", 1, ()),)))
        self.brake = Brake(limits_of(rules))
        self.held = HeldBack(rules, self.slots, self.claims, self.brake)
        self.records = [record(client, number) for client in range(clients) for number in range(services)]
        self.put(*self.records)

    @property
    def slot(self) -> HeldSlot:
        return self.slots.held[0]

    def put(self, *records: Publisher, at: float = 0.0) -> None:
        for one in records:
            self.slot.store.put(one, 0.0)
        self.held.stored(self.slot, records, at)

    def freeze(self, frozen: bool, at: float) -> None:
        self.brake.freeze(frozen, at)
        self.held.rules_changed(self.rules)

    def session_dies(self, at: float) -> None:
        self.held.hold([LostRecord(self.slot, one, leaves_tombstone=False, gone=GONE) for one in self.records], at)

    def claim(self, client: int, at: float) -> None:
        self.claims.begin("session-2@1", [f"client{client}"])
        self.held.claims_changed([f"client{client}"], at)

    def end_claim(self, client: int, at: float) -> None:
        self.claims.end("session-2@1", [f"client{client}"])
        self.held.claims_changed([f"client{client}"], at)

    def look(self, now: float) -> list[LostRecord]:
        """All that one look releases."""
        return [entry for part in self.held.look(self.slots.registrations, now) for entry in part]

    def released(self, now: float) -> set[str]:
        """The clients whose registrations may be removed now; they are removed."""
        released = self.look(now)
        for entry in released:
            self.slot.store.purge(entry.record.data_info_id, entry.record.register_id)
        return {client_of(entry.record.register_id) for entry in released}
