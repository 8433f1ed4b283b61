"""The session servers as one data server sees them: the members of the view, and those that are connected. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from slotreeve.model.nodes import Node

from slotreeve_servers.node.outbox import Peer

LINK_SILENCE_SECONDS = 3.0
"""A connected session process from which nothing arrived for so long counts as not linked."""


class SessionServers:
    """Session processes by id.

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

    def is_current(self, now: float) -> bool:
        """Whether the members are those that the meta leader has, as far as is known. After this server stood still,
        or while it does not reach the meta leader, a session server may have joined that it does not know."""
        return now - self.confirmed_at <= self._current_seconds

    def view_changed(self, nodes: Iterable[Node]) -> None:
        """A newer view has arrived."""
        before, self.members = self.members, tuple([node.process_id for node in nodes])
        connected = {peer.process_id for peer in self._peers}
        self._former = {process_id for process_id in (*self._former, *before) if process_id in connected}

    def opened(self, peer: Peer) -> None:
        """A session server has connected."""
        self._opened += 1
        self._peers[peer] = self._opened

    def closed(self, peer: Peer) -> None:
        """The connection to a session server has ended."""
        self._peers.pop(peer, None)

    def is_member(self, process_id: str) -> bool:
        """Whether a session process is a member."""
        return process_id in self.members

    def number(self, peer: Peer) -> int:
        """The number of an open connection: they are counted from 1, in the order in which they opened."""
        return self._peers[peer]

    def newest(self, process_id: str) -> Peer | None:
        """The newest connection of a session process; None where it has none."""
        return next((peer for peer in reversed(self._peers) if peer.process_id == process_id), None)

    def connections_of(self, process_id: str) -> list[Peer]:
        """Every connection of a session process, the oldest one first."""
        return [peer for peer in self._peers if peer.process_id == process_id]

    @property
    def connections(self) -> list[Peer]:
        """Every connection of a session server."""
        return list(self._peers)

    def connected_strangers(self) -> dict[str, Peer]:
        """The session processes that are connected and no members, each with its newest connection: the meta leader has
        dropped them, or has not taken them yet."""
        return {peer.process_id: peer for peer in self._peers if peer.process_id not in self.members}

    def with_clients(self) -> Mapping[str, Peer | None]:
        """The processes at which clients may be or wait: the members, and former ones that are still connected. Those
        are cut off from the meta leader, or frozen."""
        former = {p: peer for p, peer in self.connected_strangers().items() if p in self._former}
        return {**self.connected_members(), **former}

    def connected_members(self) -> Mapping[str, Peer | None]:
        """The members in the order of the view, each with its newest connection, or None where it has none."""
        newest = {peer.process_id: peer for peer in self._peers}
        return {process_id: newest.get(process_id) for process_id in self.members}
