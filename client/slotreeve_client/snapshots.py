"""Snapshots: what operators have given a cluster, as a file that people can read and another cluster can take.

A snapshot has the provided configuration and the standing orders. Registrations are not in it: their providers send
them again. Slot table and members are named for people; a cluster makes its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum

import msgspec
from slotreeve.errors import ConfigError
from slotreeve.model.text import UNDECODABLE
from slotreeve_protocol.meta_messages import ConfigEntry, View

FORMAT = "slotreeve snapshot 1"


class SavedEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key of the provided configuration; the standing orders are one of them. ``version`` is for people: a cluster
    counts its own."""

    key: str
    version: int
    value: bytes


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file, a JSON object.

    Attributes:
        format: :data:`FORMAT`.
        cluster: name of the cluster that it was taken of.
        taken_at: when, in UTC, ISO 8601.
        term, revision, table_epoch: of the committed view at that time.
        servers: the members at that time, sorted.
        entries: sorted by key.
        digest: SHA-256 of all the rest, in hexadecimal.
    """

    format: str
    cluster: str
    taken_at: str
    term: int
    revision: int
    table_epoch: int
    servers: list[str]
    entries: list[SavedEntry]
    digest: str = ""


class Change(StrEnum):
    """What a restore does with a key."""

    ADD = "add"
    REPLACE = "replace"
    KEEP = "keep"
    """The cluster has the same value."""
    EXTRA = "extra"
    """The cluster has it, the snapshot does not."""


class Step(msgspec.Struct, frozen=True):
    """One key of a restore. ``expected_version`` is that of the cluster: 0 where the key was never written there.
    ``value`` is that of the snapshot; None where it has none."""

    key: str
    change: Change
    value: bytes | None
    expected_version: int


def take(cluster: str, taken_at: str, view: View, entries: Iterable[ConfigEntry]) -> Snapshot:
    """The snapshot of a cluster. Deleted entries are left out."""
    saved = [SavedEntry(entry.key, entry.version, entry.value) for entry in entries if entry.value is not None]
    servers = sorted(node.name for node in (*view.data, *view.sessions))
    saved.sort(key=lambda entry: entry.key)
    return _signed(Snapshot(FORMAT, cluster, taken_at, view.term, view.revision, view.table.epoch, servers, saved))


def encode(snapshot: Snapshot) -> bytes:
    """The bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=2) + b"\n"


def decode(data: bytes, place: str) -> Snapshot:
    """The snapshot in a file; ``place`` is its name, for messages.

    Raises:
        ConfigError: it is none, of another format, or was changed.
    """
    try:
        snapshot = msgspec.json.decode(data, type=Snapshot)
    except UNDECODABLE as error:
        raise ConfigError(f"{place}: not a snapshot: {error}; `slotreeve snapshot save` writes one") from None
    if snapshot.format != FORMAT:
        raise ConfigError(f"{place}: its format is {snapshot.format!r}; this version reads {FORMAT!r}")
    if _signed(snapshot).digest != snapshot.digest:
        raise ConfigError(f"{place}: its digest does not fit its content: the file was damaged, or changed by hand")
    return snapshot


def steps(snapshot: Snapshot, present: Iterable[ConfigEntry]) -> list[Step]:
    """What a restore does, by key. ``present``: what the cluster has, deleted entries too."""
    there = {entry.key: entry for entry in present}
    found = []
    for entry in snapshot.entries:
        now = there.pop(entry.key, ConfigEntry(entry.key, None, 0))
        if now.value == entry.value:
            change = Change.KEEP
        else:
            change = Change.ADD if now.value is None else Change.REPLACE
        found.append(Step(entry.key, change, entry.value, now.version))
    found += [Step(key, Change.EXTRA, None, now.version) for key, now in there.items() if now.value is not None]
    return sorted(found, key=lambda step: step.key)


def _signed(snapshot: Snapshot) -> Snapshot:
    plain = msgspec.structs.replace(snapshot, digest="")
    return msgspec.structs.replace(plain, digest=hashlib.sha256(msgspec.json.encode(plain)).hexdigest())
