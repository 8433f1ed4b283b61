"""Bugs of the FLE election in what it does with full disks, large values and the end of a term."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

import msgspec
from slotreeve.errors import StaleTerm, StorageError
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.effects import DiskWrite, NotWritten
from slotreeve_election_fle.election import FleElection
from slotreeve_election_fle.messages import StoodDown
from slotreeve_election_fle.proposals import Proposals
from slotreeve_election_fle.synchronise import HistoryTransfer

from tests.conformance.election_bugs import Patch, bug, replaced
from tests.conformance.fle_bugs import FLE

__all__ = ["FLE"]


@bug(FLE, "the last piece of a value that travels in several is empty")
def _last_piece_is_empty() -> Patch:
    original = HistoryTransfer._piece

    def piece(self: HistoryTransfer, things: deque[Any]) -> Any:
        taken = original(self, things)
        return taken if self._offset else msgspec.structs.replace(taken, value=b"")

    return replaced(HistoryTransfer, "_piece", piece)


@bug(FLE, "what a full disk refuses counts as written")
def _full_disk_unnoticed() -> Patch:
    original = Disk.write

    def write(self: Disk, effect: DiskWrite) -> None:
        with suppress(StorageError):
            original(self, effect)

    return replaced(Disk, "write", write)


@bug(FLE, "a leader whose disk is full releases its followers, and calls itself leader for a moment longer")
def _leads_on_with_a_full_disk() -> Patch:
    original = FleElection._stand_aside

    def stand_aside(self: FleElection, why: str) -> None:
        if self._report.known.leading:
            self._connections.send_all(StoodDown(self._report.known.term, why))
        self._connections.pause(why)
        self._clock.call_later(0.3, lambda: original(self, why))

    return replaced(FleElection, "_stand_aside", stand_aside)


@bug(FLE, "at the end of a term the writes under way are answered as refused for certain")
def _abandoned_writes_are_refused() -> Patch:
    original = Proposals.abandon

    def abandon(self: Proposals, cause: str) -> list[NotWritten]:
        return [NotWritten(answer.token, StaleTerm("not stored")) for answer in original(self, cause)]

    return replaced(Proposals, "abandon", abandon)
