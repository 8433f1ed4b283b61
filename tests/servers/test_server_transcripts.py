"""The transcripts of the server rooms: what data and session servers send each other, message by message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.world import World
from tests.transcripts import run_transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 4


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_holds(path: Path, rewrite_transcripts: bool) -> None:
    run_transcript(path, World().play, rewrite_transcripts)
