"""Reading a service page by page."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice

from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Datum
from slotreeve_protocol.slot_messages import Fetch

from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.deltas import page_of
from slotreeve_servers.node.outbox import Outbox

KEPT_RECORDS = 1_000_000
"""The kept lists have together no more records than this, as far as they are more than one."""
KEPT_SECONDS = 10.0
"""Nobody reads a list any more that was not read for so long."""
LONGEST_SECONDS = 60.0
"""From then on a list makes room for others, though it is read."""

Key = tuple[str, int]
"""A service and its version."""


@dataclass(slots=True)
class KeptList:
    """A large service as it was at one version, for its readers' next pages.

    Attributes:
        since: when it was made. ``until``: nobody reads it any more then.
        readers: first pages that were read of it, less last pages: about so many read it.
    """

    records: list[Publisher]
    since: float
    until: float
    readers: int = 1


class Pages:
    """Answers reads of a serving slot. All pages of one reader are of one version: the list of a service with more than
    one page is kept for some seconds.

    Where the room for lists is taken, a further one is not kept: those who began first get all pages, then others.
    Without a list, a reader goes on as long as its service does not change.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        # In the order in which they go: those that were read to their end, then by when they were read last.
        self._kept: OrderedDict[Key, KeptList] = OrderedDict()
        self._made: dict[Key, None] = {}  # in the order in which they were made
        self._records = 0

    def answer(self, slot: HeldSlot, fetch: Fetch) -> Datum:
        """One page: of the version that the reader names, or the first one of the present version."""
        name = fetch.data_info_id
        service = slot.tracked.get(name)
        key = name, fetch.version
        if key not in self._kept:
            key = name, slot.version if service is None else service.version
        # Where the reader's list is not kept, and the service has not changed, it is the same still.
        start = fetch.start if fetch.version == key[1] else 0
        kept = self._kept.get(key)
        if kept is not None:
            return self._next(key, kept, start)
        records = slot.store.services.get(name, {})
        start = min(start, len(records))  # islice takes no number above sys.maxsize
        page = page_of(islice(records.values(), start, None), self._outbox.part_bytes)
        if len(page) == len(records):
            return Datum(*key, page)
        if start + len(page) < len(records):
            self._keep(key, records)
        return Datum(*key, page, len(records))

    def _next(self, key: Key, kept: KeptList, start: int) -> Datum:
        """A page of a kept list. One whose readers have all come to its end makes room before all others."""
        records = kept.records
        page = page_of(map(records.__getitem__, range(start, len(records))), self._outbox.part_bytes)
        kept.until = self._outbox.now() + KEPT_SECONDS
        if start + len(page) >= len(records):
            kept.readers = max(0, kept.readers - 1)
        else:
            kept.readers = max(1, kept.readers + (not start))
        self._kept.move_to_end(key, last=kept.readers > 0)
        return Datum(*key, page, len(records))

    def _keep(self, key: Key, records: dict[str, Publisher]) -> None:
        """Keep this list, if there is room."""
        now, most = self._outbox.now(), KEPT_RECORDS - len(records)
        while self._kept:
            first, kept = next(iter(self._kept.items()))
            if kept.until >= now and (self._records <= most or kept.readers > 0):
                break
            self._drop(first)
        while self._kept and self._records > most:
            oldest = next(iter(self._made))
            if self._kept[oldest].since + LONGEST_SECONDS >= now:
                return
            self._drop(oldest)
        self._kept[key] = KeptList(list(records.values()), now, now + KEPT_SECONDS)
        self._made[key] = None
        self._records += len(records)

    def _drop(self, key: Key) -> None:
        self._records -= len(self._kept.pop(key).records)
        del self._made[key]
