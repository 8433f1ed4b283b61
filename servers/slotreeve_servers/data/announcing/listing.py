"""Listing the services of a data server page by page."""

from __future__ import annotations

from slotreeve_protocol.client_messages import ListedUpTo, ListServices, Services

from slotreeve_servers.data.slots.slots import HeldSlot, HeldSlots
from slotreeve_servers.node.digests import led_digest
from slotreeve_servers.node.outbox import Outbox, Peer

COUNT_BYTES = 8
NAMES_PER_PAGE = 20_000
"""A page ends after so many names, also of services that are not asked for."""


class Listing:
    """Lists the services in the slots that this server leads and serves: by slot, then by name, so that a page costs
    what is on it and no list has to be kept between pages."""

    def __init__(self, outbox: Outbox, slots: HeldSlots) -> None:
        self._outbox, self._slots = outbox, slots

    def answer(self, peer: Peer, asked: ListServices) -> Services:
        """One page after the position that the reader names; everything, where it names none."""
        led = sorted((slot for slot in self._slots.led() if slot.serving), key=lambda slot: slot.slot.id)
        digest = led_digest((slot.slot.id, slot.slot.leader_epoch) for slot in led)
        counts: dict[str, int] = {}
        if asked.after is None:
            for slot in led:
                counts |= _counts(slot, asked.prefix)
            return Services(counts, led=digest)
        size = seen = 0
        for slot in led:
            number = slot.slot.id
            if number < asked.after.slot:
                continue
            seen += len(slot.store.services)
            after = asked.after.name if number == asked.after.slot else ""
            for name, count in sorted(_counts(slot, asked.prefix).items()):
                if name <= after:
                    continue
                counts[name] = count
                size += len(name) + COUNT_BYTES
                if size >= self._outbox.part_bytes:
                    return Services(counts, ListedUpTo(number, name), digest)
            if seen >= NAMES_PER_PAGE:
                return Services(counts, ListedUpTo(number + 1, ""), digest)
        return Services(counts, led=digest)


def _counts(slot: HeldSlot, prefix: str) -> dict[str, int]:
    return {name: len(service) for name, service in slot.store.services.items() if name.startswith(prefix)}
