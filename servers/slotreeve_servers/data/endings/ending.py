"""The states of a registration that may end (docs/endings.md draws them). Pure."""

from __future__ import annotations

from enum import StrEnum

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.leases import is_lease, lease_id_of, lease_record, ttl_seconds_of
from slotreeve_protocol.slot_messages import SlotWrite

from slotreeve_servers.data.endings.presence import client_of
from slotreeve_servers.data.endings.timing_wheel import Timed
from slotreeve_servers.data.slots.slots import HeldSlot

DRIFT = 1.02
"""Clocks may differ in speed by up to 2 %: a lease lasts so much longer on the clock of its leader."""


class EndingState(StrEnum):
    """Where a registration is on its way to its end."""

    VOUCHED = "vouched"
    """Somebody vouches for it: it stays, and the leader keeps nothing more of it."""
    WAITING = "waiting"
    """Nobody does, and it has a deadline."""
    ARRIVING = "arriving"
    """Its client is connected to a session server and sends everything again: it has no deadline."""
    ASKED = "asked"
    """The deadline is over, and the session servers are asked for what they have on their way."""
    BRAKED = "braked"
    """They have answered; it ends unless too many would."""
    ENDED = "ended"


class EndingEvent(StrEnum):
    """What happens to it."""

    LOST = "lost"
    """Its session server has lost its client, or is gone; its client has left; or a lease begins."""
    ARRIVES = "arrives"
    ARRIVED = "arrived"
    DUE = "due"
    MARKS_BACK = "marks back"
    PUT_OFF = "put off"
    """It has a later deadline after all: it was renewed, it is one of many, or a session server did not answer."""
    SENT_AGAIN = "sent again"
    """Its client has sent it again, its session process is back, or another server leads its slot."""
    RELEASED = "released"


VOUCHED, WAITING, ARRIVING, ASKED, BRAKED, ENDED = EndingState

TRANSITIONS = {
    (VOUCHED, EndingEvent.LOST): WAITING,
    (WAITING, EndingEvent.ARRIVES): ARRIVING,
    (WAITING, EndingEvent.DUE): ASKED,
    (WAITING, EndingEvent.SENT_AGAIN): VOUCHED,
    (ARRIVING, EndingEvent.ARRIVED): WAITING,
    (ARRIVING, EndingEvent.SENT_AGAIN): VOUCHED,
    (ASKED, EndingEvent.ARRIVES): ARRIVING,
    (ASKED, EndingEvent.MARKS_BACK): BRAKED,
    (ASKED, EndingEvent.PUT_OFF): WAITING,
    (ASKED, EndingEvent.SENT_AGAIN): VOUCHED,
    (BRAKED, EndingEvent.ARRIVES): ARRIVING,
    (BRAKED, EndingEvent.PUT_OFF): WAITING,
    (BRAKED, EndingEvent.SENT_AGAIN): VOUCHED,
    (BRAKED, EndingEvent.RELEASED): ENDED,
}
"""The next state. What is not here cannot happen."""


class Ending(Timed):
    """A registration that ends unless somebody vouches for it in time.

    Attributes:
        slot, data_info_id, register_id: which one. ``key``: the latter two.
        session: the session process that has it, or has heard that it ends; that of leases is their owner.
        client: the id of its client. A lease is a client of its own.
        state: :class:`slotreeve_servers.data.endings.endings.Endings` alone changes it.
        held_since: since when the brake's longest time counts, in attended seconds; set with the state BRAKED.
        said: its client has said that it leaves: it ends however many do, once the session servers have answered.
    """

    __slots__ = ("client", "data_info_id", "held_since", "register_id", "said", "session", "slot", "state")

    def __init__(self, slot: HeldSlot, record: Publisher, client: str) -> None:
        super().__init__()
        self.slot, self.data_info_id, self.register_id = slot, record.data_info_id, record.register_id
        self.session = record.session
        self.client = client
        self.state = VOUCHED
        self.held_since = 0.0
        self.said = False

    @property
    def key(self) -> tuple[str, str]:
        """Its data info id and register id."""
        return self.data_info_id, self.register_id

    @property
    def is_open(self) -> bool:
        """Whether it may still end."""
        return self.state is not VOUCHED and self.state is not ENDED

    def record_that_ends(self) -> Publisher | None:
        """The record in the slot that would end; None where there is none any more, or a newer one."""
        raise NotImplementedError

    def remove_by(self, write: SlotWrite, record: Publisher) -> None:
        """Let ``write`` remove the record."""
        raise NotImplementedError

    def why(self) -> str:
        """Why it ends, for people."""
        raise NotImplementedError


class LostRecord(Ending):
    """One registration of a client that is lost or has left, as one session process has it: a client that moves has it
    at two, and each of them may hear that it leaves, or be gone.

    Attributes:
        record: as it was then; a newer one in the slot shows that the client has come back. Of a client that has said
            that it leaves, the tombstone.
        is_reported: its session server has reported it, and keeps its copy until it is told that the record is over.
        gone: id of its session process, where that is gone; else empty.
        since: when it was lost, in attended seconds.
        not_before: it stays until then, because a session server did not answer a mark; 0 where all answered.
    """

    __slots__ = ("gone", "is_reported", "not_before", "record", "since")

    def __init__(
        self,
        slot: HeldSlot,
        record: Publisher,
        *,
        is_reported: bool = False,
        gone: str = "",
        said: bool = False,
    ) -> None:
        super().__init__(slot, record, client_of(record.register_id))
        self.record, self.is_reported, self.gone, self.said = record, is_reported, gone, said
        self.since = self.not_before = 0.0

    def record_that_ends(self) -> Publisher | None:
        """See :meth:`Ending.record_that_ends`."""
        found = self.slot.store.find(self.record)
        if not self.said:
            return found if found == self.record else None
        # It may be on its way yet. What its client has sent elsewhere does not end.
        return None if found is not None and found.session != self.session else self.record

    def remove_by(self, write: SlotWrite, record: Publisher) -> None:
        """See :meth:`Ending.remove_by`."""
        if self.said or self.is_reported:
            write.gone.append(record.tombstone())
        else:
            write.purged.append((self.data_info_id, self.register_id))

    def why(self) -> str:
        """See :meth:`Ending.why`."""
        if self.gone:
            return f"its session server is gone (process {self.gone}), and its client did not come back"
        return "its client was lost: it did not come back after its connection had ended, or was silent for too long"


class HeldLease(Ending):
    """One lease.

    Attributes:
        ttl: its time to live in seconds, with an allowance for clocks that differ.
        until: it ends then unless it is renewed, in attended seconds.
    """

    __slots__ = ("ttl", "until")

    def __init__(self, slot: HeldSlot, record: Publisher, until: float) -> None:
        super().__init__(slot, record, record.register_id)
        self.ttl, self.until = DRIFT * ttl_seconds_of(record), until

    def record_that_ends(self) -> Publisher | None:
        """See :meth:`Ending.record_that_ends`."""
        return lease_in(self.slot, self.data_info_id, self.register_id)

    def remove_by(self, write: SlotWrite, record: Publisher) -> None:
        """See :meth:`Ending.remove_by`."""
        write.records.append(lease_tombstone(self.slot, record))

    def why(self) -> str:
        """See :meth:`Ending.why`."""
        return "its lease was not renewed in time"


def lease_in(slot: HeldSlot, data_info_id: str, register_id: str) -> Publisher | None:
    """The record of a lease in a slot; None where there is none."""
    record = slot.store.services.get(data_info_id, {}).get(register_id)
    return record if record is not None and is_lease(record) else None


def lease_tombstone(slot: HeldSlot, record: Publisher) -> Publisher:
    """The tombstone of a lease in a led slot."""
    lease_id = lease_id_of(record.register_id)
    return lease_record(lease_id, record.data_info_id, slot.next_version(), record.incarnation, record.zone, None)
