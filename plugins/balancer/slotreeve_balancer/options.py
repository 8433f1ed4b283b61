"""Options of the assigners and balancers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from slotreeve import Options


class DefaultAssignerOptions(Options):
    """Options of the assigner ``default``."""

    threshold_percent: int = Field(
        default=10,
        ge=0,
        le=100,
        description="A follower is not promoted if it leads this many percent more than the average.",
    )


class DefaultBalancerOptions(Options):
    """Options of the balancer ``default``; the defaults are the original's."""

    threshold_percent: int = Field(
        default=10, ge=0, le=100, description="Deviation from the average, in percent, that is left as it is."
    )
    max_leader_moves: int = Field(
        default=6, ge=1, description="Number of moves after which a step looks for no more leaders."
    )
    max_follower_moves: int = Field(
        default=10, ge=1, description="Number of moves after which a step looks for no more followers."
    )
    demoted_leader: Literal["leaves", "follows"] | None = Field(
        default=None,
        description="Place of a former leader after a follower took over. 'leaves': it leaves the slot, which "
        "lacks a follower until the next assignment (as in the original). 'follows': it takes the follower's place, so "
        "no copy is made or missing. Unset: 'follows' on a server, 'leaves' in a dry run.",
    )


class EvenBalancerOptions(Options):
    """Options of the balancer ``even``."""

    moves_per_server: int = Field(
        default=16, ge=1, description="Most slots that one server newly leads, and newly follows, in one step."
    )
    tolerance: int = Field(
        default=0, ge=0, description="Number of slots by which a server may miss its fair share before anything moves."
    )
    loads: Literal["ignore", "records", "bytes", "writes"] = Field(
        default="ignore",
        description="What leaders that have their share of slots trade slots for: none has much more than its share of "
        "registrations, of their bytes, or of writes a second. 'ignore': only the number of slots counts.",
    )
