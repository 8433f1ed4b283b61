"""Which lane a test belongs to, by its path alone, so that a lane imports nothing of another.

A test below a folder ``soak`` is in the lane ``soak``. One below ``real`` (programs, databases and clients as users
have them), ``corpus`` (seeds that failed once), ``scenarios`` (whole clusters on virtual time) or ``long`` (whatever
else takes many seconds) is in the lane ``test``. Any other is in the lane ``check``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[2]
MARKS_OF_PROGRAMS = {"processes", "spark", "timed"}


class Lane(StrEnum):
    """A set of tests that run together; each of the first two is part of the next one's promise."""

    CHECK = "check"
    TEST = "test"
    SOAK = "soak"


FOLDERS = {"soak": Lane.SOAK, "real": Lane.TEST, "corpus": Lane.TEST, "scenarios": Lane.TEST, "long": Lane.TEST}
"""The lanes of folders, the strongest first."""


def lane_of(path: PurePath) -> Lane:
    """The lane of a test module, or of a folder."""
    return next((lane for folder, lane in FOLDERS.items() if folder in path.parts), Lane.CHECK)


def folders(lane: Lane) -> list[str]:
    """Folders of the tests of a lane, from the top of the tree. None is below another."""
    found = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*") if path.is_dir()]
    tops = [path for path in found if path.name in FOLDERS and not FOLDERS.keys() & {*path.parts[:-1]}]
    return sorted(str(path) for path in tops if lane_of(path) is lane)


def arguments(lane: Lane, *, spark: bool = False) -> Sequence[str]:
    """What pytest is given for a lane. ``spark``: the tests of the lane that share a Spark session; else the others."""
    if lane is Lane.CHECK:
        return ["tests", *(f"--ignore-glob=*/{folder}" for folder in FOLDERS)]
    return [folder for folder in folders(lane) if folder.startswith("tests/spark/") is spark]


def marks(tree: ast.Module) -> set[str]:
    """Marks of a test module that say that it starts programs."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in MARKS_OF_PROGRAMS
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
    }
