"""The lock election written down: every step that matters, for people to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.election_mysql.scripted import ScriptedRivals
from tests.transcripts import run_transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 2


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_an_election_gives_what_its_transcript_says(path: Path, rewrite_transcripts: bool) -> None:
    run_transcript(path, ScriptedRivals().play, rewrite_transcripts)
