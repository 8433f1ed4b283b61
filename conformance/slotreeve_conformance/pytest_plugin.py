"""``pytest --election=NAME``: does an installed election keep its contract? From any directory, without a test file.

::

    pytest --election=fle
    pytest --election=fle --election-option lease_ms=200 --election-option ping_interval_ms=50
    pytest --election=mine --election-backend=my_package.testing:MyBackend

``NAME`` is what ``[election] use`` would be, ``--election-option`` one line of its table. An election that needs more
than that - a database that is made anew for each scenario, real time - comes with a subclass of
:class:`slotreeve_conformance.election_backend.ElectionBackend`, named by ``--election-backend``.

At the end a matrix shows each property with its result, and the figure it measured. It is shown for every test of the
election suite that ran, also for those a project has of its own.

This module is loaded with every pytest where slotreeve is installed, so it imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from slotreeve_conformance.election_choice import Choice

INSTALLED = "slotreeve_conformance.election_backend:InstalledBackend"
SUITE = Path(__file__).parent / "election_chosen.py"
FIXTURE = "election_choice"
CHOICES: pytest.StashKey[list[Choice]] = pytest.StashKey()
BACKEND_PROPERTY, FIGURE_PROPERTY = "slotreeve_backend", "slotreeve_figure"
"""Names of the properties by which a report of the suite says what it is about, and what was measured."""
MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "-"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("slotreeve", "conformance of slotreeve elections")
    group.addoption("--election", action="append", default=[], metavar="NAME", help="test this installed election")
    group.addoption(
        "--election-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the election; NAME.KEY=VALUE where several are tested",
    )
    group.addoption("--election-backend", default=INSTALLED, metavar="MODULE:CLASS", help="how it is built and run")
    group.addoption("--election-real-time", action="store_true", help="it waits for something real, a database say")
    group.addoption("--election-rivals", type=int, default=None, metavar="N", help="nodes of the long contest")
    group.addoption("--election-rounds", type=int, default=None, metavar="N", help="changes of leader in it")


def pytest_configure(config: pytest.Config) -> None:
    """With ``--election`` and no file named, the suite is what is run.

    Raises:
        pytest.UsageError: the elections cannot be run as the options say.
    """
    if not config.getoption("election"):
        return
    from slotreeve_conformance.election_choice import choices

    config.stash[CHOICES] = choices(config)
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(SUITE)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The suite runs once for each election named."""
    if FIXTURE in metafunc.fixturenames:
        found = metafunc.config.stash.get(CHOICES, [])
        metafunc.parametrize(FIXTURE, found, ids=[choice.name for choice in found], scope="class")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the matrix."""
    reports = [r for outcome in MARKS for r in terminalreporter.stats.get(outcome, []) if _told(r, BACKEND_PROPERTY)]
    if not reports:
        return
    backends = sorted({_told(report, BACKEND_PROPERTY) for report in reports})
    rows = _rows(reports)
    width = max(map(len, rows))
    terminalreporter.section("election conformance")
    terminalreporter.write_line(f"{'':{width}}  " + "  ".join(f"{name:<8}" for name in backends))
    for sentence, cells in rows.items():
        marks = "  ".join(f"{cells[name][0] if name in cells else '':<8}" for name in backends)
        terminalreporter.write_line(f"{sentence:{width}}  {marks}".rstrip())
        for name in backends:
            if name in cells and cells[name][1]:
                terminalreporter.write_line(f"    {name}: {cells[name][1]}")


def _rows(reports: Iterable[pytest.TestReport]) -> dict[str, dict[str, tuple[str, str]]]:
    """Result and figure by property and back-end, in the order in which the tests stand in their files."""
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    for report in sorted(reports, key=lambda report: (report.location[0], report.location[1] or 0)):
        function, _, parameters = report.location[2].rpartition(".")[2].partition("[")
        backend = _told(report, BACKEND_PROPERTY)
        wanted = [word for word in parameters.rstrip("]").split("-") if word not in ("", backend)]
        sentence = " ".join([function.removeprefix("test_").replace("_", " "), *(f"({word})" for word in wanted)])
        rows.setdefault(sentence, {})[backend] = (MARKS[report.outcome], _told(report, FIGURE_PROPERTY))
    return rows


def _told(report: object, name: str) -> str:
    properties: list[tuple[str, object]] = getattr(report, "user_properties", [])
    return next((str(value) for key, value in properties if key == name), "")
