"""The balancer ``default`` (original: ``DefaultSlotBalancer``, ``LeaderOnlyBalancer``).

A step is the first of these stages that finds something to move:

1. upgrade: a server that leads more slots than the high-water mark hands some to their followers;
2. migrate: if it cannot, followers of its slots are replaced by servers that may lead more, for stage 1 of the next
step; 3. high followers: a server that follows more slots than the high-water mark hands some to others;
4. low followers: a server that follows fewer slots than the low-water mark gets some from others;
5. low leaders: a server that leads fewer slots than the low-water mark takes over slots that it follows.

With one replica there are no followers. Leaders then move from servers above the high-water mark to the servers that
lead the fewest slots.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from slotreeve import Draft, Limits, Plan, Server, SlotTable

from slotreeve_balancer.options import DefaultBalancerOptions
from slotreeve_balancer.water_marks import ceil_average, high_water_mark, low_water_mark


class DefaultBalancer:
    """The balancer ``default``. Where the original breaks ties by hash order, this one breaks them by name.

    It keeps the draft of the table that it returned last. The next step usually starts from that table, and then does
    not have to index all its slots again.
    """

    def __init__(self, options: DefaultBalancerOptions, demoted_follows: bool) -> None:
        self._options, self._demoted_follows = options, demoted_follows
        self._last: tuple[SlotTable, Draft] | None = None

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        """See :meth:`slotreeve.ports.Balancer.balance`. If former leaders leave their slots, as in the original, the
        result is not complete: a slot whose leader changed lacks a follower until the assigner adds one."""
        draft = self._draft_of(table, servers)
        step = _Step(draft, limits.replicas, self._options, self._demoted_follows)
        for stage in step.stages():
            if stage():
                plan = draft.plan()
                if plan is not None:
                    self._last = (plan.table, draft)
                return plan
        return None

    def _draft_of(self, table: SlotTable, servers: Sequence[Server]) -> Draft:
        last, self._last = self._last, None
        if last is not None and last[0] is table and last[1].servers == tuple(sorted(s.name for s in servers)):
            last[1].restart(table)
            return last[1]
        return Draft(table, servers)


class _Step:
    """One step on one draft. Every stage returns whether it moved anything."""

    def __init__(self, draft: Draft, replicas: int, options: DefaultBalancerOptions, demoted_follows: bool) -> None:
        self._draft, self._replicas, self._options = draft, replicas, options
        self._demoted_follows = demoted_follows
        servers, slots, percent = len(draft.servers), len(draft.slots), options.threshold_percent
        copies = slots * (replicas - 1)
        self._average_leaders = ceil_average(slots, servers)
        self._high_leaders = high_water_mark(self._average_leaders, percent)
        self._low_leaders = low_water_mark(slots // servers, percent)
        self._high_followers = high_water_mark(ceil_average(copies, servers), percent)
        self._low_followers = low_water_mark(copies // servers, percent)

    def stages(self) -> Sequence[Callable[[], bool]]:
        """The stages in their order."""
        if self._replicas < 2:
            return [self._leaders_only]
        return [
            self._upgrade_high_leaders,
            self._migrate_high_leaders,
            self._move_high_followers,
            self._move_low_followers,
            self._upgrade_low_leaders,
        ]

    # --- leaders -------------------------------------------------------------------------------------------------

    def _upgrade_high_leaders(self) -> bool:
        """As in the original, a round serves each server above the mark once, even beyond the limit of moves."""
        moved, helpless = 0, set[str]()
        while moved < self._options.max_leader_moves:
            before = moved
            high = self._leading_more_than(self._high_leaders)
            full = set(self._leading_more_than(self._high_leaders - 1))
            for server in high:
                found = None if server in helpless else self._heir(server, full)
                if found is None:
                    helpless.add(server)
                    continue
                heir, slot = found
                count = self._draft.leads(server)
                self._promote(slot, heir, f"{server} leads {count}, above the high-water mark {self._high_leaders}")
                moved += 1
            if moved == before:
                break
        return moved > 0

    def _heir(self, server: str, full: set[str]) -> tuple[str, int] | None:
        """The follower of the server's slots that leads the fewest slots, and the first slot that it can take."""
        slots: dict[str, int] = {}
        for slot in sorted(self._draft.led_by(server)):
            for follower in self._draft.followers(slot):
                if follower not in full:
                    slots.setdefault(follower, slot)
        return min(slots.items(), key=lambda item: self._load(item[0])) if slots else None

    def _upgrade_low_leaders(self) -> bool:
        moved, helpless = 0, set[str]()
        while moved < self._options.max_leader_moves:
            before = moved
            low = self._leading_less_than(self._low_leaders)
            poor = set(self._leading_less_than(self._low_leaders + 1))
            for server in low:
                slot = None if server in helpless else self._bequest(server, poor)
                if slot is None:
                    helpless.add(server)
                    continue
                count = self._draft.leads(server)
                self._promote(slot, server, f"{server} leads {count}, below the low-water mark {self._low_leaders}")
                moved += 1
            if moved == before:
                break
        return moved > 0

    def _bequest(self, server: str, poor: set[str]) -> int | None:
        """The first of the slots that the server follows whose leader leads the most slots."""
        slots: dict[str, int] = {}
        for slot in sorted(self._draft.followed_by(server)):
            leader = self._draft.leader(slot)
            if leader is not None and leader not in poor:
                slots.setdefault(leader, slot)
        if not slots:
            return None
        richest = min(slots, key=lambda name: (*(-count for count in self._load(name)[:2]), name))
        return slots[richest]

    def _promote(self, slot: int, heir: str, reason: str) -> None:
        self._draft.lead(slot, heir, reason, self._demoted_follows)

    def _leaders_only(self) -> bool:
        moved = 0
        excluding = high_water_mark(self._average_leaders - 1, self._options.threshold_percent)
        while moved < self._options.max_leader_moves:
            high = self._leading_more_than(self._high_leaders)
            full = {*high, *self._leading_more_than(excluding)}
            target = next((name for name in self._draft.least_leaders() if name not in full), None)
            if not high or target is None:
                break
            count = self._draft.leads(high[0])
            reason = f"{high[0]} leads {count}, above the high-water mark {self._high_leaders}"
            self._draft.lead(min(self._draft.led_by(high[0])), target, reason)
            moved += 1
        return moved > 0

    # --- followers -----------------------------------------------------------------------------------------------

    def _migrate_high_leaders(self) -> bool:
        """As in the original, a round serves each server above the mark once, even beyond the limit of moves."""
        moved = 0
        while moved < self._options.max_follower_moves:
            before = moved
            high = self._leading_more_than(self._high_leaders)
            full = set(self._leading_more_than(self._high_leaders - 1))
            targets = [name for name in self._draft.least_leaders() if name not in full]
            received: set[str] = set()
            for server in high:
                found = self._migration(server, targets, received)
                if found is None:
                    continue
                slot, follower, target = found
                self._draft.follow(slot, target, f"{server} leads too many, and {target} may lead more", follower)
                received.add(target)
                moved += 1
            if moved == before:
                break
        return moved > 0

    def _migration(self, server: str, targets: list[str], received: set[str]) -> tuple[int, str, str] | None:
        """A slot that the server leads, the follower to replace, and the server that replaces it."""
        followed: defaultdict[str, list[int]] = defaultdict(list)
        for slot in sorted(self._draft.led_by(server)):
            for follower in self._draft.followers(slot):
                if follower not in received:
                    followed[follower].append(slot)
        targets = sorted(targets, key=self._load)
        for follower in sorted(followed, key=self._followers_most_first):
            for slot in followed[follower]:
                for target in targets:
                    if target not in self._draft.followers(slot):
                        return slot, follower, target
        return None

    def _move_high_followers(self) -> bool:
        moved, mark = 0, self._high_followers
        while moved < self._options.max_follower_moves:
            found = next(filter(None, map(self._give, self._following_more_than(mark))), None)
            if found is None:
                break
            slot, source, target = found
            count = self._draft.follows(source)
            self._draft.follow(slot, target, f"{source} follows {count}, above the high-water mark {mark}", source)
            moved += 1
        return moved > 0

    def _give(self, source: str) -> tuple[int, str, str] | None:
        """The first slot of ``source`` that another server may follow, ``source``, and the least loaded such server."""
        for slot in sorted(self._draft.followed_by(source)):
            for target in self._draft.least_followers():
                if self._draft.follows(target) >= self._high_followers:
                    break
                if not self._draft.holds(target, slot):
                    return slot, source, target
        return None

    def _move_low_followers(self) -> bool:
        moved, mark = 0, self._low_followers
        while moved < self._options.max_follower_moves:
            found = next(filter(None, map(self._take, self._following_less_than(mark))), None)
            if found is None:
                break
            slot, source, target = found
            count = self._draft.follows(target)
            self._draft.follow(slot, target, f"{target} follows {count}, below the low-water mark {mark}", source)
            moved += 1
        return moved > 0

    def _take(self, target: str) -> tuple[int, str, str] | None:
        """The first slot that ``target`` can get from the most loaded follower, that follower, and ``target``."""
        for source in self._draft.most_followers():
            followed = self._draft.followed_by(source)
            if len(followed) <= self._low_followers:
                break
            takeable = followed - self._draft.followed_by(target) - self._draft.led_by(target)
            if takeable:
                return min(takeable), source, target
        return None

    # --- orders of servers -----------------------------------------------------------------------------------------

    def _load(self, name: str) -> tuple[int, int, str]:
        return self._draft.leads(name), self._draft.follows(name), name

    def _followers_most_first(self, name: str) -> tuple[int, int, str]:
        return -self._draft.follows(name), -self._draft.leads(name), name

    def _leading_more_than(self, count: int) -> list[str]:
        return list(takewhile(lambda name: self._draft.leads(name) > count, self._draft.most_leaders()))

    def _leading_less_than(self, count: int) -> list[str]:
        return list(takewhile(lambda name: self._draft.leads(name) < count, self._draft.least_leaders()))

    def _following_more_than(self, count: int) -> Iterator[str]:
        return takewhile(lambda name: self._draft.follows(name) > count, self._draft.most_followers())

    def _following_less_than(self, count: int) -> Iterator[str]:
        return takewhile(lambda name: self._draft.follows(name) < count, self._draft.least_followers())
