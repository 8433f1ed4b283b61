"""The files of an event log."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slotreeve.errors import StorageError
from slotreeve_events.segments import Segments

PROCESS = "session-127.0.0.1:1@abc"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def killed(segments: Segments, content: bytes) -> None:
    """A process that was killed after it had written this."""
    segments.append(content)
    assert segments._descriptor is not None
    os.close(segments._descriptor)


def test_a_segment_is_open_until_it_is_full(tmp_path: Path) -> None:
    segments = Segments(tmp_path, PROCESS, 10)
    segments.append(b"12345\n")
    assert names(tmp_path) == ["session-127.0.0.1_1@abc-000000.jsonl.open"]
    segments.append(b"67890\n")
    assert names(tmp_path) == ["session-127.0.0.1_1@abc-000000.jsonl"]
    segments.append(b"1\n")
    segments.finish()
    segments.finish()
    assert names(tmp_path) == [f"session-127.0.0.1_1@abc-00000{number}.jsonl" for number in range(2)]
    assert (tmp_path / names(tmp_path)[0]).read_bytes() == b"12345\n67890\n"


def test_the_next_process_of_a_server_finishes_what_the_last_one_left_open(tmp_path: Path) -> None:
    killed(Segments(tmp_path, PROCESS, 100), b"left\n")
    killed(Segments(tmp_path, "another-server@abc", 100), b"not its own\n")
    Segments(tmp_path, PROCESS.replace("abc", "def"), 100)
    assert names(tmp_path) == ["another-server@abc-000000.jsonl.open", "session-127.0.0.1_1@abc-000000.jsonl"]


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"events\.path: .* cannot be written"):
        Segments(tmp_path / "file" / "x", "n@1", 1_000)


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Within: a write beyond it writes what fits, and the next one fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_the_disk_takes_in_part_only_does_not_eat_the_next_one(tmp_path: Path) -> None:
    segments = Segments(tmp_path, PROCESS, 1_000)
    segments.append(b"first\n")
    with no_file_longer_than(10), pytest.raises(OSError, match="File too large"):
        segments.append(b"cut short\n")
    segments.append(b"third\n")
    segments.finish()
    assert (tmp_path / names(tmp_path)[0]).read_bytes() == b"first\nthird\n"


@pytest.mark.parametrize("process", ["data-[::1]_7720@abc", "data-*@abc"])
def test_what_a_killed_process_of_any_name_left_open_is_finished(tmp_path: Path, process: str) -> None:
    killed(Segments(tmp_path, process, 100), b"left\n")
    Segments(tmp_path, process.replace("abc", "def"), 100)
    assert names(tmp_path) == [f"{process.replace(':', '_')}-000000.jsonl"]


def test_a_second_process_of_a_server_leaves_the_segment_of_the_first_one_alone(tmp_path: Path) -> None:
    first = Segments(tmp_path, PROCESS, 1_000)
    first.append(b"1\n")
    second = Segments(tmp_path, PROCESS.replace("abc", "def"), 1_000)
    first.append(b"2\n")
    second.append(b"other\n")
    first.finish()
    first.append(b"3\n")
    first.finish()
    found = [(tmp_path / name).read_bytes() for name in names(tmp_path) if "abc" in name]
    assert found == [b"1\n2\n", b"3\n"]


def test_a_segment_whose_end_the_disk_refuses_takes_no_further_lines_and_no_number_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = Segments(tmp_path, PROCESS, 1_000)
    segments.append(b"1\n")
    close = os.close

    def refused(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", refused)
        with pytest.raises(OSError, match="quota"):
            segments.finish()
    with (tmp_path / "of another part of the program").open("wb") as other:
        segments.append(b"2\n")
        segments.finish()
        assert other.tell() == 0
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"", b"1\n", b"2\n"]


def test_a_directory_that_was_removed_is_made_again(tmp_path: Path) -> None:
    segments = Segments(tmp_path / "events", PROCESS, 5)
    shutil.rmtree(tmp_path / "events")
    segments.append(b"first\n")
    assert names(tmp_path / "events") == ["session-127.0.0.1_1@abc-000000.jsonl"]


def test_a_directory_that_no_file_system_can_have_is_a_clear_error() -> None:
    with pytest.raises(StorageError, match=r"events\.path: .* cannot be written"):
        Segments(Path("a\0b"), "n@1", 1_000)
