"""Bugs of the FLE election, each a patch of one or two methods, that the election suite must find."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from unittest.mock import PropertyMock

import msgspec
from slotreeve_election_fle import identity, looking, refusals
from slotreeve_election_fle.disk_order import DiskOrder
from slotreeve_election_fle.effects import Send, Written
from slotreeve_election_fle.events import Received, WriteAsked
from slotreeve_election_fle.following import Following
from slotreeve_election_fle.identity import Identity, Owner
from slotreeve_election_fle.leading import Leading
from slotreeve_election_fle.learners import Learner, Learners, LearnerStage
from slotreeve_election_fle.lease import Promise
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.looking import Looking
from slotreeve_election_fle.member import Member
from slotreeve_election_fle.messages import Greeting, Notification, PeerPong
from slotreeve_election_fle.proposals import Proposals
from slotreeve_election_fle.records import IdentityRecord
from slotreeve_election_fle.timing import FleTiming
from slotreeve_election_fle.unled import Unled
from slotreeve_election_fle.vote import Vote

from tests.conformance.election_bugs import Patch, both, bug, replaced

FLE = "fle"

# --- votes and epochs ------------------------------------------------------------------------------------------------


@bug(FLE, "a vote of an older round is counted")
def _older_round_vote_counted() -> Patch:
    original = Looking._count_looking

    def count(self: Looking, sid: int, vote: Vote, now: float) -> Iterator[Any]:
        if vote.round < self.round:
            vote = msgspec.structs.replace(vote, round=self.round)
        return original(self, sid, vote, now)

    return both(
        replaced(Looking, "_count_looking", count),
        replaced(looking, "supporters", lambda votes, vote: {s for s, v in votes.items() if v.leader == vote.leader}),
    )


@bug(FLE, "an accepted epoch is kept in memory only")
def _accepted_epoch_not_durable() -> Patch:
    def accept(self: Ledger, epoch: int) -> list[Any]:
        self.accepted_epoch = epoch
        return []

    def enter(self: Ledger, epoch: int) -> list[Any]:
        self.current_epoch = epoch
        return []

    return both(replaced(Ledger, "accept", accept), replaced(Ledger, "enter", enter))


@bug(FLE, "an epoch that was accepted from another candidate is acknowledged and counted again")
def _known_epoch_counted() -> Patch:
    original = Leading._epoch_acked

    def acked(self: Leading, learner: Learner, ack: Any, now: float) -> Iterator[Any]:
        return original(self, learner, msgspec.structs.replace(ack, counted=True), now)

    return both(
        replaced(Leading, "_epoch_acked", acked),
        replaced(
            "slotreeve_election_fle.handshake:EpochProposal", "proposal", lambda self: self._reports[self._sid] + 1
        ),
    )


@bug(FLE, "the shortest history wins an election, and is not compared again in the handshake")
def _shortest_history_wins() -> Patch:
    def outranks(new: Vote, current: Vote) -> bool:
        return (-new.zxid, new.leader) > (-current.zxid, current.leader)

    original = Leading._epoch_acked

    def acked(self: Leading, learner: Learner, ack: Any, now: float) -> Iterator[Any]:
        return original(self, learner, msgspec.structs.replace(ack, current_epoch=0, last_zxid=0), now)

    return both(replaced(looking, "outranks", outranks), replaced(Leading, "_epoch_acked", acked))


@bug(FLE, "a server that has lost its directory votes as if it had not")
def _lost_directory_votes() -> Patch:
    return replaced(Identity, "trusts", lambda _self, _sid, _peer: True)


# --- leases ----------------------------------------------------------------------------------------------------------


@bug(FLE, "after a restart a server does not keep the promise that it may have given before")
def _no_promise_after_restart() -> Patch:
    def start(self: Member, now: float) -> Iterator[Any]:
        return self._look(now)

    return replaced(Member, "_start", start)


@bug(FLE, "the lease is counted from the receipt of an answer")
def _lease_from_receipt() -> Patch:
    original = Leading._receive

    def receive(self: Leading, learner: Learner, message: Any, now: float) -> Iterator[Any]:
        if isinstance(message, PeerPong):
            self._pings[message.number] = now
        return original(self, learner, message, now)

    return replaced(Leading, "_receive", receive)


@bug(FLE, "the first lease is counted from the receipt of the acknowledged history")
def _first_lease_from_receipt() -> Patch:
    original = Leading._history_acked

    def acked(self: Leading, learner: Learner, ack: Any, now: float) -> Iterator[Any]:
        learner.sent_at = now
        return original(self, learner, ack, now)

    return replaced(Leading, "_history_acked", acked)


@bug(FLE, "a follower makes no promise")
def _follower_promises_nothing() -> Patch:
    def again(self: Following, now: float) -> None:
        self._gives_up_at = now + self._timing.promise

    return replaced(Following, "_promise_again", again)


@bug(FLE, "promises hold nothing back")
def _promises_do_not_bind() -> Patch:
    return replaced(Promise, "free_at", lambda _self, _candidate: 0.0)


@bug(FLE, "a promise is shorter than the lease that rests on it")
def _short_promise() -> Patch:
    return replaced(FleTiming, "promise", property(lambda self: 0.5 * self.lease))


@bug(FLE, "a leader whose connection has ended counts as dead")
def _lost_connection_is_death() -> Patch:
    original = Member._disconnected

    def disconnected(self: Member, sid: int, now: float) -> Iterator[Any]:
        self._promise.release(sid)
        return original(self, sid, now)

    return replaced(Member, "_disconnected", disconnected)


@bug(FLE, "any vote of a leader ends the promise to it, also one that reports it as leading")
def _any_vote_ends_the_promise() -> Patch:
    original = Member._handle

    def handle(self: Member, event: Any, now: float) -> Iterator[Any]:
        if isinstance(event, Received) and isinstance(event.message, Notification):
            self._promise._holders.clear()
        return original(self, event, now)

    return replaced(Member, "_handle", handle)


@bug(FLE, "a candidate does not keep its own promise")
def _candidate_breaks_its_promise() -> Patch:
    original = Leading.__init__

    def init(
        self: Leading, sid: int, quorum: Any, ledger: Any, promise: Any, timing: Any, proposal: Any = None
    ) -> None:
        original(self, sid, quorum, ledger, Promise(), timing, proposal)

    return replaced(Leading, "__init__", init)


# --- writes ----------------------------------------------------------------------------------------------------------


@bug(FLE, "a write is committed once the leader alone has it")
def _commit_without_majority() -> Patch:
    return replaced(Learners, "quorum_zxid", lambda _self, last_zxid: last_zxid)


@bug(FLE, "one acknowledgement counts for everything that was sent")
def _one_acknowledgement_for_all() -> Patch:
    original = Learner.acknowledge

    def acknowledge(self: Learner, zxid: int, last_zxid: int, now: float) -> None:
        original(self, last_zxid, last_zxid, now)

    return replaced(Learner, "acknowledge", acknowledge)


@bug(FLE, "a follower acknowledges a proposal before its disk has it")
def _acknowledged_before_logged() -> Patch:
    original = Following._proposed

    def proposed(self: Following, propose: Any) -> Iterator[Any]:
        effects = list(original(self, propose))
        yield from sorted(effects, key=lambda effect: not isinstance(effect, Send))

    return replaced(Following, "_proposed", proposed)


@bug(FLE, "a leader commits before its own disk has the write")
def _committed_before_logged() -> Patch:
    original = Leading._send_batch

    def send_batch(self: Leading, now: float) -> Iterator[Any]:
        self._learners._active_voters = list  # type: ignore[method-assign]
        try:
            with replaced(Learners, "quorum_zxid", lambda _self, last_zxid: last_zxid):
                effects = list(original(self, now))
        finally:
            del self._learners._active_voters
        yield from sorted(effects, key=lambda effect: not isinstance(effect, Written))

    return replaced(Leading, "_send_batch", send_batch)


@bug(FLE, "a follower acknowledges the leader's history before its disk has it")
def _history_acknowledged_before_logged() -> Patch:
    original = Following._history_complete

    def complete(self: Following, end: Any, now: float) -> Iterator[Any]:
        effects = list(original(self, end, now))
        yield from sorted(effects, key=lambda effect: not isinstance(effect, Send))

    return replaced(Following, "_history_complete", complete)


@bug(FLE, "what depends on a write to the disk does not wait for it")
def _nothing_waits_for_the_disk() -> Patch:
    original = DiskOrder.take

    def take(self: DiskOrder, is_pending: bool) -> Any:
        if is_pending and self._waiting and isinstance(self._waiting[0], Send | Written):
            return self._waiting.popleft()
        return original(self, is_pending)

    return replaced(DiskOrder, "take", take)


@bug(FLE, "a leader leads before a quorum has its history")
def _leads_without_a_quorum_of_histories() -> Patch:
    original = Learners.is_quorum

    def is_quorum(self: Learners, zxid: int = 0) -> bool:
        return True if zxid == 0 else original(self, zxid)

    return both(
        replaced(Learners, "is_quorum", is_quorum),
        replaced(Learners, "renewed_at", lambda self: max((x.answered_at for x in self.at_stage()), default=None)),
    )


@bug(FLE, "a new leader does not commit what it has logged before it serves")
def _serves_before_its_history_is_committed() -> Patch:
    original = Leading._settle_leadership

    def settle(self: Leading, now: float) -> Iterator[Any]:
        with replaced(Leading, "_commit", lambda _self, _zxid: iter(())):
            effects = list(original(self, now))
        yield from effects

    return replaced(Leading, "_settle_leadership", settle)


@bug(FLE, "an expected version is compared with the committed one, not with those under way")
def _writes_under_way_not_counted() -> Patch:
    def version(self: Proposals, key: str) -> int:
        held = self._ledger.table.get(key)
        return 0 if held is None else held.version

    return replaced(Proposals, "_version", version)


@bug(FLE, "the expected version is not looked at")
def _any_version_will_do() -> Patch:
    original = Proposals.ask

    def ask(self: Proposals, write: WriteAsked) -> Any:
        return original(self, WriteAsked(write.token, write.key, write.value, None, write.term))

    return replaced(Proposals, "ask", ask)


@bug(FLE, "the term of a writer is not looked at")
def _any_term_will_do() -> Patch:
    original = refusals.refusal

    def refusal(asked: WriteAsked, role: object, term: int, now: float) -> Exception | None:
        under = role.epoch if isinstance(role, Leading) else asked.term
        return original(WriteAsked(asked.token, asked.key, asked.value, asked.expected_version, under), role, term, now)

    return replaced("slotreeve_election_fle.member", "refusal", refusal)


@bug(FLE, "at the end of a term the writes under way are answered as stored")
def _abandoned_writes_are_stored() -> Patch:
    original = Proposals.abandon

    def abandon(self: Proposals, cause: str) -> Any:
        stored = [Written(waiting.token, waiting.entry.version) for waiting in [*self._batch, *self._queue]]
        original(self, cause)
        return stored

    return replaced(Proposals, "abandon", abandon)


@bug(FLE, "a conflict with a write under way is answered before that one is sure")
def _early_conflict() -> Patch:
    original = Proposals.ask

    def ask(self: Proposals, write: WriteAsked) -> Any:
        refused = original(self, write)
        return self._conflicts.pop()[1] if self._conflicts else refused

    return replaced(Proposals, "ask", ask)


@bug(FLE, "a follower logs a proposal although it lacks the one before")
def _logs_with_gaps() -> Patch:
    original = Following._proposed

    def proposed(self: Following, propose: Any) -> Iterator[Any]:
        return original(self, msgspec.structs.replace(propose, previous_zxid=self._ledger.last_zxid))

    return replaced(Following, "_proposed", proposed)


@bug(FLE, "an established leader that has lost its quorum goes on to answer reads and writes")
def _leads_on_without_a_quorum() -> Patch:
    return both(
        replaced(Leading, "valid_until", PropertyMock(return_value=float("inf"))),
    )


# --- directories and links -------------------------------------------------------------------------------------------


@bug(FLE, "a new directory has a vote from the beginning")
def _new_directory_votes() -> Patch:
    original = identity.new_identity

    def with_vote(owner: Owner, rng: random.Random) -> IdentityRecord:
        return msgspec.structs.replace(original(owner, rng), may_vote=True, is_new=False)

    return both(
        replaced("slotreeve_election_fle.disk", "new_identity", with_vote),
        replaced(Identity, "trusts", _trusts_as_before),
    )


def _trusts_as_before(self: Identity, sid: int, peer: Greeting) -> bool:
    known = self._held.peers.get(sid)
    if known is None:
        return True
    if known.directory == peer.directory:
        return peer.accepted_epoch >= self._highest_accepted.get(sid, 0)
    return peer.admitted_term > 0 and peer.admitted_term >= known.admitted_term


@bug(FLE, "a directory is taken whosever it is")
def _any_directory_will_do() -> Patch:
    return both(
        replaced("slotreeve_election_fle.disk", "check_identity", lambda _held, _owner, _path: None),
        replaced(Identity, "_other_owner", lambda _self, _sid, _directory: ""),
    )


@bug(FLE, "a voter that awaits admission counts for lease and commit")
def _counts_before_admission() -> Patch:
    return replaced(Learners, "_active_voters", lambda self: self.at_stage(LearnerStage.ACTIVE))


@bug(FLE, "a server stands for election although it hears no quorum, or is not heard by one")
def _stands_without_links() -> Patch:
    return replaced(Unled, "may_stand", lambda _self, _now: True)


@bug(FLE, "a server that sees the leader alone does not join it")
def _never_joins_a_leader_alone() -> Patch:
    return replaced(Looking, "_claims", lambda _self, _sid, _vote: False)
