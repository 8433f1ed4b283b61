"""Which files of a table were rewritten into larger ones: the manifests of its compaction.

The newest manifest that is complete counts, with those that it builds on; no other does. So there is one moment at
which a rewritten day takes the place of its small files: that at which its manifest is complete. A manifest that was
torn, or written late by a compaction that another one overtook, is in nobody's list and means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from slotreeve.errors import StorageError


class Manifest(msgspec.Struct, frozen=True):
    """One group of files that was rewritten.

    Attributes:
        number: of this manifest; they count from 1, and no two have the same.
        builds_on: numbers of the earlier ones that stay in force.
        directory: of the new files, below the table's place in ``compacted``.
        files: the files that the new ones replace, below the table's own place.
    """

    number: int
    builds_on: tuple[int, ...]
    directory: str
    files: tuple[str, ...]


def encode(manifest: Manifest) -> bytes:
    """As stored: JSON."""
    return msgspec.json.encode(manifest)


def decode(content: bytes) -> Manifest | None:
    """None if the content is torn."""
    try:
        return msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError:
        return None


def in_force(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Those that count, of all that are complete, oldest first.

    Raises:
        StorageError: one of them is not there.
    """
    found: Mapping[int, Manifest] = {manifest.number: manifest for manifest in manifests}
    if not found:
        return []
    newest = found[max(found)]
    if missing := [number for number in newest.builds_on if number not in found]:
        raise StorageError(
            f"manifest {missing[0]:08d} of a compaction is missing or damaged; {newest.number:08d} needs it"
        )
    return [found[number] for number in newest.builds_on] + [newest]
