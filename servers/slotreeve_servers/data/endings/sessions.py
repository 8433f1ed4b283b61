"""The session servers as one data server sees them: the members of the view, those that are connected, and those that
are gone (original: ``SessionLeaseManager``). Pure: time is an argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from slotreeve.model.nodes import Node

from slotreeve_servers.node.outbox import Peer

LINK_SILENCE_SECONDS = 3.0
"""A connected session process from which nothing arrived for so long counts as not linked."""


class SessionServers:
    """Session processes by id.

    A process is *gone* once it has left the view and is not linked any more either. A session server that is cut off
    from the meta servers alone leaves the view, but what its clients publish still arrives over its link: it is not
    gone.

    Args:
        current_seconds: the view counts as current for so long after the meta leader has confirmed it.

    Attributes:
        members: the process ids of the newest view, in its order.
        confirmed_at: when this server last asked the meta leader for a newer view and got an answer, by its own clock.
    """

    def __init__(self, current_seconds: float = math.inf) -> None:
        self._current_seconds = current_seconds
        self.members: tuple[str, ...] = ()
        self.confirmed_at = -math.inf
        self._former: set[str] = set()
        self._opened = 0
        self._peers: dict[Peer, int] = {}
        # Those with records here that are no members, and whether they are gone: they may still be linked.
        self._missing: dict[str, bool] = {}

    def is_current(self, now: float) -> bool:
        """Whether the members are those that the meta leader has, as far as is known. After this server stood still,
        or while it does not reach the meta leader, a session server may have joined that it does not know."""
        return now - self.confirmed_at <= self._current_seconds

    # --- members and connections -------------------------------------------------------------------------------------

    def view_changed(self, nodes: Iterable[Node]) -> list[str]:
        """A newer view has arrived. Returns the processes that were missing and are members again."""
        before, self.members = self.members, tuple([node.process_id for node in nodes])
        connected = {peer.process_id for peer in self._peers}
        self._former = {process_id for process_id in (*self._former, *before) if process_id in connected}
        back = [process_id for process_id in self._missing if process_id in self.members]
        for process_id in back:
            del self._missing[process_id]
        self.suspect(set(before).difference(self.members))
        return back

    def opened(self, peer: Peer) -> None:
        """A session server has connected."""
        self._opened += 1
        self._peers[peer] = self._opened

    def closed(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        self._peers.pop(peer, None)

    def number(self, peer: Peer) -> int:
        """The number of an open connection: they are counted from 1, in the order in which they opened."""
        return self._peers[peer]

    def newest(self, process_id: str) -> Peer | None:
        """The newest connection of a session process; None where it has none."""
        return next((peer for peer in reversed(self._peers) if peer.process_id == process_id), None)

    @property
    def connections(self) -> list[Peer]:
        """Every connection of a session server, the oldest one first."""
        return list(self._peers)

    def connected_strangers(self) -> dict[str, Peer]:
        """The session processes that are connected and no members, each with its newest connection: the meta leader has
        dropped them, or has not taken them yet."""
        return {peer.process_id: peer for peer in self._peers if peer.process_id not in self.members}

    def with_clients(self) -> Mapping[str, Peer | None]:
        """The processes at which clients may be or wait: the members, and former ones that are still connected. Those
        are cut off from the meta leader, or frozen. Each with its newest connection, or None where it has none."""
        newest = {peer.process_id: peer for peer in self._peers}
        members = {process_id: newest.get(process_id) for process_id in self.members}
        return {**members, **{p: peer for p, peer in self.connected_strangers().items() if p in self._former}}

    # --- those that are gone -----------------------------------------------------------------------------------------

    def suspect(self, processes: Iterable[str]) -> None:
        """These processes have records here and are no members."""
        for process_id in processes:
            self._missing.setdefault(process_id, False)

    def look(self, is_linked: Callable[[str], bool]) -> tuple[list[str], list[str]]:
        """Note which of the missing ones are not linked. Returns those that have just gone, and those that are linked
        again, each sorted."""
        gone: list[str] = []
        back: list[str] = []
        for process_id, was_gone in sorted(self._missing.items()):
            is_gone = self._missing[process_id] = not is_linked(process_id)
            if is_gone and not was_gone:
                gone.append(process_id)
            elif was_gone and not is_gone:
                back.append(process_id)
        return gone, back

    def is_gone(self, process_id: str) -> bool:
        """Whether a process is gone."""
        return self._missing.get(process_id, False)

    @property
    def gone(self) -> set[str]:
        """The processes that are gone."""
        return {process_id for process_id, is_gone in self._missing.items() if is_gone}

    def forget(self, processes: Iterable[str]) -> None:
        """Nothing of these processes is here any more: it does not matter whether they come back."""
        for process_id in processes:
            del self._missing[process_id]
