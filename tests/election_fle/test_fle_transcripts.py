"""Elections written down: every step of every server, for people to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.election_fle.scripted import ScriptedEnsemble
from tests.transcripts import run_transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 3


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_an_election_gives_what_its_transcript_says(path: Path, rewrite_transcripts: bool) -> None:
    run_transcript(path, ScriptedEnsemble().play, rewrite_transcripts)
