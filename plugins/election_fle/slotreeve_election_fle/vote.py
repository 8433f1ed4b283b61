"""Votes: what a server proposes, in which order proposals stand, and when two votes are the same.

docs/fle.md, sections 1 and 5.2. Nothing here does I/O or keeps state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

NOBODY = -(1 << 63)
"""The candidate of servers that may vote for others and are no candidates themselves."""
EPOCH_SHIFT = 32
COUNTER_MASK = (1 << EPOCH_SHIFT) - 1


class State(IntEnum):
    """What a server is doing; the ordinals are those of ZooKeeper."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2
    OBSERVING = 3


class Vote(msgspec.Struct, array_like=True, frozen=True):
    """A proposal of a leader, as one server makes or remembers it.

    Attributes:
        leader: server id of the candidate, or NOBODY.
        zxid: last logged zxid of the candidate.
        peer_epoch: the last epoch in which the candidate had synchronised with a leader.
        round: the election it belongs to ("logical clock"); counts within processes only, never fences anything.
        state: what the server that holds this vote is doing.
    """

    leader: int
    zxid: int
    peer_epoch: int
    round: int
    state: State = State.LOOKING


def make_zxid(epoch: int, counter: int) -> int:
    """The number of the ``counter``-th write under the leader of ``epoch``."""
    return epoch << EPOCH_SHIFT | counter


def epoch_of(zxid: int) -> int:
    """The epoch of the leader that made this number."""
    return zxid >> EPOCH_SHIFT


def outranks(new: Vote, current: Vote) -> bool:
    """Whether ``new`` is a strictly better proposal: higher epoch, then zxid, then server id.

    NOBODY never wins and always gives way, however long the history of the server that proposes it.
    """
    if NOBODY in (new.leader, current.leader):
        return new.leader != NOBODY
    return (new.peer_epoch, new.zxid, new.leader) > (current.peer_epoch, current.zxid, current.leader)


def agree(one: Vote, other: Vote) -> bool:
    """Whether two votes count as the same.

    While either side is still looking everything must match. Members of an established ensemble may remember
    different zxids and rounds of the election that made it, so between them candidate and epoch decide.
    """
    if one.leader != other.leader or one.peer_epoch != other.peer_epoch:
        return False
    if State.LOOKING in (one.state, other.state):
        return one.zxid == other.zxid and one.round == other.round
    return True


def supporters(votes: Mapping[int, Vote], vote: Vote) -> set[int]:
    """The servers whose recorded vote agrees with ``vote``."""
    return {sid for sid, recorded in votes.items() if agree(recorded, vote)}
