"""Reading a service page by page."""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Datum
from slotreeve_protocol.slot_messages import Fetch

from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.deltas import page_of
from slotreeve_servers.node.outbox import Outbox

KEPT_LISTS = 8
KEPT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KeptList:
    """A large service as it was at one version, for its readers' next pages."""

    records: list[Publisher]
    until: float


class Pages:
    """Answers reads of a serving slot. All pages of one reader are of one version: the list of a service with more than
    one page is kept for some seconds."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._kept: dict[tuple[str, int], KeptList] = {}

    def answer(self, slot: HeldSlot, fetch: Fetch) -> Datum:
        """One page: of the version that the reader names, or the first one of the present version."""
        name, now = fetch.data_info_id, self._outbox.now()
        service = slot.tracked.get(name)
        version, start = slot.version if service is None else service.version, 0
        kept = self._kept.get((name, fetch.version))
        if kept is not None:
            records, version, start = kept.records, fetch.version, fetch.start
        else:
            records = list(slot.store.services.get(name, {}).values())
        page = page_of(records, start, self._outbox.part_bytes)
        if len(page) == len(records):
            return Datum(name, version, page)
        self._kept.pop((name, version), None)
        self._kept[name, version] = KeptList(records, now + KEPT_SECONDS)
        self._forget(now)
        return Datum(name, version, page, len(records))

    def _forget(self, now: float) -> None:
        """Drop the lists that nobody has read for a while, and the oldest of too many."""
        for key in [key for key, kept in self._kept.items() if kept.until < now]:
            del self._kept[key]
        while len(self._kept) > KEPT_LISTS:
            del self._kept[next(iter(self._kept))]
