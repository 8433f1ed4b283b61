"""Bugs of the FLE election in what it keeps on its disk, that the election suite must find."""

from __future__ import annotations

from typing import Any

import msgspec
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.disk_order import DiskOrder
from slotreeve_election_fle.effects import SaveSnapshot
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.frames import frame, seal
from slotreeve_election_fle.identity import Identity
from slotreeve_election_fle.messages import Greeting
from slotreeve_election_fle.records import SnapshotRecord

from tests.conformance.election_bugs import Patch, both, bug, replaced
from tests.conformance.fle_bugs import FLE, _new_directory_votes


@bug(FLE, "a snapshot drops what is logged and not committed yet")
def _snapshot_drops_the_log() -> Patch:
    original = Disk._write_snapshot

    def write(self: Disk, effect: SaveSnapshot) -> None:
        original(self, SaveSnapshot(effect.zxid, effect.chain, effect.items, ()))

    return replaced(Disk, "_write_snapshot", write)


@bug(FLE, "a snapshot becomes the valid one before its log is written")
def _snapshot_before_its_log() -> Patch:
    def write(self: Disk, effect: SaveSnapshot) -> None:
        old_log, generation = self._log_name, self._generation + 1
        snapshot = SnapshotRecord(generation, effect.zxid, effect.chain, list(effect.items))
        self._storage.replace("snapshot", seal(msgspec.msgpack.encode(snapshot)))
        self._generation = generation
        self._storage.replace(self._log_name, frame(msgspec.msgpack.encode(effect.entries)))
        self._storage.remove(old_log)

    return replaced(Disk, "_write_snapshot", write)


@bug(FLE, "the old log is removed before the snapshot is written")
def _old_log_removed_first() -> Patch:
    original = Disk._write_snapshot

    def write(self: Disk, effect: SaveSnapshot) -> None:
        self._storage.remove(self._log_name)
        original(self, effect)

    return replaced(Disk, "_write_snapshot", write)


@bug(FLE, "a log that a crash has cut short is not repaired at the start, so later appends cannot be read")
def _torn_log_not_repaired() -> Patch:
    original = Disk._read_log

    def read(self: Disk) -> Any:
        with replaced(Disk, "_replace_log", lambda _self, _entries: None):
            return original(self)

    return replaced(Disk, "_read_log", read)


@bug(FLE, "a part of the log that a crash has cut short makes the whole directory unusable")
def _torn_log_is_damage() -> Patch:
    return both(
        replaced("slotreeve_election_fle.frames", "_is_cut_short", lambda _content, _start: False),
        replaced("slotreeve_election_fle.frames", "_has_hole", lambda _content, _start: False),
    )


@bug(FLE, "a hole in the last append makes the whole directory unusable")
def _hole_is_damage() -> Patch:
    return replaced("slotreeve_election_fle.frames", "_has_hole", lambda _content, _start: False)


@bug(FLE, "appends that wait become one, of which only the last is written")
def _group_commit_drops_writes() -> Patch:
    original = DiskOrder._with_later_appends

    def together(self: DiskOrder, first: Any) -> Any:
        merged = original(self, first)
        entries: list[Entry] = list(merged.entries)
        return merged if len(entries) == len(first.entries) else type(merged)(entries[-1:])

    return replaced(DiskOrder, "_with_later_appends", together)


@bug(FLE, "a file of epochs that is older than the log is taken")
def _older_epochs_will_do() -> Patch:
    def check(self: Disk, epochs: Any, last: Any) -> None:
        """Take any."""

    return replaced(Disk, "_check_epochs", check)


@bug(FLE, "a directory that was replaced and is put back is not refused")
def _replaced_directory_is_taken() -> Patch:
    def owned(self: Identity, sid: int, peer: Greeting) -> str | None:
        return self._other_owner(sid, peer.directory) or None

    return replaced(Identity, "replaced", owned)


@bug(FLE, "a new directory has a vote, and a server knows those of the others from their own greetings only")
def _knows_whom_it_met() -> Patch:
    def learn(self: Identity, sid: int, known: Any) -> list[int]:
        return []

    return both(_new_directory_votes(), replaced(Identity, "learn", learn))
