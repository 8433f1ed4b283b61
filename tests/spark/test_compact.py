"""Compaction: few large files, every record once for every reader, whatever is killed and whenever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from slotreeve.errors import StorageError
from slotreeve_spark.pipeline.manifests import Manifest, decode, encode, in_force

if TYPE_CHECKING:
    pass


def test_the_newest_complete_manifest_counts_with_those_it_builds_on() -> None:
    first, lost, third = Manifest(1, (), "a", ("x",)), Manifest(2, (1,), "b", ("y",)), Manifest(3, (1,), "c", ("y",))
    assert in_force([]) == []
    assert in_force([lost, first]) == [first, lost]
    assert in_force([third, lost, first]) == [first, third]
    assert decode(encode(third)) == third
    assert all(decode(encode(third)[:cut]) is None for cut in range(len(encode(third))))
    with pytest.raises(StorageError, match="manifest 00000001 of a compaction is missing"):
        in_force([third])
