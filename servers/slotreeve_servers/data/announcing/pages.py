"""Reading a service page by page."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Datum
from slotreeve_protocol.slot_messages import Fetch

from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.deltas import page_of
from slotreeve_servers.node.outbox import Outbox

KEPT_RECORDS = 1_000_000
"""The kept lists have together no more records than this, as far as they are more than one."""
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
        # By service and version, in the order in which they were read last.
        self._kept: OrderedDict[tuple[str, int], KeptList] = OrderedDict()
        self._records = 0

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
            if fetch.version == version:
                start = fetch.start  # its list was dropped, and is the same still
        page = page_of(records, start, self._outbox.part_bytes)
        if len(page) == len(records):
            return Datum(name, version, page)
        self._drop((name, version))
        self._kept[name, version] = KeptList(records, now + KEPT_SECONDS)
        self._records += len(records)
        self._forget(now)
        return Datum(name, version, page, len(records))

    def _forget(self, now: float) -> None:
        """Drop the lists that nobody has read for a while, and of too many those that were read least lately."""
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if kept.until >= now and (self._records <= KEPT_RECORDS or len(self._kept) == 1):
                return
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._records -= len(kept.records)
