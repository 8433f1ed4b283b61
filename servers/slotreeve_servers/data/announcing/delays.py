"""How long changes take on a data server, and whom they wait for."""

from __future__ import annotations

from collections.abc import Iterator

from slotreeve_protocol.delay_messages import DelayPage, GetDelays, Lagging, ServiceDelay

from slotreeve_servers.data.announcing.changes import Changes
from slotreeve_servers.data.slots.slots import HeldSlots
from slotreeve_servers.node.counted import ANNOUNCE, CARRY
from slotreeve_servers.node.lagging import page_of
from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.node.timings import LateTimings, Timing

LAGGING_SECONDS = 0.5
"""A session server lags if it has not read for so long what was sent to it, a slot if it does not serve for so long."""


class DataDelays:
    """Answers the question how long changes take here.

    Attributes:
        timings: what is timed, by name.
    """

    def __init__(self, outbox: Outbox, slots: HeldSlots, changes: Changes) -> None:
        self._outbox, self._slots, self._changes = outbox, slots, changes
        self.timings: dict[str, Timing] = {ANNOUNCE: changes.waits, CARRY: changes.carried.times}
        self._late = LateTimings(self.timings)

    def look(self) -> None:
        """Call it now and then."""
        self._late.look(self._outbox.now())

    def answer(self, peer: Peer, asked: GetDelays) -> DelayPage:
        """See GetDelays."""
        lagging, worst, more = page_of(self._lagging(asked.service), asked)
        service = self._service(asked.service) if asked.service else None
        stages = self._late.stages(self._outbox.now())
        return DelayPage(stages, lagging=lagging, worst=worst, service=service, more=more)

    def _lagging(self, service: str) -> Iterator[Lagging]:
        now, attended = self._outbox.now(), self._outbox.attended()
        for peer, since in self._changes.carried.unanswered():
            if now - since > LAGGING_SECONDS:
                why = "it has not read the changes that were sent to it"
                yield Lagging(peer.node, peer.address, "", now - since, why)
        for number in self._slots.unsettled():
            slot = self._slots.held[number]
            is_its = not service or service in slot.tracked or service in slot.store.services
            if is_its and slot.leads and attended - slot.led_since > LAGGING_SECONDS:
                why = "reads wait: its leader has not got the records of all session servers yet"
                yield Lagging(f"slot {number}", "", "", attended - slot.led_since, why)

    def _service(self, data_info_id: str) -> ServiceDelay | None:
        for slot in self._slots.led():
            service = slot.tracked.get(data_info_id)
            if service is not None:
                behind = sum(known is not None for known in service.sessions.values())
                return ServiceDelay(service.version, True, len(service.sessions), behind)
        return None
