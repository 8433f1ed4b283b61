"""Options and fixtures for the tests of all rooms."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import PurePath

import pytest

from tests.lanes.examples import load_profile
from tests.lanes.lanes import Lane, lane_of
from tests.lanes.programs import END_SECONDS, end_all, is_foreign, new_mark

REWRITE = "--rewrite-transcripts"
runs_in_check = False
"""Whether the test that runs now is of the lane check."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(REWRITE, action="store_true", help="accept the present output of transcripts")


mark_of_all_workers = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[mark_of_all_workers] = new_mark()
    load_profile()
    sys.addaudithook(refuse_programs_in_check)


def refuse_programs_in_check(event: str, arguments: tuple[object, ...]) -> None:
    """Fail a test of the lane check that starts a program, where it does."""
    if event == "subprocess.Popen" and runs_in_check:
        command = arguments[1]
        words = command if isinstance(command, list | tuple) else [command]
        if is_foreign(words):
            pytest.fail(f"the lane check starts no programs, move the test below real/ or soak/: {command}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global runs_in_check
    runs_in_check = lane_of(PurePath(item.path)) is Lane.CHECK
    try:
        return (yield)
    finally:
        runs_in_check = False


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Every process that a test starts is ended by it."""
    mark = new_mark()
    yield
    if left := end_all(mark, END_SECONDS):
        pytest.fail("still running at the end, and killed now:\n" + "\n".join(left), pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """What a worker leaves behind that is killed, or that crashes, is ended by the process that started the worker."""
    mark = session.config.stash.get(mark_of_all_workers, None)
    if mark is not None and (left := end_all(mark, END_SECONDS)):
        sys.stderr.write("still running after all workers, and killed now:\n" + "\n".join(left) + "\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def rewrite_transcripts(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be written; the third argument of ``run_transcript``."""
    return bool(request.config.getoption(REWRITE))
