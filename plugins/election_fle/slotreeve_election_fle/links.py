"""Which peers a server exchanges messages with in both directions (docs/fle.md, section 3). Pure.

A connection may stay open although nothing arrives any more, or in one direction only. A server that cannot hear a
quorum, or that a quorum cannot hear, cannot lead; if it stood all the same, the others would elect it again and again.
"""

from __future__ import annotations

from collections.abc import Collection

BEAT_SECONDS = 0.2
"""Pause between two reports of whom a server hears, while it knows no leader."""
WINDOW_SECONDS = 1.0
"""Age from which on what was heard of a peer says nothing about its link any more."""
SILENT_BEATS = 15
SILENT_SECONDS = SILENT_BEATS * BEAT_SECONDS
"""A connection over which nothing has arrived for so many beats is made again. After a fault that lost packets, TCP is
silent for about as long as the fault has lasted. Beats are counted, as this process may stand still between two."""


class TwoWayLinks:
    """The links of the server ``sid`` to its peers."""

    def __init__(self, sid: int) -> None:
        self._sid = sid
        self._heard: dict[int, float] = {}
        self._is_heard: dict[int, float] = {}
        self._silent_beats: dict[int, int] = {}

    def heard(self, peer: int, now: float) -> None:
        """Something has arrived from a peer."""
        self._heard[peer] = now
        self._silent_beats.pop(peer, None)

    def begin(self) -> None:
        """Peers report from now on. Before, a link was silent where there was nothing to say."""
        self._silent_beats.clear()

    def beat_passed(self, peer: int) -> bool:
        """One more beat has passed. Whether nothing has arrived from the peer for :data:`SILENT_BEATS`."""
        self._silent_beats[peer] = beats = self._silent_beats.get(peer, 0) + 1
        return beats > SILENT_BEATS

    def told(self, peer: int, hears: Collection[int], now: float) -> None:
        """A peer reports from whom it has received something lately."""
        if self._sid in hears:
            self._is_heard[peer] = now

    def left(self, peer: int) -> None:
        """The connection to a peer has ended."""
        for known in (self._heard, self._is_heard, self._silent_beats):
            known.pop(peer, None)

    def hears(self, now: float) -> list[int]:
        """The peers from which something has arrived lately."""
        return sorted(peer for peer, at in self._heard.items() if now - at < WINDOW_SECONDS)

    def is_two_way(self, peer: int, now: float) -> bool:
        """Whether messages have passed in both directions lately."""
        oldest = now - WINDOW_SECONDS
        return self._heard.get(peer, oldest) > oldest and self._is_heard.get(peer, oldest) > oldest
