"""Which writes a server cannot take. Pure."""

from __future__ import annotations

from slotreeve.errors import NotLeader, StaleTerm

from slotreeve_election_fle.events import WriteAsked
from slotreeve_election_fle.leading import Leading


def refusal(asked: WriteAsked, role: object, term: int, now: float) -> Exception | None:
    """Why a server in this role, which knows of ``term``, cannot take a write; None if it can."""
    if asked.term < term:
        return StaleTerm(f"write to {asked.key!r} under term {asked.term}, but the highest known is {term}")
    if not isinstance(role, Leading) or not role.is_established or asked.term != role.epoch:
        return NotLeader(f"write to {asked.key!r}: this node does not lead")
    if role.is_resigning:
        return NotLeader(f"write to {asked.key!r}: this node is resigning")
    if now >= role.valid_until:
        return NotLeader(f"write to {asked.key!r}: no quorum has answered this node for a lease")
    return None
