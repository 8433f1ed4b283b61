"""How long changes take on a session server, and which of its subscribers lag."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slotreeve_protocol.delay_messages import DelayPage, GetDelays, Lagging, ServiceDelay

from slotreeve_servers.node.counted import ACCEPT, PUSH_AGE, PUSH_WAIT, RECEIPT, STORE
from slotreeve_servers.node.lagging import page_of
from slotreeve_servers.node.outbox import Outbox, Peer
from slotreeve_servers.node.timings import LATELY_SECONDS, LateTimings, Timing
from slotreeve_servers.session.push.interests import Interests
from slotreeve_servers.session.push.push import Pushed
from slotreeve_servers.session.push.push_delays import PushDelays
from slotreeve_servers.session.records.writes import Writes


class SessionDelays:
    """Answers the question how long changes take here.

    Args:
        slot_of: the slot of a service.

    Attributes:
        timings: what is timed, by name.
    """

    def __init__(
        self, outbox: Outbox, writes: Writes, interests: Interests, pushes: PushDelays, slot_of: Callable[[str], int]
    ) -> None:
        self._outbox, self._writes, self._interests, self._pushes = outbox, writes, interests, pushes
        self._slot_of = slot_of
        self.timings: dict[str, Timing] = {
            ACCEPT: writes.stored,
            STORE: writes.answers,
            PUSH_WAIT: pushes.waits,
            PUSH_AGE: pushes.ages,
            RECEIPT: pushes.receipts,
        }
        self._late = LateTimings(self.timings)

    def look(self) -> float | None:
        """Call it every second."""
        now = self._outbox.now()
        self._pushes.look(now)
        self._late.look(now)
        return None

    def answer(self, peer: Peer, asked: GetDelays) -> DelayPage:
        """See GetDelays."""
        now, objective = self._outbox.now(), self._pushes.objective
        lagging, worst, more = page_of(self._lagging(now, asked.service), asked)
        return DelayPage(
            self._late.stages(now),
            objective.limit_seconds,
            objective.share,
            objective.windows(now),
            lagging,
            worst,
            self._service(asked.service, now) if asked.service else None,
            more,
            objective.is_burning(now),
        )

    def _lagging(self, now: float, service: str) -> Iterator[Lagging]:
        for one in self._pushes.lagging():
            if service and one.group.data_info_id != service:
                continue
            assert one.behind_since is not None
            peer = one.client.peer
            why = one.group.why_behind(one)
            yield Lagging(peer.node, peer.address, one.group.data_info_id, now - one.behind_since, why)
        slots = (self._slot_of(service),) if service else None
        yield from self._writes.long_waits(self._pushes.objective.limit_seconds, slots)

    def _service(self, data_info_id: str, now: float) -> ServiceDelay | None:
        service = self._interests.services.get(data_info_id)
        if service is None:
            return None
        groups = list(service.groups.values())
        subscribers = [one for group in groups for one in group.subscribers.values()]
        last = max((group.last for group in groups if group.last is not None), default=None)
        recent = [one for group in groups if (one := group.worst) is not None and one[0] > now - LATELY_SECONDS]
        worst = max(recent, key=lambda pushed: pushed[1] + pushed[2], default=None)
        behind = sum(one.behind_since is not None for one in subscribers)
        return ServiceDelay(service.copy.version, False, len(subscribers), behind, _told(last, now), _told(worst, now))

    def counters(self) -> dict[str, int]:
        """What of this is among the counters of a session server."""
        now, objective = self._outbox.now(), self._pushes.objective
        return {
            "pushes_judged": objective.pushed,
            "pushes_late": objective.late,
            "pushes_overdue": self._pushes.overdue,
            "push_age_p99_ms": self._late.quantile_ms(PUSH_AGE, 0.99, now),
            "objective_burning": int(objective.is_burning(now)),
        }


def _told(pushed: Pushed | None, now: float) -> Pushed | None:
    return None if pushed is None else (pushed[1], pushed[2], now - pushed[0])
