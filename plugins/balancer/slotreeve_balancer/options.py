"""Options of the offers in this package."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from slotreeve import Options


class DefaultAssignerOptions(Options):
    """Options of the assigner ``default``."""

    threshold_percent: int = Field(
        default=10, ge=0, le=100, description="A follower that leads this much above the average is not promoted."
    )


class DefaultBalancerOptions(Options):
    """Options of the balancer ``default``; the defaults are the original's."""

    threshold_percent: int = Field(
        default=10, ge=0, le=100, description="Deviation from the average that is good enough, in percent."
    )
    max_leader_moves: int = Field(default=6, ge=1, description="A step stops looking for leaders after so many moves.")
    max_follower_moves: int = Field(
        default=10, ge=1, description="A step stops looking for followers after so many moves."
    )
    demoted_leader: Literal["leaves", "follows"] | None = Field(
        default=None,
        description="What a leader does when a follower takes its place: it leaves the slot, which then lacks a "
        "follower (the original's step, to be followed by an assignment), or it takes the follower's place (nothing is "
        "copied, no slot is ever a copy short). Unset: follows on a server, leaves in a dry run.",
    )


class EvenBalancerOptions(Options):
    """Options of the balancer ``even``."""

    moves_per_server: int = Field(
        default=16, ge=1, description="At most so many slots are newly led, and newly followed, by one server a step."
    )
    tolerance: int = Field(
        default=0, ge=0, description="So many slots beside its fair share a server may be before anything moves."
    )
