"""A draft: a slot table that an assigner or balancer changes (original: ``SlotTableBuilder``).

A draft keeps an index (server to slots) and rankings of the servers up to date with every change, and records every
change as a :class:`Move` with its reason::

    draft = Draft(table, servers)
    poorest = next(draft.least_followers())
    draft.follow(7, poorest, "slot 7 lacks a follower")
    return draft.plan()
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence, Set

from slotreeve.errors import ModelError
from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Move, Slot, SlotTable


class Draft:
    """A slot table that can be changed.

    A server that is in the table but not among ``servers`` has left. It loses all its slots at once: the draft records
    a ``drop`` for each slot it followed, and each slot it led has no leader until :meth:`lead` is called.
    All methods that return servers in an order break ties by name.
    """

    def __init__(self, table: SlotTable, servers: Sequence[Server]) -> None:
        self._table = table
        self._servers = tuple(sorted(server.name for server in servers))
        self._leaders: list[str | None] = [slot.leader for slot in table.slots]
        self._followers = [list(slot.followers) for slot in table.slots]
        self._led: dict[str, set[int]] = {name: set() for name in self._servers}
        self._followed: dict[str, set[int]] = {name: set() for name in self._servers}
        self._departed: dict[int, str] = {}
        self._changed: set[int] = set()
        self._moves: list[Move] = []
        led, followed = self._led, self._followed
        for slot in table.slots:
            if slot.leader in led:
                led[slot.leader].add(slot.id)
            elif slot.leader is not None:
                self._leaders[slot.id] = None
                self._departed[slot.id] = slot.leader
                self._changed.add(slot.id)
            for name in slot.followers:
                if name in followed:
                    followed[name].add(slot.id)
                else:
                    self._followers[slot.id].remove(name)
                    self._record(slot.id, "drop", name, None, f"{name} left")
        ranks, highest = self._servers, len(table.slots)
        self._by_leaders = _Ranking({name: (len(led[name]), len(followed[name])) for name in ranks}, highest)
        self._by_followers = _Ranking({name: (len(followed[name]), len(led[name])) for name in ranks}, highest)

    # --- reading -------------------------------------------------------------------------------------------------

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the live servers, sorted."""
        return self._servers

    @property
    def slots(self) -> range:
        """The slot ids."""
        return range(len(self._leaders))

    @property
    def moves(self) -> tuple[Move, ...]:
        """Every change so far, in order."""
        return tuple(self._moves)

    def leader(self, slot: int) -> str | None:
        """The leader of the slot; None if it has none."""
        return self._leaders[slot]

    def departed_leader(self, slot: int) -> str | None:
        """The server that led the slot and has left; None once the slot has a leader again."""
        return self._departed.get(slot)

    def followers(self, slot: int) -> Sequence[str]:
        """The followers of the slot, in the order in which they were added. Not a copy: it changes with the draft."""
        return self._followers[slot]

    def leads(self, server: str) -> int:
        """How many slots the server leads."""
        return len(self._led[server])

    def follows(self, server: str) -> int:
        """How many slots the server follows."""
        return len(self._followed[server])

    def led_by(self, server: str) -> Set[int]:
        """The slots that the server leads. Not a copy."""
        return self._led[server]

    def followed_by(self, server: str) -> Set[int]:
        """The slots that the server follows. Not a copy."""
        return self._followed[server]

    def holds(self, server: str, slot: int) -> bool:
        """Whether the server leads or follows the slot."""
        return slot in self._led[server] or slot in self._followed[server]

    def least_leaders(self) -> Iterator[str]:
        """Servers by number of slots led, then followed, fewest first. Do not change the draft while iterating."""
        return self._by_leaders.fewest_first()

    def most_leaders(self) -> Iterator[str]:
        """Servers by number of slots led, then followed, most first."""
        return self._by_leaders.most_first()

    def least_followers(self) -> Iterator[str]:
        """Servers by number of slots followed, then led, fewest first."""
        return self._by_followers.fewest_first()

    def most_followers(self) -> Iterator[str]:
        """Servers by number of slots followed, then led, most first."""
        return self._by_followers.most_first()

    # --- changing ------------------------------------------------------------------------------------------------

    def lead(self, slot: int, server: str, reason: str, demoted_follows: bool = True) -> None:
        """Make ``server`` the leader.

        If it followed the slot and ``demoted_follows``, the former leader becomes a follower, so that no data is copied
        and no copy is lost. Otherwise the former leader loses the slot.

        Raises:
            ModelError: the server leads the slot already, or is not live.
        """
        before, followed = self._leaders[slot], slot in self._followed.get(server, ())
        if before == server or server not in self._led:
            raise ModelError(f"{server} cannot become leader of slot {slot}: it is not live, or leads it already")
        if followed:
            self._remove_follower(slot, server)
        if before is not None:
            self._led[before].remove(slot)
            self._count(before, -1, 0)
        self._leaders[slot] = server
        self._led[server].add(slot)
        self._count(server, 1, 0)
        self._record(slot, "leader", before or self._departed.pop(slot, None), server, reason)
        if followed and before is not None and demoted_follows:
            self.follow(slot, before, f"it led the slot until {server} took over")

    def follow(self, slot: int, server: str, reason: str, instead_of: str | None = None) -> None:
        """Make ``server`` a follower, in the place of ``instead_of`` if that is given.

        Raises:
            ModelError: the server holds the slot already or is not live, or ``instead_of`` does not follow it.
        """
        if server not in self._led or self.holds(server, slot):
            raise ModelError(f"{server} cannot become follower of slot {slot}: it is not live, or holds it already")
        if instead_of is not None:
            self._remove_follower(slot, instead_of)
        self._followers[slot].append(server)
        self._followed[server].add(slot)
        self._count(server, 0, 1)
        self._record(slot, "follower", instead_of, server, reason)

    def unfollow(self, slot: int, server: str, reason: str) -> None:
        """Remove a follower without replacing it.

        Raises:
            ModelError: it does not follow the slot.
        """
        self._remove_follower(slot, server)
        self._record(slot, "drop", server, None, reason)

    def _remove_follower(self, slot: int, server: str) -> None:
        followers = self._followers[slot]
        if server not in followers:
            raise ModelError(f"{server} does not follow slot {slot}; its followers: {', '.join(followers) or 'none'}")
        followers.remove(server)
        self._followed[server].remove(slot)
        self._count(server, 0, -1)

    def _count(self, server: str, leaders: int, followers: int) -> None:
        self._by_leaders.shift(server, leaders, followers)
        self._by_followers.shift(server, followers, leaders)

    def _record(self, slot: int, kind: str, source: str | None, target: str | None, reason: str) -> None:
        self._changed.add(slot)
        self._moves.append(Move(slot, kind, source, target, reason))

    # --- results -------------------------------------------------------------------------------------------------

    def table(self) -> SlotTable:
        """The table as it is now, with the epochs of the input."""
        slots = list(self._table.slots)
        for i in self._changed:
            slots[i] = Slot(i, self._leaders[i], slots[i].leader_epoch, tuple(self._followers[i]))
        return SlotTable(self._table.epoch, tuple(slots))

    def plan(self) -> Plan | None:
        """The table and the moves that led to it; None if nothing was changed."""
        return Plan(self.table(), self.moves) if self._moves else None

    def restart(self, table: SlotTable) -> None:
        """Forget the recorded moves and go on from ``table``, which must be what :meth:`table` has just returned. This
        is cheaper than a new draft, which indexes every slot."""
        self._table = table
        self._moves.clear()
        self._changed.clear()


class _Ranking:
    """Names in the order of (first count, second count, name), which is kept as the counts change.

    Each name is one number in a sorted list: ``(first * base + second) * names + position of the name``.
    """

    def __init__(self, counts: dict[str, tuple[int, int]], highest: int) -> None:
        self._names = sorted(counts)
        self._base = highest + 2
        self._places = {
            name: (counts[name][0] * self._base + counts[name][1]) * len(counts) + position
            for position, name in enumerate(self._names)
        }
        self._order = sorted(self._places.values())

    def shift(self, name: str, first: int, second: int) -> None:
        """Add ``first`` and ``second`` to the counts of ``name``."""
        order, place = self._order, self._places[name]
        del order[bisect_left(order, place)]
        place += (first * self._base + second) * len(self._names)
        self._places[name] = place
        insort(order, place)

    def fewest_first(self) -> Iterator[str]:
        """Names by counts ascending, ties by name."""
        names = self._names
        return (names[place % len(names)] for place in self._order)

    def most_first(self) -> Iterator[str]:
        """Names by counts descending, ties by name (ascending)."""
        names, order, end = self._names, self._order, len(self._order)
        while end:
            start = bisect_left(order, order[end - 1] // len(names) * len(names))
            for place in order[start:end]:
                yield names[place % len(names)]
            end = start
