"""Bytes on disk: what was framed is read again, and an append cut short is distinguished from damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import StorageError
from slotreeve_election_fle.frames import frame, read_frames, unseal

payloads = st.lists(st.binary(max_size=20), max_size=5)


@given(payloads, st.binary(max_size=20), st.data())
def test_whole_frames_are_read_and_the_cut_one_at_the_end_is_dropped(
    whole: list[bytes], last: bytes, data: st.DataObject
) -> None:
    content = b"".join(map(frame, whole))
    cut = data.draw(st.integers(0, len(frame(last)) - 1), "bytes of the last frame")
    assert read_frames(content + frame(last)[:cut], "log", "do something") == (whole, cut)


@given(payloads)
def test_a_sealed_file_is_exactly_one_frame(several: list[bytes]) -> None:
    content = b"".join(map(frame, several))
    if len(several) == 1:
        assert unseal(content, "epochs", "do something") == several[0]
    else:
        with pytest.raises(StorageError, match=r"epochs: is damaged .* do something"):
            unseal(content, "epochs", "do something")


def test_damage_in_the_middle_of_a_log_is_named_with_its_place() -> None:
    first, second = frame(b"first"), frame(b"second")
    damaged = first[:-1] + b"\0" + second
    with pytest.raises(StorageError, match=rf"log: is damaged at byte 0 of {len(damaged)}; do something"):
        read_frames(damaged, "log", "do something")
