"""What a server does about its links while it knows no leader. Pure. docs/fle.md, sections 3 and 5.2.

It tells its peers whom it hears, and so they find out with whom they exchange messages in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotreeve_machines.driver import NEVER

from slotreeve_election_fle.effects import HangUp, Send
from slotreeve_election_fle.links import BEAT_SECONDS, SILENT_SECONDS, WINDOW_SECONDS, TwoWayLinks
from slotreeve_election_fle.messages import Hears
from slotreeve_election_fle.peers import GreetedPeers
from slotreeve_election_fle.quorum import Quorum


class Unled:
    """How long the server ``sid`` has known no leader, and which peers count for it meanwhile.

    In the first moments of an election it takes every connection for a link: mostly that is true, and saves the
    election a round trip. After :data:`.links.WINDOW_SECONDS` without a leader only what was heard lately counts.

    Attributes:
        links: the links to the peers.
    """

    def __init__(self, sid: int, quorum: Quorum, peers: GreetedPeers) -> None:
        self._sid, self._quorum, self._peers = sid, quorum, peers
        self._since: float | None = None
        self._next_beat = NEVER
        self.links = TwoWayLinks(sid)

    def begin(self, now: float) -> None:
        """No leader is known from now on."""
        self._since, self._next_beat = now, now + BEAT_SECONDS
        self.links.begin()

    def end(self) -> None:
        """A leader is established."""
        self._since, self._next_beat = None, NEVER

    @property
    def deadline(self) -> float:
        """When the next beat is due."""
        return self._next_beat

    def beat(self, now: float) -> bool:
        """Whether a beat is due; the next one follows."""
        if now < self._next_beat:
            return False
        self._next_beat = now + BEAT_SECONDS
        return True

    def look_at(self, peer: int, now: float) -> Iterator[Send | HangUp]:
        """With each beat: report to a member, or have the connection made again over which it says nothing."""
        greeting = self._peers.greeting(peer)
        if greeting is not None and greeting.tells and self.links.beat_passed(peer):
            yield HangUp(peer, f"nothing has arrived from it for {SILENT_SECONDS:g} s")
        else:
            yield from self.report(peer, now)

    def report(self, peer: int, now: float) -> Iterator[Send]:
        """To a member: whom this server hears; and the question whom that one hears, while no leader is known. One of
        an earlier version would not understand it, and say so in its log each time."""
        greeting = self._peers.greeting(peer)
        if greeting is not None and greeting.tells:
            yield Send(peer, Hears(self.links.hears(now), asks=self._since is not None))

    def waits_for(self, now: float) -> str:
        """What keeps this server without a leader, for people; empty where nothing is known."""
        if not self.is_lasting(now):
            return ""
        return self._peers.waits_for()

    def is_lasting(self, now: float) -> bool:
        """Whether no leader was known for so long that connections prove nothing."""
        return self._since is not None and now - self._since >= WINDOW_SECONDS

    def is_linked(self, peer: int, now: float) -> bool:
        """Whether a peer that is connected counts as one that hears this server, and that it hears."""
        greeting = self._peers.greeting(peer)
        if greeting is None:
            return False
        return not self.is_lasting(now) or not greeting.tells or self.links.is_two_way(peer, now)

    def may_stand(self, now: float) -> bool:
        """Whether this server could lead, as far as its links go."""
        if not self.is_lasting(now):
            return True
        return self._quorum.contains({self._sid} | {peer for peer in self._peers if self.is_linked(peer, now)})
