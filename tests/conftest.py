"""Options and fixtures for the tests of all rooms."""

from __future__ import annotations

import pytest

REWRITE = "--rewrite-transcripts"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(REWRITE, action="store_true", help="accept what transcripts give now as what they should give")


@pytest.fixture
def rewrite_transcripts(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be written anew; the third argument of ``run_transcript``."""
    return bool(request.config.getoption(REWRITE))
