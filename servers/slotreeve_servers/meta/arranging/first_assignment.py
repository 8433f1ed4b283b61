"""The first data server of a new cluster waits for others: it need not take every slot only to give most of them
away."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_servers.node.outbox import Outbox


class FirstAssignment:
    """Whether the slots of a new cluster may be assigned.

    Args:
        look: is called when the wait is over.
    """

    def __init__(self, outbox: Outbox, look: Callable[[], None]) -> None:
        self._outbox, self._look = outbox, look
        self._from: float | None = None

    def may_begin(self, any_data: bool, wait_seconds: float) -> bool:
        """Whether the first data server has waited so long. The wait begins when one is there for the first time."""
        if not any_data:
            return False
        now = self._outbox.now()
        if self._from is None:
            self._from = now + wait_seconds
            self._outbox.after(wait_seconds, self._look)
        return now >= self._from
