"""Follower moves of the balancer ``even``."""

from __future__ import annotations

from collections import Counter, deque
from heapq import heapify, heappop, heappush

from slotreeve import Draft

from slotreeve_balancer.even_leaders import LeaderMoves
from slotreeve_balancer.lacks import Lacks
from slotreeve_balancer.shares import Targets
from slotreeve_balancer.zones import Zones


class FollowerMoves:
    """Moves followed slots on a draft until every server holds its share."""

    def __init__(self, draft: Draft, zones: Zones, targets: Targets, leaders: LeaderMoves) -> None:
        self._draft, self._zones, self._quotas, self._leaders = draft, zones, targets.followers, leaders
        self._count = dict(targets.to_follow)
        self._received: Counter[str] = Counter()

    def _surplus(self, name: str) -> int:
        return self._count[name] - self._quotas.wanted[name]

    def _may_receive(self, name: str) -> bool:
        return self._received[name] < self._leaders.limit

    def _can_take(self, target: str, slot: int, source: str) -> bool:
        if self._draft.holds(target, slot):
            return False
        others = (self._draft.leader(slot), *(name for name in self._draft.followers(slot) if name != source))
        return self._zones.has_room(target, others)

    def _move(self, slot: int, source: str, target: str, reason: str) -> None:
        self._draft.follow(slot, target, reason, source)
        self._leaders.mark_fresh(slot)
        self._received[target] += 1
        self._count[source] -= 1
        self._count[target] += 1

    # --- zones ---------------------------------------------------------------------------------------------------

    def separate_zones(self) -> None:
        """Move followers whose zone holds too many copies of their slot."""
        if self._zones.trivial:
            return
        lacks = Lacks((name, -self._surplus(name)) for name in self._draft.servers)
        for slot in self._draft.slots:
            for source in sorted(self._draft.followers(slot), key=lambda name: (-self._surplus(name), name)):
                others = [self._draft.leader(slot), *(n for n in self._draft.followers(slot) if n != source)]
                if not self._zones.has_room(source, others):
                    self._separate(slot, source, lacks)

    def _separate(self, slot: int, source: str, lacks: Lacks) -> None:
        target = lacks.take(lambda name: self._can_take(name, slot, source))
        if target is None:
            return
        zone = self._zones.zone_of(source)
        self._move(slot, source, target, f"zone {zone} holds more than {self._zones.limit} of its copies")
        if self._may_receive(target):
            lacks.put_back(target, -self._surplus(target))

    # --- shares --------------------------------------------------------------------------------------------------

    def give_to_needy(self) -> None:
        """Move slots from servers with the largest surplus to servers that lack slots. Slots that the new follower can
        lead from the next step on come first."""
        needy = [name for name in self._draft.servers if self._surplus(name) < 0]
        needy.sort(key=lambda name: (self._surplus(name), name))
        givers = deque(name for name, surplus in self._leaders.surplus.items() if surplus > 0)
        open_leads = {name: self._leaders.surplus[name] for name in givers}
        for target in needy:
            for _ in range(-self._leaders.surplus[target]):
                if not self._take_for_promotion(target, givers, open_leads):
                    break
        heap = [(-self._surplus(name), name) for name in self._draft.servers if self._surplus(name) > 0]
        heapify(heap)
        for target in needy:
            self._take_any(target, heap)

    def _take_for_promotion(self, target: str, givers: deque[str], open_leads: dict[str, int]) -> bool:
        """Let ``target`` follow a slot of a leader with a surplus of led slots. True if there was such a slot. The
        leaders take turns: the first of ``givers`` with such a slot goes to the end."""
        if self._surplus(target) >= 0 or not self._may_receive(target):
            return False
        for _ in range(len(givers)):
            leader = givers[0]
            givers.rotate(-1)
            if open_leads[leader] and (found := self._copy_to_promote(leader, target)) is not None:
                slot, source = found
                open_leads[leader] -= 1
                self._move(slot, source, target, self._why(source))
                return True
        return False

    def _copy_to_promote(self, leader: str, target: str) -> tuple[int, str] | None:
        """A slot of the leader that ``target`` can follow in the place of a server with a surplus."""
        for slot in sorted(self._draft.led_by(leader)):
            for source in self._draft.followers(slot):
                if self._surplus(source) > 0 and self._can_take(target, slot, source):
                    return slot, source
        return None

    def _take_any(self, target: str, heap: list[tuple[int, str]]) -> None:
        """``heap`` has the servers with a surplus of followed slots, each with its surplus when it was added."""
        unfit: list[tuple[int, str]] = []
        while heap and self._surplus(target) < 0 and self._may_receive(target):
            entered, source = heappop(heap)
            surplus = self._surplus(source)
            if surplus != -entered:
                if surplus > 0:
                    heappush(heap, (-surplus, source))
                continue
            slot = self._first_slot(source, target)
            if slot is None:
                unfit.append((entered, source))
                continue
            self._move(slot, source, target, self._why(source))
            heappush(heap, (entered + 1, source))
        for entry in unfit:
            heappush(heap, entry)

    def _first_slot(self, source: str, target: str) -> int | None:
        return next((s for s in sorted(self._draft.followed_by(source)) if self._can_take(target, s, source)), None)

    def give_over_a_third(self) -> None:
        """Move slots by way of third servers where no server that lacks slots can take them directly."""
        for source in self._draft.servers:
            while self._count[source] > self._quotas.high[source] and self._shift(source, into=True):
                pass
        for target in self._draft.servers:
            while self._count[target] < self._quotas.low[target] and self._shift(target, into=False):
                pass

    def _shift(self, end: str, into: bool) -> bool:
        """Move one slot each along the shortest chain of servers from ``end`` to one that can take a slot; if ``into``,
        from one that can give a slot to ``end``. True if there was such a chain."""
        reached: dict[str, tuple[str, int]] = {end: ("", -1)}
        queue = deque([end])
        while queue:
            near = queue.popleft()
            for far in self._draft.servers:
                giver, taker = (near, far) if into else (far, near)
                slot = None if far in reached else self._first_slot(giver, taker)
                if slot is None:
                    continue
                reached[far] = (near, slot)
                if self._has_play(far, into):
                    self._walk(reached, far, into)
                    return True
                queue.append(far)
        return False

    def _has_play(self, name: str, into: bool) -> bool:
        if into:
            return self._count[name] < self._quotas.high[name]
        return self._count[name] > self._quotas.low[name]

    def _walk(self, reached: dict[str, tuple[str, int]], far: str, into: bool) -> None:
        why = self._why(far)
        while reached[far][0]:
            near, slot = reached[far]
            source, target = (near, far) if into else (far, near)
            # A slot may occur twice in a chain. The earlier move then makes the later one needless or wrong.
            if slot in self._draft.followed_by(source) and self._can_take(target, slot, source):
                self._move(slot, source, target, why)
            far = near

    def _why(self, source: str) -> str:
        return f"{source} would follow {self._count[source]}, its share is {self._quotas.wanted[source]}"
