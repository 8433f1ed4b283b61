"""S86: two servers nominated at once, every interleaving of the handshake's messages, kills and restarts (bounded).

Leases are switched off (length 0): that no epoch gets two leaders must not rest on them.
"""

from __future__ import annotations

import copy
import random
from collections import deque

import pytest
from slotreeve_election_fle.effects import (
    AppendToLog,
    ReplaceLog,
    RoleEffect,
    RoleOver,
    SaveEpochs,
    SaveSnapshot,
    Send,
)
from slotreeve_election_fle.events import FollowerReported, PeerConnected, PeerDisconnected, Received
from slotreeve_election_fle.following import Following
from slotreeve_election_fle.leading import Leading
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.messages import EpochAck, FollowerInfo, RoleMessage
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import FleTiming
from slotreeve_machines.driver import Started
from slotreeve_machines.leadership import LeadershipChanged
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.durable import DurableLedger

VOTER, CANDIDATES = 1, (2, 3)
SERVERS = (VOTER, *CANDIDATES)
QUORUM = Quorum(SERVERS)
TIMING = FleTiming(lease=0.0)
MOST_STATES = 20_000
Action = tuple[str, int, int]


class Duel:
    """Server 1 votes for one of the candidates 2 and 3 at a time, both of which were nominated."""

    def __init__(self, kills: int, votes: int) -> None:
        self.kills, self.votes = kills, votes
        self.storages = {sid: MemoryStorage() for sid in SERVERS}
        self.ledgers = {sid: DurableLedger(self.storages[sid]) for sid in SERVERS}
        self.leading: dict[int, Leading] = {}
        self.following: Following | None = None
        self.wires: dict[tuple[int, int], deque[RoleMessage | None]] = {}
        self.established: list[tuple[int, int]] = []
        for sid in CANDIDATES:
            self._nominate(sid)

    def actions(self) -> list[Action]:
        found: list[Action] = [("deliver", source, to) for (source, to), wire in sorted(self.wires.items()) if wire]
        if self.votes:
            found += [("vote", VOTER, sid) for sid in CANDIDATES]
        if self.kills:
            found += [("kill", sid, 0) for sid in SERVERS]
        return found + [("nominate", sid, 0) for sid in CANDIDATES if sid not in self.leading]

    def act(self, action: Action) -> None:
        kind, sid, to = action
        if kind == "vote":
            self._vote(to)
        elif kind == "kill":
            self._kill(sid)
        elif kind == "nominate":
            self._nominate(sid)
        else:
            self._deliver(sid, to)

    def fingerprint(self) -> str:
        roles = [
            (
                sid,
                role.phase,
                role.epoch,
                sorted(map(repr, role._learners.at_stage())),
                sorted(role._proposal._acknowledged),
            )
            for sid, role in sorted(self.leading.items())
        ]
        voter = None if self.following is None else (self.following.leader, self.following.epoch, self.following.stage)
        epochs = [(ledger.accepted_epoch, ledger.current_epoch) for ledger in self.ledgers.values()]
        wires = sorted((ends, list(wire)) for ends, wire in self.wires.items() if wire)
        return repr((self.kills, self.votes, roles, voter, epochs, wires, self.established))

    def _nominate(self, sid: int) -> None:
        self.leading[sid] = Leading(sid, QUORUM, self.ledgers[sid], Promise(), TIMING)
        self._carry_out(sid, list(self.leading[sid].step(Started(), 0.0)))

    def _vote(self, leader: int) -> None:
        if self.following is not None:
            self._hang_up(VOTER, self.following.leader)
        self.votes -= 1  # counts down, and so differs between attempts
        self.following = Following(leader, self.votes, True, self.ledgers[VOTER], Promise(), TIMING)
        self._carry_out(VOTER, [*self.following.step(Started(), 0.0), *self.following.step(PeerConnected(leader), 0.0)])

    def _kill(self, sid: int) -> None:
        self.kills -= 1
        self.ledgers[sid] = DurableLedger(self.storages[sid])
        self.leading.pop(sid, None)
        for other in SERVERS:
            if other != sid:
                self._hang_up(sid, other)
        if sid == VOTER:
            self.following = None

    def _hang_up(self, sid: int, other: int) -> None:
        """What is under way to ``sid`` is lost; the other side learns of the end after what was sent before."""
        self.wires[other, sid] = deque()
        self.wires.setdefault((sid, other), deque()).append(None)

    def _deliver(self, source: int, to: int) -> None:
        message = self.wires[source, to].popleft()
        effects: list[RoleEffect] = []
        if to == VOTER:
            if self.following is not None and self.following.leader == source:
                event = PeerDisconnected(source) if message is None else Received(source, message)
                effects = list(self.following.step(event, 0.0))
        elif to in self.leading:
            if message is None:
                effects = list(self.leading[to].step(PeerDisconnected(source), 0.0))
            elif isinstance(message, FollowerInfo):
                effects = list(self.leading[to].step(FollowerReported(source, message, True), 0.0))
            else:
                effects = list(self.leading[to].step(Received(source, message), 0.0))
        self._carry_out(to, effects)

    def _carry_out(self, sid: int, effects: list[RoleEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    assert not isinstance(message, tuple)
                    if isinstance(message, EpochAck) and message.counted:
                        assert DurableLedger(copy.deepcopy(self.storages[sid])).accepted_epoch >= message.epoch
                    self.wires.setdefault((sid, to), deque()).append(message)  # type: ignore[arg-type]
                case SaveEpochs() | AppendToLog() | ReplaceLog() | SaveSnapshot():
                    self.ledgers[sid].save([effect])
                case LeadershipChanged(leader, term, True):
                    assert leader == sid
                    self._check_established(sid, term)
                case RoleOver():
                    self.leading.pop(sid, None)
                    if sid == VOTER:
                        self.following = None
                    return
                case _:
                    pass

    def _check_established(self, sid: int, term: int) -> None:
        for other, earlier in self.established:
            assert term != earlier, f"servers {other} and {sid} both lead in epoch {term}"
            assert term > earlier, f"epoch {term} was established after {earlier}"
        self.established.append((sid, term))


@pytest.mark.parametrize(("kills", "votes"), [(0, 3), (1, 2)])
def test_s86_no_interleaving_of_a_duel_gives_an_epoch_two_leaders(kills: int, votes: int) -> None:
    start = Duel(kills, votes)
    seen, frontier, established = {start.fingerprint()}, deque([start]), set()
    while frontier:
        duel = frontier.popleft()
        for action in duel.actions():
            following = copy.deepcopy(duel)
            following.act(action)
            established.update(following.established)
            fingerprint = following.fingerprint()
            if fingerprint not in seen:
                seen.add(fingerprint)
                frontier.append(following)
        assert len(seen) < MOST_STATES, "the exploration does not end"
    assert {sid for sid, _ in established} == set(CANDIDATES)


def test_s86_random_duels_that_go_further() -> None:
    most = 0
    for seed in range(400):
        rng, duel = random.Random(seed), Duel(kills=4, votes=12)
        for _ in range(80):
            actions = duel.actions()
            if not actions:
                break
            deliveries = [action for action in actions if action[0] == "deliver"]
            duel.act(rng.choice(deliveries if deliveries and rng.random() < 0.7 else actions))
        most = max(most, len(duel.established))
    assert most >= 2, "no random duel went through two leaderships"
