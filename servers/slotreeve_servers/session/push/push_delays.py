"""How late pushes are, and which subscribers lack a change now. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from slotreeve_servers.node.settings import ObjectiveSettings
from slotreeve_servers.node.timings import Timing
from slotreeve_servers.session.push.objective import KeptObjective
from slotreeve_servers.session.push.subscriber import Subscriber

LOOK_SECONDS = 1.0
LATE_AGAIN_SECONDS = 10.0
"""A subscriber that goes on lacking a change counts as one more late push after each such time: the objective is missed
for as long as pushing is stopped, though nothing is pushed."""
MOST_MOVED = 2_000
RECEIPT_PAUSE_SECONDS = 0.01
"""Between two pushes whose receipts are timed."""


class PushDelays:
    """The delays of one session server.

    A change has a birth: the time at which it arrived here, less what the servers before say that it took there. Its
    age at the push is the whole way, without the time on the wire.

    Attributes:
        waits: from the arrival of a change until its push. ``ages``: from its birth until its push, of each push to a
            subscriber. ``receipts``: from a push to its receipt, without the time for which the client kept it.
        objective: how many of the pushes were in time.
        next_receipt_at: the receipt of a push from then on is timed, on the server's clock.
    """

    def __init__(self) -> None:
        self.waits, self.ages, self.receipts = Timing(), Timing(), Timing()
        self.objective = KeptObjective(ObjectiveSettings())
        self._behind: OrderedDict[Subscriber, None] = OrderedDict()
        self._overdue: dict[Subscriber, None] = {}
        self._again_at = self.next_receipt_at = 0.0

    def pushed(self, seconds: float, times: int) -> None:
        """Changes of this age were pushed to so many subscribers that lacked nothing before."""
        if times:
            self.ages.took(seconds, times)
            self.objective.took(seconds, times)

    def falls_behind(self, subscriber: Subscriber, born: float) -> None:
        """A change was not pushed to this subscriber, which lacked nothing before."""
        subscriber.behind_since = born
        self._behind[subscriber] = None

    def caught_up(self, subscriber: Subscriber, now: float) -> None:
        """A subscriber that was behind was sent all that it lacked."""
        assert subscriber.behind_since is not None
        seconds = now - subscriber.behind_since
        self.ages.took(seconds)
        if subscriber not in self._overdue:
            self.objective.took(seconds)
        self.forget(subscriber)

    def forget(self, subscriber: Subscriber) -> None:
        """It lacks nothing any more, or has ended its subscription."""
        subscriber.behind_since = None
        self._behind.pop(subscriber, None)
        self._overdue.pop(subscriber, None)

    def look(self, now: float) -> None:
        """Count those that wait for too long; call it every :data:`LOOK_SECONDS`."""
        limit = now - self.objective.limit_seconds
        moved = 0
        while self._behind and moved < MOST_MOVED:
            subscriber = next(iter(self._behind))
            if subscriber.behind_since is not None and subscriber.behind_since >= limit:
                break  # those that came later are younger, or will be seen in a moment
            del self._behind[subscriber]
            self._overdue[subscriber] = None
            moved += 1
        if now >= self._again_at:
            self._again_at = now + LATE_AGAIN_SECONDS
            self.objective.still_wait(len(self._overdue))
        else:
            self.objective.still_wait(moved)
        self.objective.look(now)

    @property
    def overdue(self) -> int:
        """Number of subscriptions that lack a change for longer than the objective admits."""
        return len(self._overdue)

    def lagging(self) -> Iterator[Subscriber]:
        """Those subscriptions."""
        return iter(self._overdue)
