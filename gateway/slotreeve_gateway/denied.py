"""What a gateway denies its callers is written down in the history of a meta server, because a gateway keeps none."""

from __future__ import annotations

import logging
from collections import Counter, deque

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from slotreeve.model.text import in_a_line
from slotreeve_client.administration import ask_any
from slotreeve_protocol.history_messages import MOST_DENIALS, Denied, NoteDenials
from slotreeve_servers.node.denials import Denials

from slotreeve_gateway.access import STRANGERS
from slotreeve_gateway.origin import ORIGIN
from slotreeve_gateway.servers import ClusterServers

log = logging.getLogger("slotreeve.gateway")

TELL_SECONDS = 1.0
MOST_UNTOLD = 1_000
"""So many wait while no meta server answers. Beyond that the oldest of whoever has the most is only counted."""
LOST = ("callers", "", "denied; they are not told one by one, because no meta server answered for a time")


class DeniedCallers:
    """Gathers what is denied, and tells it to a meta server. Use it on one event loop.

    Args:
        name: of this gateway.
    """

    def __init__(self, name: str, servers: ClusterServers, clock: Clock) -> None:
        self._name, self._servers, self._clock = name, servers, clock
        self._denials = Denials(clock.call_later, self._add)
        self._untold: deque[Denied] = deque()
        self._lost = 0

    def note(self, author: str, reason: str) -> None:
        """The caller of the present request was denied something. ``author``: its token, for people."""
        self._denials.note(author, ORIGIN.get().address, reason, _holder(author))

    def _add(self, denied: Denied) -> None:
        who = f"{denied.author} at {denied.address or 'an unknown address'}"
        log.info("%s is denied %d times: %s", in_a_line(who), denied.count, in_a_line(denied.reason))
        self._untold.append(denied)
        if len(self._untold) > MOST_UNTOLD:
            most, _ = Counter(_holder(one.author) for one in self._untold).most_common(1)[0]
            oldest = next(one for one in self._untold if _holder(one.author) == most)
            self._untold.remove(oldest)
            self._lost += oldest.count

    async def run(self) -> None:
        """Tell what there is, for ever."""
        while True:
            await self._clock.sleep(TELL_SECONDS)
            await self.tell()

    async def tell(self) -> None:
        """Tell what there is now. Where no meta server answers, it waits for the next time."""
        while self._untold or self._lost:
            part = [self._untold.popleft() for _ in range(min(MOST_DENIALS - 1, len(self._untold)))]
            lost, self._lost = self._lost, 0
            all_of_it = [*([Denied(*LOST, lost)] if lost else []), *part]
            try:
                await ask_any(*self._servers.asked, NoteDenials(self._name, all_of_it))
            except SlotreeveError as error:
                log.info("%d denials are not written down yet: %s", len(all_of_it), error)
                self._untold.extendleft(reversed(part))
                self._lost += lost
                return


def _holder(author: str) -> str:
    """Of which token the author has proven to be the holder; empty: of none."""
    return "" if author in STRANGERS else author
