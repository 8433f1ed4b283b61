"""For how long slots could not be read, as all data servers together know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slotreeve.errors import ClientError
from slotreeve.model.nodes import Node
from slotreeve.ports import Transport
from slotreeve_protocol.delay_messages import GetSlotReads, SlotReads, SlotReadsPage

from slotreeve_client.administration import ask_any
from slotreeve_client.each_server import ask_each


@dataclass(frozen=True)
class AllSlotReads:
    """What the data servers replied. A slot that is not named could always be read, as far as they know.

    Attributes:
        slots: by number: the times of all servers that led it, added up.
        silent: data servers that did not reply, with the reason: what they alone knew is missing.
    """

    slots: Mapping[int, SlotReads]
    silent: Mapping[str, str]


async def slot_reads(transport: Transport, cluster: str, data: Sequence[Node]) -> AllSlotReads:
    """Ask these data servers."""

    async def pages_of(node: Node) -> list[SlotReads]:
        found: list[SlotReads] = []
        while True:
            after = found[-1].slot if found else -1
            page = await ask_any(transport, cluster, [node.address], GetSlotReads(after))
            if not isinstance(page, SlotReadsPage):
                raise ClientError(f"{node.name} answered with a {type(page).__name__}")
            found += page.slots
            if not page.more or not page.slots:
                return found

    told, silent = await ask_each(data, pages_of)
    return AllSlotReads(added_up(told.values()), silent)


def added_up(told: Iterable[Iterable[SlotReads]]) -> dict[int, SlotReads]:
    """The times by slot. They are of different servers, which led the slot one after the other."""
    found: dict[int, SlotReads] = {}
    for slots in told:
        for one in slots:
            known = found.get(one.slot, SlotReads(one.slot, 0.0, 0.0, 0.0, 0))
            found[one.slot] = SlotReads(
                one.slot,
                max(known.open_seconds, one.open_seconds),
                known.hour_seconds + one.hour_seconds,
                known.day_seconds + one.day_seconds,
                known.ended + one.ended,
                known.why or one.why,
            )
    return found
