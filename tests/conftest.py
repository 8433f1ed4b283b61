"""Options and fixtures for the tests of all rooms."""

from __future__ import annotations

import pytest

REWRITE = "--rewrite-transcripts"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(REWRITE, action="store_true", help="accept the present output of transcripts")


@pytest.fixture
def rewrite_transcripts(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be written; the third argument of ``run_transcript``."""
    return bool(request.config.getoption(REWRITE))
