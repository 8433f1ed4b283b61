"""What renewals cost the data servers: a leader's core with 100,000 leases of 30 s, each renewed every 10 s.

    python proving/benchmarks/leases.py

Two minutes of such a leader pass in virtual time, from the bytes of each message to those of its answer. Printed is the
share of one core that they would take in real time, and the longest turn.
"""

from __future__ import annotations

import sys
import time

from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.codec import decode_frame, encode_message
from slotreeve_protocol.lease_messages import KeepLeases, LeaseTerms, SlotLeases
from slotreeve_servers.data.core import UPKEEP_SECONDS
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.endings.endings import Endings
from slotreeve_servers.data.endings.lease_keeper import LeaseKeeper
from slotreeve_servers.data.endings.sessions import SessionServers
from slotreeve_servers.data.replication.confirmations import FollowerConfirmations
from slotreeve_servers.data.replication.in_sync import InSync
from slotreeve_servers.data.replication.streams import Streams
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.membership import Membership
from slotreeve_servers.node.newer_view import NewerView
from slotreeve_servers.node.outbox import Peer, Request

from tests.servers.recording_outbox import RecordingOutbox

LEASES, SERVICES, SLOTS = 100_000, 1_000, 256
TTL_SECONDS, RENEWED_EVERY_SECONDS, SECONDS = 30, 10, 120
IDS_PER_MESSAGE = int(sys.argv[1]) if len(sys.argv) > 1 else 200


class Quiet(RecordingOutbox):
    """Encodes what is replied, and keeps nothing."""

    def reply(self, request: Request, message: Message) -> None:
        encode_message(message)


class Writer:
    """Stores, and tells nobody."""

    def __init__(self, outbox: RecordingOutbox) -> None:
        self._outbox = outbox

    def store(self, slot: HeldSlot, write: object, reasons: object = None) -> None:
        slot.apply(write, self._outbox.now())  # type: ignore[arg-type]


def main() -> None:
    """Print the figures."""
    outbox = Quiet()
    slots = HeldSlots("data-1")
    slots.apply(SlotTable(1, tuple(Slot(n, "data-1", 1, ()) for n in range(SLOTS))))
    for slot in slots.led():
        slot.serve()
    membership = Membership(outbox, Node("data-1", Role.DATA, "a:1", "p"), 1.0, None)  # type: ignore[arg-type]
    streams = Streams(outbox, slots, NewerView(outbox, membership))
    confirmations = FollowerConfirmations(outbox, streams, InSync(outbox, slots, streams, membership))
    writer, rules, sessions = Writer(outbox), DataSettings(), SessionServers()
    endings = Endings(outbox, slots, writer, sessions, rules, Brake(rules))
    keeper = endings.leases = LeaseKeeper(outbox, slots, membership, confirmations, endings, writer)
    request = Request(Peer("session-1", Role.SESSION, "s"), 1)
    sessions.opened(request.peer)
    membership.granted_at = outbox.time
    ids: list[tuple[str, str]] = [
        (f"com.example.Service{n % SERVICES}", f"10.0.{n % 250}.7:{n}") for n in range(LEASES)
    ]

    def message_of(part: list[tuple[str, str]], registers: bool) -> bytes:
        batches: dict[int, SlotLeases] = {}
        for name, lease_id in part:
            number = hash(name) % SLOTS
            batch = batches.setdefault(number, SlotLeases(number, 1, [], {}, {}))
            if registers:
                batch.registered.append(LeaseTerms(name, lease_id, "", (b"x" * 80,), 1000 * TTL_SECONDS))
            else:
                batch.renewed.setdefault(name, []).append(lease_id)
        return encode_message(KeepLeases(list(batches.values())))

    def handle(frame: bytes) -> None:
        message = decode_frame(frame)[2]
        assert isinstance(message, KeepLeases)
        keeper.keep(request.peer, message, request)

    for start in range(0, LEASES, 1000):
        handle(message_of(ids[start : start + 1000], True))
    outbox.end_turn()
    frames = [message_of(ids[n : n + IDS_PER_MESSAGE], False) for n in range(0, LEASES, IDS_PER_MESSAGE)]
    renewing = looking = longest = 0.0
    sent, step = 0.0, UPKEEP_SECONDS
    for _ in range(int(SECONDS / step)):
        outbox.time += step
        membership.granted_at = outbox.time
        sent += len(frames) * step / RENEWED_EVERY_SECONDS
        began = time.process_time()
        while sent >= 1:
            sent -= 1
            frames.append(frame := frames.pop(0))
            handle(frame)
        middle = time.process_time()
        endings.look()
        outbox.end_turn()
        ended = time.process_time()
        renewing, looking, longest = renewing + middle - began, looking + ended - middle, max(longest, ended - middle)
    assert endings.count == LEASES, endings.counters()
    print(
        f"{LEASES} leases of {TTL_SECONDS} s, renewed every {RENEWED_EVERY_SECONDS} s, {IDS_PER_MESSAGE} in a message"
    )
    print(f"renewals: {100 * renewing / SECONDS:.2f} % of a core, {1e9 * renewing / (LEASES * 12):.0f} ns each")
    print(f"looks at what is due: {100 * looking / SECONDS:.2f} % of a core, the longest {1000 * longest:.1f} ms")


if __name__ == "__main__":
    main()
