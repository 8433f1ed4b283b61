"""Bytes on disk: what was framed is read again, and an append cut short is distinguished from damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import StorageError
from slotreeve_election_fle.frames import SECTOR, frame, read_frames, seal, unseal

payloads = st.lists(st.binary(max_size=20), max_size=5)
of_zeros = st.tuples(st.binary(max_size=600), st.integers(0, 3_000), st.binary(max_size=600)).map(
    lambda parts: parts[0] + bytes(parts[1]) + parts[2]
)
"""Payloads that hold a run of zeros, as a hole does."""


@given(payloads, st.binary(max_size=20), st.data())
def test_whole_frames_are_read_and_the_cut_one_at_the_end_is_dropped(
    whole: list[bytes], last: bytes, data: st.DataObject
) -> None:
    content = b"".join(map(frame, whole))
    cut = data.draw(st.integers(0, len(frame(last)) - 1), "bytes of the last frame")
    assert read_frames(content + frame(last)[:cut], "log", "do something") == (whole, cut)


@given(payloads)
def test_a_sealed_file_is_exactly_one_frame(several: list[bytes]) -> None:
    content = b"".join(map(seal, several))
    if len(several) == 1:
        assert unseal(content, "epochs", "do something") == several[0]
    else:
        with pytest.raises(StorageError, match=r"epochs: is damaged .* do something"):
            unseal(content, "epochs", "do something")


@given(st.lists(of_zeros, max_size=2), of_zeros, st.data())
def test_a_changed_bit_is_damage_whatever_zeros_a_value_holds(
    whole: list[bytes], last: bytes, data: st.DataObject
) -> None:
    """Also in the last frame: it is no append that a crash cut short, and nothing is dropped."""
    content = bytearray(b"".join(map(frame, [*whole, last])))
    assert read_frames(bytes(content), "log", "do something") == ([*whole, last], 0)
    content[data.draw(st.integers(0, len(content) - 1), "byte")] ^= 1 << data.draw(st.integers(0, 7), "bit")
    with pytest.raises(StorageError, match="log: is damaged at byte"):
        read_frames(bytes(content), "log", "do something")


@given(payloads, payloads)
def test_a_log_of_an_earlier_version_is_read(earlier: list[bytes], later: list[bytes]) -> None:
    content = b"".join([*map(seal, earlier), *map(frame, later)])  # a log frame was a sealed one then
    assert read_frames(content, "log", "do something") == ([*earlier, *later], 0)


def test_damage_in_the_middle_of_a_log_is_named_with_its_place() -> None:
    first, second = frame(b"first"), frame(b"second")
    damaged = first[:-1] + b"\0" + second
    with pytest.raises(StorageError, match=rf"log: is damaged at byte 0 of {len(damaged)}; do something"):
        read_frames(damaged, "log", "do something")


@given(st.lists(st.binary(max_size=900), max_size=3), st.integers(1, 5_000), st.data())
def test_an_append_of_which_some_sectors_were_never_written_is_dropped(
    whole: list[bytes], size: int, data: st.DataObject
) -> None:
    """A file system may lengthen the file at once and write its pages in any order."""
    before = b"".join(map(frame, whole))
    content = bytearray(before + frame(b"\1" * size))
    sectors = range(len(before) // SECTOR, (len(content) - 1) // SECTOR + 1)
    lost = data.draw(st.lists(st.sampled_from(sectors), min_size=1, unique=True), "sectors that were lost")
    for sector in lost:
        begin, end = max(len(before), sector * SECTOR), min(len(content), (sector + 1) * SECTOR)
        content[begin:end] = bytes(end - begin)
    assert read_frames(bytes(content), "log", "do something") == (whole, len(content) - len(before))


@pytest.mark.parametrize("reached", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [10, 600])
def test_a_hole_of_a_few_bytes_where_an_append_begins_is_one(reached: int, size: int) -> None:
    """The append began so many bytes before the edge of a sector, and only the next sectors were written."""
    first = b"\1" * (SECTOR - reached - len(frame(b"")))
    before, last = frame(first), frame(b"\1" * size)
    assert len(before) == SECTOR - reached
    damaged = before + bytes(reached) + last[reached:]
    assert read_frames(damaged, "log", "do something") == ([first], len(last))
    with pytest.raises(StorageError, match=f"log: is damaged at byte {len(before)}"):
        read_frames(damaged + frame(b"another"), "log", "do something")


def test_a_hole_before_another_frame_is_damage() -> None:
    first, second = frame(b"\1" * 3 * SECTOR), frame(b"second")
    for begin in (0, SECTOR):
        damaged = first[:begin] + bytes(SECTOR) + first[begin + SECTOR :] + second
        with pytest.raises(StorageError, match="log: is damaged at byte 0"):
            read_frames(damaged, "log", "do something")


def test_a_changed_bit_in_the_last_frame_is_damage_and_no_hole() -> None:
    content = bytearray(frame(b"\1" * 3 * SECTOR))
    content[SECTOR + 7] ^= 1
    with pytest.raises(StorageError, match="log: is damaged at byte 0"):
        read_frames(bytes(content), "log", "do something")
