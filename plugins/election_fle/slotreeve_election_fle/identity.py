"""Which data directory a peer has, and whether its vote may count (docs/fle.md, section 8.3). Pure.

A voter that lost its disk has forgotten its promises: were it to vote again as if new, an epoch could get two leaders
(docs/fle.md, S87). So every data directory has an identity, and every member remembers those of the others. A member
that turns up with another directory is refused as a voter, and takes part without a vote until an established leader
has brought it up to date.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
from slotreeve.errors import StorageError

from slotreeve_election_fle.effects import SaveIdentity
from slotreeve_election_fle.messages import FORMAT, Greeting
from slotreeve_election_fle.records import IdentityRecord, PeerRecord

MOST_FORMER = 64
"""Directories of one server that are remembered as replaced."""
CHANGE_ALL = (
    "to change them let the running cluster go over to a second election (docs/operating.md, 'Other meta servers'); or "
    "stop all meta servers, make the most advanced data directory of all the beginning of a new cluster with slotreeve "
    "election force-new-cluster, and start every one with a copy of it and the same configuration"
)


class Identity:
    """This server's directory, whether it may vote, and the directories of the others.

    As of the ledger, the methods that change something durable return the effects that make it so.
    """

    def __init__(self, record: IdentityRecord) -> None:
        self._held = record
        self._highest_accepted: dict[int, int] = {}

    @property
    def may_vote(self) -> bool:
        """Whether this server's votes count: not after a peer has remembered it with another directory, until it is
        admitted again."""
        return self._held.may_vote

    def greeting(self, accepted_epoch: int, observer: bool) -> Greeting:
        """The first message to a peer."""
        held = self._held
        return Greeting(
            FORMAT,
            held.members,
            held.directory,
            accepted_epoch,
            held.admitted_term,
            observer,
            held.weighing,
            held.ensemble,
        )

    def misfit(self, peer: Greeting, accepted_epoch: int) -> str | None:
        """Why the two servers cannot be in one ensemble; None if they can. ``accepted_epoch``: of this server."""
        if peer.format != FORMAT:
            return f"election messages have format {FORMAT} here and {peer.format} there"
        if peer.members != self._held.members:
            ours, theirs = ", ".join(self._held.members), ", ".join(peer.members)
            return f"the meta servers are {ours} here and {theirs} there ([cluster.meta])"
        if peer.weighing != self._held.weighing:
            ours, theirs = _named(self._held.weighing), _named(peer.weighing)
            return f"the meta servers are weighed {ours} here and {theirs} there ([election.fle] weights, groups)"
        if peer.ensemble == self._held.ensemble or _is_new(self._held, accepted_epoch):
            return None
        if not peer.ensemble and not peer.accepted_epoch:
            return None  # a new directory, which joins this ensemble
        return (
            f"the data directory here is of the ensemble {_ensemble(self._held.ensemble)}, the other one of "
            f"{_ensemble(peer.ensemble)}: one of them is from before slotreeve election force-new-cluster, and its "
            "server has to start with an empty directory"
        )

    def join(self, peer: Greeting, accepted_epoch: int) -> list[SaveIdentity]:
        """A new directory belongs to the ensemble of the first voter that it meets. ``accepted_epoch``: of this
        server."""
        if not peer.ensemble or not _is_new(self._held, accepted_epoch):
            return []
        return self._change(msgspec.structs.replace(self._held, ensemble=peer.ensemble))

    def replaced(self, sid: int, peer: Greeting) -> str | None:
        """Why a peer whose directory was replaced cannot take part again; None for any other peer. Two directories of
        one server that both count could give one epoch two leaders."""
        known = self._held.peers.get(sid)
        if known is None or peer.directory not in known.former:
            return None
        return (
            f"server {sid} has taken part with another data directory since, and with this one it cannot any more; "
            "start it with the newer one, or with an empty one"
        )

    def trusts(self, sid: int, peer: Greeting) -> bool:
        """Whether the peer still has the promises that it gave."""
        known = self._held.peers.get(sid)
        if known is None:
            return True
        if known.directory == peer.directory:
            # Lower than before: an older copy of the directory was put back.
            return peer.accepted_epoch >= self._highest_accepted.get(sid, 0)
        return peer.admitted_term > 0 and peer.admitted_term >= known.admitted_term

    def remember(self, sid: int, peer: Greeting) -> list[SaveIdentity]:
        """Remember a peer that is trusted."""
        self._highest_accepted[sid] = peer.accepted_epoch
        known = self._held.peers.get(sid)
        if known is not None and known.directory == peer.directory:
            return []
        former = [] if known is None else [*known.former, known.directory][-MOST_FORMER:]
        peers = {**self._held.peers, sid: PeerRecord(peer.directory, peer.admitted_term, former)}
        return self._change(msgspec.structs.replace(self._held, peers=peers))

    def accepted(self, sid: int, epoch: int) -> None:
        """A peer that is trusted has accepted ``epoch``: a directory in which it has not is an older copy.

        Kept as long as this process runs.
        """
        self._highest_accepted[sid] = max(self._highest_accepted.get(sid, 0), epoch)

    def lose_vote(self) -> list[SaveIdentity]:
        """Stop voting."""
        return self._change(msgspec.structs.replace(self._held, may_vote=False))

    def regain_vote(self, term: int) -> list[SaveIdentity]:
        """Vote again, admitted by the leader of ``term``."""
        return self._change(msgspec.structs.replace(self._held, may_vote=True, admitted_term=term))

    def _change(self, identity: IdentityRecord) -> list[SaveIdentity]:
        self._held = identity
        return [SaveIdentity(identity)]


def new_identity(members: Sequence[str], weighing: str, rng: random.Random, ensemble: str = "") -> IdentityRecord:
    """The identity of a new data directory."""
    return IdentityRecord(f"{rng.getrandbits(64):016x}", list(members), True, 0, {}, weighing, ensemble)


def unbound_identity(ensemble: str) -> IdentityRecord:
    """The identity of a directory that is the beginning of a new ensemble. Members, weights, groups and an identity of
    its own come with the first start, so that each member can start with a copy of it."""
    return IdentityRecord("", [], True, 0, {}, "", ensemble)


def check_identity(held: IdentityRecord, members: Sequence[str], weighing: str, path: str) -> None:
    """Check that a directory was made for the ensemble that is configured; ``path``: its file, for messages.

    Raises:
        StorageError: the members, their weights or their groups are others; names the remedy.
    """
    if held.members != list(members):
        raise StorageError(
            f"{path}: this directory belongs to a cluster of {', '.join(held.members)}, but [cluster.meta] "
            f"names {', '.join(members)}; {CHANGE_ALL}"
        )
    if held.weighing != weighing:
        raise StorageError(
            f"{path}: this directory belongs to a cluster weighed {_named(held.weighing)}, but "
            f"[election.fle] weights and groups make it {_named(weighing)}; {CHANGE_ALL}"
        )


def _named(weighing: str) -> str:
    return weighing or "equally"


def _is_new(held: IdentityRecord, accepted_epoch: int) -> bool:
    """Whether a directory has taken part in no ensemble yet."""
    return not held.ensemble and not accepted_epoch


def _ensemble(name: str) -> str:
    return name or "that began with empty directories"
