"""Mutants of servers, client and plugins, drawn by a seed: which of them does the lane check find?

``python -m tests.mutants --seed 34 --count 40`` works on copies of the tree. It runs mypy and then the tests of check,
those of the mutant's room first, until something fails. A mutant that check misses is tried with the paths that are
named by ``--then``. The list is written as JSON; what was found according to it is not tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from queue import Queue

from tests.lanes.lanes import ROOT, Lane, arguments, lane_of
from tests.lanes.soak import git
from tests.lints.rooms import PACKAGES
from tests.mutants.operators import Change, choose

FOLDERS = ("servers", "client", "plugins")
NEAR = {
    "servers": ["servers", "simulation", "scenarios"],
    "client": ["client", "scenarios"],
    "slotfunc": ["slotfunc", "kernel"],
    "balancer": ["balancer"],
    "election_fle": ["election_fle", "scenarios"],
    "election_mysql": ["election_mysql", "scenarios"],
    "transport_zmq": ["transport"],
    "transport_memory": ["transport", "simulation"],
}
"""Tests that are the first to try, by room."""
SECONDS = 1_500.0


@dataclass
class Mutant:
    """One change, and what found it: ``types``, a test, or nothing (empty). ``why``: somebody's word why it changes
    nothing that can be seen."""

    place: str
    before: str
    after: str
    found_by: str = ""
    seconds: float = 0.0
    why: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What says that two are the same."""
        return self.place, self.before, self.after


def drawn(count: int, seed: int) -> list[tuple[Mutant, str, Change]]:
    """Mutants with their files and changes."""
    files = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
    modules = [(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")) for file in files]
    texts = dict(modules)
    made = []
    for path, change in choose(modules, count, seed):
        line = texts[path].splitlines()[change.line - 1].strip()
        mutated = change.applied_to(texts[path])
        after = mutated[texts[path].rfind("\n", 0, change.start) + 1 :].splitlines()[0].strip()
        made.append((Mutant(f"{path}:{change.line}", line, after), path, change))
    return made


@contextmanager
def copies(count: int) -> Iterator[Queue[Path]]:
    """So many copies of the tree."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        queue: Queue[Path] = Queue()
        for number in range(count):
            tree = Path(folder) / str(number)
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", "var", "__pycache__"))
            queue.put(tree)
        yield queue


def environment(tree: Path) -> dict[str, str]:
    """Modules come from the copy, not from where the distribution is installed."""
    rooms = [str(tree / room) for room in sorted({*PACKAGES.values()})]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), *rooms])}


def first_failure(tree: Path, given: Sequence[str]) -> str:
    """The first test that fails, or empty."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line", *given]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment(tree), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "a run without an end"
    if done.returncode in (0, 5):
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return lines[0].partition(" ")[2].partition(" - ")[0] if lines else f"pytest ended with {done.returncode}"


def try_one(mutant: Mutant, path: str, change: Change, trees: Queue[Path], lanes: Sequence[Sequence[str]]) -> Mutant:
    """Look for one mutant in one of the copies."""
    tree = trees.get()
    began = time.monotonic()
    original = (tree / path).read_text(encoding="utf-8")
    try:
        (tree / path).write_text(change.applied_to(original), encoding="utf-8")
        types = subprocess.run(
            [sys.executable, "-m", "mypy"], cwd=tree, env={**os.environ}, capture_output=True, text=True, check=False
        )
        if types.returncode:
            mutant.found_by = "types"
        for given in lanes:
            mutant.found_by = mutant.found_by or first_failure(tree, given)
        (tree / path).write_text(original, encoding="utf-8")
        if "::" in mutant.found_by and first_failure(tree, [mutant.found_by]):
            print(f"{mutant.found_by} fails without a mutant, too", flush=True)
            mutant.found_by = ""
    finally:
        (tree / path).write_text(original, encoding="utf-8")
        trees.put(tree)
    mutant.seconds = round(time.monotonic() - began, 1)
    print(f"{mutant.place}: {mutant.before}  ->  {mutant.after}\n  {mutant.found_by or 'MISSED'}", flush=True)
    return mutant


def near(path: str) -> list[str]:
    """Tests of check that are nearest to a module."""
    room = path.split("/")[1] if path.startswith("plugins/") else path.split("/")[0]
    return [f"tests/{folder}" for folder in NEAR.get(room, []) if (ROOT / "tests" / folder).exists()]


def main() -> int:
    """Try them; 0 if each was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tried at once")
    parser.add_argument("--then", nargs="*", default=[], help="tests of other lanes that look for what check misses")
    parser.add_argument("--out", type=Path, default=Path("var/mutants.json"), help="the list, read before and written")
    given = parser.parse_args()
    known = {}
    if given.out.exists():
        known = {each.key: each for each in (Mutant(**line) for line in json.loads(given.out.read_text())["mutants"])}
    todo = drawn(given.count, given.seed)
    check = arguments(Lane.CHECK)
    ignored = list(check[1:])

    def done(item: tuple[Mutant, str, Change]) -> Mutant:
        mutant, path, change = item
        if (before := known.get(mutant.key)) and (before.found_by or before.why):
            return before
        lanes = [given.then] if before and given.then else [[*near(path), *ignored], check]
        return try_one(mutant, path, change, trees, lanes)

    with copies(given.jobs) as trees, ThreadPoolExecutor(given.jobs) as pool:
        mutants = list(pool.map(done, todo))
    missed = [mutant for mutant in mutants if not (mutant.found_by or mutant.why)]
    check_found = [mutant for mutant in mutants if mutant.found_by and lane_of(PurePath(mutant.found_by)) is Lane.CHECK]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    listed = {
        "commit": git("rev-parse", "--short", "HEAD"),
        "seed": given.seed,
        "found_by_check": len(check_found),
        "mutants": [asdict(each) for each in mutants],
    }
    given.out.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    print(f"{len(check_found)} of {len(mutants)} found by check, {len(missed)} by nothing")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
