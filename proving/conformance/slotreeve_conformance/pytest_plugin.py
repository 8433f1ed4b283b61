"""``pytest --election=NAME`` checks an installed election against its contract, from any directory, without a test
file.

::

    pytest --election=fle
    pytest --election=fle --election-option lease_ms=200 --election-option ping_interval_ms=50
    pytest --election=mine --election-backend=my_package.testing:MyBackend

``NAME`` is the value of ``[election] use``, and ``--election-option`` is a line of the election's table. An election
that needs more, such as real time or a new database for each scenario, comes with a subclass of
:class:`slotreeve_conformance.election_backend.ElectionBackend`, which ``--election-backend`` names.

At the end a matrix shows each property with its result and the figure that it measured. It has every test of the
election suite that ran, also those in a project's own test files.

Every pytest loads this module where slotreeve is installed, so it imports no module of slotreeve at the top.
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
"""Names of the user properties of a test report: the property that was tested, and the figure that was measured."""
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
        help="an option of the election; NAME.KEY=VALUE if several are tested",
    )
    group.addoption(
        "--election-backend", default=INSTALLED, metavar="MODULE:CLASS", help="class that builds and runs the election"
    )
    group.addoption(
        "--election-real-time",
        action="store_true",
        help="run on real time, for an election that waits for something outside the process",
    )
    group.addoption(
        "--election-rivals", type=int, default=None, metavar="N", help="number of nodes in the long contest"
    )
    group.addoption(
        "--election-rounds", type=int, default=None, metavar="N", help="number of changes of leader in the long contest"
    )
    group.addoption(
        "--election-storms", type=int, default=None, metavar="N", help="number of histories of clients under faults"
    )
    group.addoption(
        "--election-first-storm", type=int, default=None, metavar="SEED", help="seed of the first of these histories"
    )


def pytest_configure(config: pytest.Config) -> None:
    """With ``--election`` and no file named, run the suite.

    Raises:
        pytest.UsageError: the options do not fit the elections.
    """
    if not config.getoption("election"):
        return
    from slotreeve_conformance.election_choice import choices

    config.stash[CHOICES] = choices(config)
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(SUITE)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the suite once for each named election."""
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
    """Result and figure by property and back-end, in the order of the tests in their files."""
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
