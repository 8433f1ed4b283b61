"""Which data directory a server has, and whether its vote may count (docs/fle.md, section 8.3). Pure.

A voter that lost its disk has forgotten its promises: were it to vote again as if new, an epoch could get two leaders
(docs/fle.md, S87). So a new data directory has no vote. The first leader of all, which all voters elect together, gives
one to the directories of all; every other directory takes part without a vote until an established leader has brought
it up to date and admits it. Every directory has an identity, and every member remembers those of the others, so that an
older copy, or a directory that another one has replaced, is recognised.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

NOTHING_KNOWN = PeerRecord("", 0)


@dataclass(frozen=True)
class Owner:
    """Whose a directory is.

    Attributes:
        name: of the server.
        members: names of all members, sorted.
        weighing: weights and groups of the members, in one line.
    """

    name: str
    members: Sequence[str]
    weighing: str = ""


class Identity:
    """This server's directory, whether it may vote, and the directories of the others.

    As of the ledger, the methods that change something durable return the effects that make it so.
    """

    def __init__(self, record: IdentityRecord) -> None:
        self._held = record
        self._highest_accepted: dict[int, int] = {}

    @property
    def may_vote(self) -> bool:
        """Whether this server's votes count."""
        return self._held.may_vote

    @property
    def is_new(self) -> bool:
        """Whether this directory has never had a vote."""
        return self._held.is_new

    def name_of(self, sid: int) -> str:
        """The name of a member."""
        return self._held.members[sid]

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
            held.may_vote,
            held.is_new,
            held.peers,
            tells=True,
        )

    # --- may the peer take part --------------------------------------------------------------------------------------

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
        if peer.ensemble == self._held.ensemble or _belongs_to_none(self._held, accepted_epoch):
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
        if not peer.ensemble or not _belongs_to_none(self._held, accepted_epoch):
            return []
        return self._change(ensemble=peer.ensemble)

    def replaced(self, sid: int, peer: Greeting) -> str | None:
        """Why a peer cannot take part with its directory: that was replaced, or another server has it, too. None for
        any other peer. Two directories of one server that both count could give one epoch two leaders, and one
        directory of two servers counts twice what was promised once."""
        known = self._held.peers.get(sid)
        if known is not None and peer.directory in known.former:
            return (
                f"server {sid} has taken part with another data directory since, and with this one it cannot any more; "
                "start it with the newer one, or with an empty one"
            )
        if owner := self._other_owner(sid, peer.directory):
            return (
                f"server {sid} has a copy of the data directory of {owner}; each meta server needs a directory of its "
                "own: start it with an empty one"
            )
        return None

    def _other_owner(self, sid: int, directory: str) -> str:
        if directory == self._held.directory:
            return self._held.name
        for other, known in self._held.peers.items():
            if other != sid and directory in (known.directory, *known.former):
                return self.name_of(other)
        return ""

    def is_foreign(self, own_sid: int, peer: Greeting) -> bool:
        """Whether the peer has met this server, ``own_sid``, with other directories, and with none that it has or had:
        its own one is of another cluster whose servers have the same names, or of one that was here before.

        Only a directory that an election or a leader gave a vote knows: a copy of one that was made the beginning of an
        ensemble may be put in the place of another.
        """
        known, own = peer.known.get(own_sid, NOTHING_KNOWN), self._held.peers.get(own_sid, NOTHING_KNOWN)
        ours = {self._held.directory, *own.former}
        is_admitted = self.may_vote and self._held.admitted_term > 0
        return is_admitted and bool(known.directory) and ours.isdisjoint({known.directory, *known.former})

    def trusts(self, sid: int, peer: Greeting) -> bool:
        """Whether the peer has a vote, and still the promises that it gave."""
        if not peer.may_vote or not peer.accepted_epoch:
            return False
        known = self._held.peers.get(sid)
        if known is None:
            return True
        if known.directory == peer.directory:
            # Lower than before: an older copy of the directory was put back.
            return peer.accepted_epoch >= max(known.admitted_term, self._highest_accepted.get(sid, 0))
        return peer.admitted_term > 0 and peer.admitted_term >= known.admitted_term

    # --- the directories of the others -------------------------------------------------------------------------------

    def remember(self, sid: int, peer: Greeting) -> list[SaveIdentity]:
        """Remember a peer that is trusted."""
        self._highest_accepted[sid] = peer.accepted_epoch
        return self._replace(sid, peer.directory, peer.admitted_term)

    def accepted(self, sid: int, epoch: int) -> None:
        """A peer that is trusted has accepted ``epoch``: a directory in which it has not is an older copy.

        Kept as long as this process runs.
        """
        self._highest_accepted[sid] = max(self._highest_accepted.get(sid, 0), epoch)

    def learn(self, sid: int | None, known: Mapping[int, PeerRecord]) -> list[SaveIdentity]:
        """Take over what a peer that is trusted knows of the directories of all: which one counts, where that is newer,
        and in any case which ones were replaced. ``sid``: of this server. It knows its own directory, but not those
        that it had before, and whom it admits may learn of them from nobody else."""
        own = PeerRecord(self._held.directory, self._held.admitted_term)
        peers = dict(self._held.peers)
        for other, theirs in known.items():
            ours = peers.get(other, own if other == sid else NOTHING_KNOWN)
            if other != sid and _is_newer(theirs, ours):
                peers[other] = _succeeding(ours, theirs.directory, theirs.admitted_term, theirs.former)
            elif missing := set(theirs.former).difference((*ours.former, ours.directory)):
                peers[other] = _succeeding(ours, ours.directory, ours.admitted_term, sorted(missing))
        return self._change(peers=peers) if peers != self._held.peers else []

    def vacate(self, sid: int, term: int) -> list[SaveIdentity]:
        """From now on no directory of ``sid`` counts that began to vote before ``term``: another one is to be
        admitted."""
        return self._replace(sid, "", term)

    def admit(self, sid: int, directory: str, term: int) -> list[SaveIdentity]:
        """The leader of ``term``, which this server is, admits a directory."""
        return self._replace(sid, directory, term)

    def knows(self, sid: int, directory: str) -> bool:
        """Whether this is the directory of ``sid`` that is remembered here."""
        known = self._held.peers.get(sid)
        return known is not None and known.directory == directory

    def is_vacant_for(self, sid: int, term: int, peer: Greeting) -> bool:
        """Whether a peer counts no directory of ``sid`` that this server, the leader of ``term``, does not. One of an
        earlier version cannot say so."""
        theirs, ours = peer.known.get(sid, NOTHING_KNOWN), self._held.peers.get(sid, NOTHING_KNOWN)
        return not peer.tells or (theirs.admitted_term >= term and theirs.directory not in ours.former)

    def _replace(self, sid: int, directory: str, term: int) -> list[SaveIdentity]:
        known = self._held.peers.get(sid, NOTHING_KNOWN)
        if known.directory == directory and known.admitted_term >= term and sid in self._held.peers:
            return []
        record = _succeeding(known, directory, term)
        return self._change(peers={**self._held.peers, sid: record})

    # --- this server's own vote --------------------------------------------------------------------------------------

    def begin(self, term: int, directories: Mapping[int, str]) -> list[SaveIdentity]:
        """Vote from now on: all voters, with these directories, have accepted this server's ``term``."""
        first = {sid: PeerRecord(directory, term) for sid, directory in directories.items()}
        return self._change(may_vote=True, is_new=False, admitted_term=term, peers={**self._held.peers, **first})

    def is_known_to(self, sid: int, peer: Greeting) -> bool:
        """Whether a peer that is trusted knows this new directory, that of server ``sid``, as one that has a vote: it
        took part in the first election of all, and did not learn how that ended."""
        known = peer.known.get(sid)
        return self._held.is_new and known is not None and known.directory == self._held.directory

    def lose_vote(self) -> list[SaveIdentity]:
        """Stop voting."""
        return self._change(may_vote=False, is_new=False)

    def regain_vote(self, term: int) -> list[SaveIdentity]:
        """Vote, admitted by the leader of ``term``."""
        return self._change(may_vote=True, is_new=False, admitted_term=term)

    def _change(self, **fields: object) -> list[SaveIdentity]:
        self._held = msgspec.structs.replace(self._held, **fields)
        return [SaveIdentity(self._held)]


def new_identity(owner: Owner, rng: random.Random) -> IdentityRecord:
    """The identity of a new data directory, which has no vote."""
    directory = f"{rng.getrandbits(64):016x}"
    return IdentityRecord(directory, list(owner.members), False, 0, {}, owner.weighing, "", owner.name, is_new=True)


def unbound_identity(ensemble: str) -> IdentityRecord:
    """The identity of a directory that is the beginning of a new ensemble. Name, members, weights, groups and an
    identity of its own come with the first start, so that each member can start with a copy of it."""
    return IdentityRecord("", [], True, 0, {}, "", ensemble)


def bound_identity(unbound: IdentityRecord, owner: Owner, rng: random.Random) -> IdentityRecord:
    """The identity of a copy of such a directory at its first start. It has a vote: it holds what all others hold."""
    new = new_identity(owner, rng)
    return msgspec.structs.replace(new, may_vote=True, is_new=False, ensemble=unbound.ensemble)


def is_of(held: IdentityRecord, owner: Owner) -> bool:
    """Whether a directory belongs to this server, and was made for the ensemble that is configured."""
    return (held.name, held.members, held.weighing) == (owner.name, list(owner.members), owner.weighing)


def check_identity(held: IdentityRecord, owner: Owner, path: str) -> None:
    """Check that a directory belongs to this server, and was made for the ensemble that is configured. ``path``: its
    file, for messages.

    Raises:
        StorageError: it does not; names the remedy.
    """
    if held.members != list(owner.members):
        raise StorageError(
            f"{path}: this directory belongs to a cluster of {', '.join(held.members)}, but [cluster.meta] "
            f"names {', '.join(owner.members)}; {CHANGE_ALL}"
        )
    if held.weighing != owner.weighing:
        raise StorageError(
            f"{path}: this directory belongs to a cluster weighed {_named(held.weighing)}, but "
            f"[election.fle] weights and groups make it {_named(owner.weighing)}; {CHANGE_ALL}"
        )
    if held.name and held.name != owner.name:
        raise StorageError(
            f"{path}: this directory belongs to {held.name}, but this server is {owner.name}; what {held.name} has "
            f"promised binds {held.name} alone: start {owner.name} with a directory of its own, or with an empty one"
        )


def _is_newer(theirs: PeerRecord, ours: PeerRecord) -> bool:
    """Whether what a peer knows of a directory is newer than what is known here."""
    if ours is NOTHING_KNOWN or theirs.admitted_term != ours.admitted_term:
        return ours is NOTHING_KNOWN or theirs.admitted_term > ours.admitted_term
    return ours.directory in theirs.former or (not ours.directory and theirs.directory not in ours.former)


def _succeeding(known: PeerRecord, directory: str, term: int, also_former: Sequence[str] = ()) -> PeerRecord:
    """What is remembered once ``directory`` counts from ``term`` on, and no earlier one."""
    former = dict.fromkeys([*also_former, *known.former, known.directory])
    kept = [each for each in former if each not in ("", directory)]
    return PeerRecord(directory, term, kept[-MOST_FORMER:])


def _named(weighing: str) -> str:
    return weighing or "equally"


def _belongs_to_none(held: IdentityRecord, accepted_epoch: int) -> bool:
    """Whether a directory has taken part in no ensemble yet."""
    return not held.ensemble and not accepted_epoch


def _ensemble(name: str) -> str:
    return name or "that began with empty directories"
