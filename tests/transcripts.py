"""Transcripts: text files that play commands and show what came of each, for people to read and for tests to compare.

A transcript is a list of blocks, parted by empty lines:

    # A comment; it may stand anywhere between blocks.
    a command, of one line or several
    ----
    what the command gave, up to the next empty line

Write the commands, leave the answers empty, run ``pytest --rewrite-transcripts``, and read the difference before you
commit it. The idea, and the four dashes, are those of the data-driven tests of etcd's raft.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

DASHES = "----"


def run_transcript(path: Path, play: Callable[[str], str], rewrite: bool) -> None:
    """Give each command of the file at ``path`` to ``play`` and compare what it returns with what the file says.

    ``rewrite``: put what ``play`` returned into the file instead.

    Raises:
        AssertionError: an answer is another one than the file says; shows the difference.
        ValueError: the file holds no command, or ``play`` returned an empty line, which would end its block.
    """
    expected = path.read_text()
    blocks = [_played(block, play) for block in _blocks(expected)]
    if not any(DASHES in block.splitlines() for block in blocks):
        raise ValueError(f"{path}: holds no command; a command is followed by a line {DASHES!r}")
    actual = "\n\n".join(blocks) + "\n"
    if rewrite:
        path.write_text(actual)
        return
    difference = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), f"{path.name}, expected", f"{path.name}, played", lineterm=""
    )
    assert actual == expected, "\n".join(["pytest --rewrite-transcripts accepts this:", *difference])


def _blocks(text: str) -> list[str]:
    return [block.strip("\n") for block in text.split("\n\n") if block.strip("\n")]


def _played(block: str, play: Callable[[str], str]) -> str:
    """The block with the answer that was played; a block of comments only stays as it is."""
    lines = block.splitlines()
    if DASHES not in lines:
        unfinished = [line for line in lines if not line.startswith("#")]
        if unfinished:
            raise ValueError(f"{unfinished[0]!r}: a command is followed by a line {DASHES!r}")
        return block
    head = lines[: lines.index(DASHES)]
    command = "\n".join(line for line in head if not line.startswith("#"))
    answer = play(command).strip("\n")
    if "\n\n" in answer:
        raise ValueError(f"{command!r}: its answer holds an empty line, which would end the block")
    return "\n".join([*head, DASHES, *answer.splitlines()])
