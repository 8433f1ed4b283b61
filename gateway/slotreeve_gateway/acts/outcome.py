"""What came of an act."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotreeve_gateway.acts.kinds import Act


@dataclass(frozen=True)
class ActOutcome:
    """What an act did, or would do.

    Attributes:
        sentences: what it does, for people, counted on the state as it is.
        undo: the act that undoes it; None: there is nothing to undo, or nothing undoes it.
        changes: whether it changed something, or would.
        version: of the value that was written; None: it writes none.
    """

    sentences: Sequence[str]
    undo: Act | None
    changes: bool
    version: int | None = None
