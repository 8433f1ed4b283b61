"""Who a peer is, and whether its vote may count (spec section 8.3). Pure but for one small file.

A voter that lost its disk has forgotten its promises: were it to vote again as if new, an epoch could get two leaders
(S87). So every data directory has an identity, every member remembers those of the others, and one that turns up with
another directory is told so and takes part without a vote until an established leader has brought it up to date.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
from slotreeve.errors import StorageError
from slotreeve.ports import Storage

from slotreeve_election_fle.messages import FORMAT, Introduce
from slotreeve_election_fle.records import frame, unseal

IDENTITY = "identity"
_REMEDY = "stop this node and start it with an empty directory: the other members admit it again"


class _Peer(msgspec.Struct, array_like=True, frozen=True):
    directory: str
    admitted_term: int


class _Identity(msgspec.Struct, array_like=True, frozen=True):
    directory: str
    members: list[str]
    may_vote: bool
    admitted_term: int
    peers: dict[int, _Peer]
    weighing: str = ""


class Identity:
    """This server's directory, whether it may vote, and the directories of the others; durable.

    Attributes:
        may_vote: False after a peer has remembered this server with another directory, until admitted again.
    """

    def __init__(
        self, storage: Storage, members: Sequence[str], rng: random.Random, where: str = "", weighing: str = ""
    ) -> None:
        """Read the file, or make a new identity where there is none; ``where``: the directory, for messages.

        Raises:
            StorageError: damaged, not writable, or of a cluster with other members, weights or groups; says what to do.
        """
        self._storage = storage
        self._heard_epochs: dict[int, int] = {}
        path = f"{where}/{IDENTITY}" if where else IDENTITY
        content = storage.read(IDENTITY)
        if content is None:
            self._write(_Identity(f"{rng.getrandbits(64):016x}", list(members), True, 0, {}, weighing))
            return
        try:
            self._held = msgspec.msgpack.decode(unseal(content, path, _REMEDY), type=_Identity)
        except msgspec.MsgspecError as error:
            raise StorageError(f"{path}: was written by something else ({error}); {_REMEDY}") from None
        if self._held.members != list(members):
            raise StorageError(
                f"{path}: this directory belongs to a cluster of {', '.join(self._held.members)}, but [cluster.meta] "
                f"names {', '.join(members)}; to change the members stop all of them, remove this file from every "
                "data directory, and start them with the same new list"
            )
        if self._held.weighing != weighing:
            raise StorageError(
                f"{path}: this directory belongs to a cluster weighed {_named(self._held.weighing)}, but "
                f"[election.fle] weights and groups say {_named(weighing)}; to change them see that all members run "
                "and have caught up, stop all of them, remove this file from every data directory, and start them "
                "with the same new ones"
            )

    @property
    def may_vote(self) -> bool:
        """Whether this server's votes count."""
        return self._held.may_vote

    def introduce(self, accepted_epoch: int, observer: bool) -> Introduce:
        """What a peer is told first."""
        held = self._held
        return Introduce(
            FORMAT, held.members, held.directory, accepted_epoch, held.admitted_term, observer, held.weighing
        )

    def misfit(self, peer: Introduce) -> str | None:
        """Why the peer cannot be talked to at all; None if it can."""
        if peer.format != FORMAT:
            return f"election messages have format {FORMAT} here and {peer.format} there"
        if peer.members != self._held.members:
            ours, theirs = ", ".join(self._held.members), ", ".join(peer.members)
            return f"the meta servers are {ours} here and {theirs} there ([cluster.meta])"
        if peer.weighing != self._held.weighing:
            ours, theirs = _named(self._held.weighing), _named(peer.weighing)
            return f"the meta servers are weighed {ours} here and {theirs} there ([election.fle] weights, groups)"
        return None

    def trusts(self, sid: int, peer: Introduce) -> bool:
        """Whether the peer still knows its promises; remembers its directory durably if so. Raises StorageError."""
        known = self._held.peers.get(sid)
        heard_epoch = self._heard_epochs.get(sid, 0)
        if known is not None and known.directory == peer.directory:
            if peer.accepted_epoch < heard_epoch:
                return False  # an older copy of the directory was put back
        elif known is None or (peer.admitted_term > 0 and peer.admitted_term >= known.admitted_term):
            peers = {**self._held.peers, sid: _Peer(peer.directory, peer.admitted_term)}
            self._write(msgspec.structs.replace(self._held, peers=peers))
        else:
            return False
        self._heard_epochs[sid] = peer.accepted_epoch
        return True

    def lose_vote(self) -> None:
        """Durably stop voting. Raises StorageError."""
        self._write(msgspec.structs.replace(self._held, may_vote=False))

    def regain_vote(self, term: int) -> None:
        """Durably vote again, admitted by the leader of ``term``. Raises StorageError."""
        self._write(msgspec.structs.replace(self._held, may_vote=True, admitted_term=term))

    def _write(self, identity: _Identity) -> None:
        self._storage.replace(IDENTITY, frame(msgspec.msgpack.encode(identity)))
        self._held = identity


def _named(weighing: str) -> str:
    return weighing or "equally"
