"""A plugin for pytest that writes down what is to run and what has run, line by line, so that nothing is lost if it is
interrupted: ``pytest -p tests.lanes.progress``. It is set up by two variables of the environment.

SOAK_PROGRESS names the file. SOAK_SEED, where it is set, gives the order of the tests: short soaks reach all of them in
the end.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from typing import Any

import pytest

PROGRESS, SEED = "SOAK_PROGRESS", "SOAK_SEED"


def _write(line: dict[str, object]) -> None:
    with open(os.environ[PROGRESS], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the modules: tests of one module share what is dear to start."""
    if SEED in os.environ:
        modules = sorted({item.path for item in items})
        random.Random(os.environ[SEED]).shuffle(modules)
        place = {path: number for number, path in enumerate(modules)}
        items.sort(key=lambda item: place[item.path])
    if not _is_worker(config) and not config.getoption("numprocesses", None):
        _write({"collected": [item.nodeid for item in items]})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """All workers collect the same."""
    _write({"collected": list(ids)})


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """The controller sees every report of its workers."""
    is_told = report.when == "call" or report.outcome != "passed"
    if is_told and "PYTEST_XDIST_WORKER" not in os.environ:
        told: dict[str, object] = {"id": report.nodeid, "outcome": report.outcome}
        told["seconds"] = round(report.duration, 2)
        told["text"] = "" if report.passed else str(report.longrepr)[-4000:]
        _write(told)
