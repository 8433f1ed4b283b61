"""Options, fixtures and marks for the tests of all rooms."""

from __future__ import annotations

from pathlib import Path

import pytest

REWRITE = "--rewrite-transcripts"

TESTS = Path(__file__).parent
SEARCHES = (
    "simulation/",
    "election_fle/test_fle_chaos.py",
    "election_fle/test_fle_duel.py",
    "election_mysql/test_lock_chaos.py",
    "balancer/test_contracts.py",
    "balancer/test_speed.py",
)
"""They run the same code for many seeds, or measure time. Measuring coverage would triple their time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(REWRITE, action="store_true", help="accept the present output of transcripts")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the searches: ``./run test`` runs them apart, and no coverage is measured there."""
    for item in items:
        if item.path.is_relative_to(TESTS) and str(item.path.relative_to(TESTS)).startswith(SEARCHES):
            item.add_marker(pytest.mark.search)


@pytest.fixture
def rewrite_transcripts(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be written; the third argument of ``run_transcript``."""
    return bool(request.config.getoption(REWRITE))
