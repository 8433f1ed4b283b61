"""The runner of transcripts can fail, and can accept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts import run_transcript

COUNTED = """# Words are counted.

one two
----
2 words

# An empty answer is an answer too.
silence
----
"""


def count(command: str) -> str:
    return "" if command == "silence" else f"{len(command.split())} words\n"


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "counted.txt"
    path.write_text(COUNTED)
    return path


def test_a_transcript_that_gives_what_it_says_passes(transcript: Path) -> None:
    run_transcript(transcript, count, rewrite=False)
    assert transcript.read_text() == COUNTED


def test_another_answer_fails_and_shows_the_difference(transcript: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)-2 words.*\+3 words"):
        run_transcript(transcript, lambda command: count(f"{command} more"), rewrite=False)
    assert transcript.read_text() == COUNTED


def test_a_rewritten_transcript_passes_and_keeps_its_comments(transcript: Path) -> None:
    transcript.write_text(COUNTED.replace("2 words", "an old answer\nof two lines"))
    run_transcript(transcript, count, rewrite=True)
    assert transcript.read_text() == COUNTED


def test_a_command_may_have_several_lines(transcript: Path) -> None:
    transcript.write_text("one\ntwo three\n----\n3 words\n")
    run_transcript(transcript, count, rewrite=False)
    assert transcript.exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("# Nothing happens.\n", "holds no command"), ("one two\n", "'one two': a command is followed")],
)
def test_a_transcript_that_tests_nothing_is_refused(transcript: Path, text: str, complaint: str) -> None:
    transcript.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        run_transcript(transcript, count, rewrite=False)


def test_an_answer_with_an_empty_line_is_refused(transcript: Path) -> None:
    with pytest.raises(ValueError, match="holds an empty line"):
        run_transcript(transcript, lambda _command: "one\n\ntwo", rewrite=True)


def test_the_option_reaches_the_fixture(rewrite_transcripts: bool, pytestconfig: pytest.Config) -> None:
    assert rewrite_transcripts is pytestconfig.getoption("--rewrite-transcripts")
