"""Leader moves of the balancer ``even``."""

from __future__ import annotations

from collections import Counter, deque

from slotreeve import Draft

from slotreeve_balancer.shares import Quotas
from slotreeve_balancer.zones import Zones


class LeaderMoves:
    """Moves leaders on a draft until every server leads its share, as far as one step can do that.

    Attributes:
        surplus: number of slots that a server leads above its quota; negative if below.
        limit: number of slots that one server may newly lead in this step.
    """

    def __init__(self, draft: Draft, zones: Zones, quotas: Quotas, limit: int) -> None:
        self._draft, self._zones, self._quotas = draft, zones, quotas
        self.limit = limit
        self.surplus = {name: draft.leads(name) - quotas.wanted[name] for name in draft.servers}
        self._received: Counter[str] = Counter()
        self._fresh: set[int] = set()

    def mark_fresh(self, slot: int) -> None:
        """This step makes a new copy of the slot. No leader moves to that copy before it is in sync."""
        self._fresh.add(slot)

    def _may_receive(self, name: str) -> bool:
        return self.surplus[name] < 0 and self._received[name] < self.limit

    def hand_to_followers(self) -> None:
        """Hand slots from servers with a surplus to followers that lack led slots; the followers with the least choice
        come first."""
        for source in self._draft.servers:
            if self.surplus[source] <= 0:
                continue
            heirs = {
                slot: [name for name in self._draft.followers(slot) if self._may_receive(name)]
                for slot in self._draft.led_by(source)
                if slot not in self._fresh
            }
            for slot in sorted(heirs, key=lambda slot: (len(heirs[slot]), slot)):
                able = [name for name in heirs[slot] if self._may_receive(name)]
                if able and self.surplus[source] > 0:
                    self._promote(slot, min(able, key=lambda name: (self.surplus[name], name)), self._why(source))
        if self._draft_has_no_followers():
            self._hand_without_followers()

    def _draft_has_no_followers(self) -> bool:
        return not any(self._draft.followers(slot) for slot in self._draft.slots)

    def _hand_without_followers(self) -> None:
        """With one copy of each slot, a leader moves to a server that must copy the slot first."""
        for source in self._draft.servers:
            for slot in sorted(self._draft.led_by(source)):
                target = min(self._draft.servers, key=lambda name: (self.surplus[name], name))
                if self.surplus[source] <= 0 or not self._may_receive(target):
                    break
                self._draft.lead(slot, target, self._why(source))
                self._count(source, target)

    def hand_over_a_third(self) -> None:
        """Move leaders by way of third servers where no follower of a server with a surplus lacks led slots."""
        for source in self._draft.servers:
            while self.surplus[source] > 0 and (path := self._path_from(source)):
                why = self._why(source)
                for slot, heir in path:
                    self._promote(slot, heir, why)

    def _path_from(self, source: str) -> list[tuple[int, str]]:
        """The shortest chain of promotions (slot, new leader) to a server that lacks led slots; empty if none."""
        reached: dict[str, tuple[str, int]] = {source: ("", -1)}
        queue = deque([source])
        while queue:
            name = queue.popleft()
            for slot in sorted(self._draft.led_by(name)):
                for heir in sorted(self._draft.followers(slot)):
                    if heir in reached or slot in self._fresh:
                        continue
                    reached[heir] = (name, slot)
                    if self._may_receive(heir):
                        return self._walked(reached, heir)
                    queue.append(heir)
        return []

    @staticmethod
    def _walked(reached: dict[str, tuple[str, int]], heir: str) -> list[tuple[int, str]]:
        path: list[tuple[int, str]] = []
        while reached[heir][0]:
            giver, slot = reached[heir]
            path.append((slot, heir))
            heir = giver
        return path

    def prepare_promotions(self) -> None:
        """Let servers that lack led slots follow slots of servers with a surplus, to be promoted in the next step."""
        needy = [name for name in self._draft.servers if self._may_receive(name)]
        for source in self._draft.servers:
            for slot in sorted(self._draft.led_by(source)):
                if self.surplus[source] <= 0 or not needy:
                    break
                target = needy[0]
                if (leaving := self._replaceable(slot, target)) is not None:
                    self._draft.follow(
                        slot, target, f"{target} will lead the slot next, because {self._why(source)}", leaving
                    )
                    self._count(source, target)
                    needy = [name for name in needy if self._may_receive(name)]

    def _replaceable(self, slot: int, target: str) -> str | None:
        """The follower that ``target`` can replace; None if there is none."""
        if self._draft.holds(target, slot):
            return None
        for follower in sorted(self._draft.followers(slot), key=lambda name: -self._draft.follows(name)):
            others = [self._draft.leader(slot), *(n for n in self._draft.followers(slot) if n != follower)]
            if self._zones.has_room(target, others):
                return follower
        return None

    def _promote(self, slot: int, heir: str, why: str) -> None:
        demoted = self._draft.leader(slot)
        assert demoted is not None
        self._draft.lead(slot, heir, why)
        self._count(demoted, heir)

    def _count(self, source: str, target: str) -> None:
        self.surplus[source] -= 1
        self.surplus[target] += 1
        self._received[target] += 1

    def _why(self, source: str) -> str:
        return f"{source} leads {self._draft.leads(source)}, its share is {self._quotas.wanted[source]}"
