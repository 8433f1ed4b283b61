"""The lane ``soak``: whatever is too long for the other lanes, with fresh seeds, within some minutes.

``./run soak --minutes 60``. It ends with one page, as HTML and as JSON, also if it is interrupted (Ctrl-C, SIGTERM).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import FrameType

from slotreeve_simulator.runner import simulate
from slotreeve_simulator.scenario import built_in, load_scenario

from tests.lanes.lanes import ROOT, Lane, arguments
from tests.lanes.page import Failure, Part, Soak, write_pages
from tests.lanes.programs import MARK, end_all
from tests.lanes.progress import PROGRESS, SEED

CORPUS = ROOT / "tests/simulation/corpus.txt"
ENDS = {"tests": 0.53, "spark": 0.67, "scenarios": 0.73, "properties": 0.82}
"""Share of the time after which a part is ended, so that there is some for the next; fresh seeds are the last."""
OF_SEEDS = [
    f"tests/{module}.py"
    for module in (
        "election_fle/test_fle_left_directory",
        "election_fle/test_fle_lost_votes",
        "election_fle/test_fle_moved",
        "election_fle/test_fle_outgoing",
        "election_fle/test_fle_strangers",
        "election_mysql/test_lock_lagging_replica",
    )
]
"""Modules of the lane check, beside the scenarios, that the soak repeats with fresh seeds."""
EXAMPLES = "500"
"""Examples of each property: check tries few."""
END_SECONDS = 45.0
"""Time that pytest has to end the programs that its tests have started."""


class Interrupted(Exception):
    """Somebody ended the soak."""


@dataclass
class Clock:
    """What is left of the time."""

    ends: float
    interrupted: bool = field(default=False)

    def left(self) -> float:
        """Seconds until the end; 0 once the soak is interrupted."""
        return 0.0 if self.interrupted else max(0.0, self.ends - time.monotonic())


def git(*arguments: str) -> str:
    """What git answers; empty outside of a repository."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def first_seed(day: str, commit: str) -> int:
    """The first fresh seed of a day and a commit: another day tries other seeds."""
    return int(hashlib.sha256(f"{day} {commit}".encode()).hexdigest()[:7], 16)


# --- tests -----------------------------------------------------------------------------------------------------------


def run_tests(
    name: str, given: list[str], folder: Path, seed: int, seconds: float, variables: Mapping[str, str] | None = None
) -> Part:
    """Run some tests for so long at most, with these variables of the environment. Nothing of them is left running."""
    if seconds <= 0:
        return Part(name, 0.0, [], [], _paths(given))
    progress = folder / f"{name}.jsonl"
    progress.touch()
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.lanes.progress", "-p", "no:cacheprovider", *given]
    # What a pytest around this one says of itself is not for the inner one.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**inherited, PROGRESS: str(progress), SEED: str(seed), "PYTHONPATH": str(ROOT)}
    environment |= variables or {}
    environment[MARK] = mark = f"/{uuid.uuid4().hex}"
    with open(folder / f"{name}.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            is_whole = process.wait(seconds) is not None
        except (subprocess.TimeoutExpired, Interrupted):
            is_whole = False
            _end(process)
    left_running = end_all(mark, 0.0)
    repeat = " ".join([*(f"{key}={value}" for key, value in (variables or {}).items()), "./run test"])
    part = part_of(name, progress, time.monotonic() - began, repeat)
    if is_whole and left_running:
        part.failures.append(Failure(f"{name}: left running", f"{repeat} {' '.join(given)}", "\n".join(left_running)))
    if not part.ran and not part.missed:
        if is_whole:
            part.failures.append(Failure(name, f"pytest {' '.join(given)}", f"nothing ran; see {log.name}"))
        else:
            part.missed.extend(_paths(given))
    return part


def _paths(given: list[str]) -> list[str]:
    return [each for each in given if each.partition("/")[0] == "tests"]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let pytest end its tests as by Ctrl-C, and what remains of it thereafter."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def part_of(name: str, progress: Path, seconds: float, repeat: str = "./run test") -> Part:
    """What the lines of a progress file say. ``repeat``: the command that repeats a test, before its name."""
    collected: dict[str, None] = {}
    ran: dict[str, float] = {}
    failures: dict[str, str] = {}
    for line in progress.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        if "collected" in told:
            collected |= dict.fromkeys(told["collected"])
            continue
        ran[told["id"]] = ran.get(told["id"], 0.0) + told["seconds"]
        if told["outcome"] == "failed":
            failures[told["id"]] = told["text"]
    broken = [Failure(test, f"{repeat} '{test}'", text) for test, text in failures.items()]
    return Part(name, seconds, [*ran], broken, [test for test in collected if test not in ran], ran)


# --- seeds -----------------------------------------------------------------------------------------------------------


def violation_of(scenario: str, seed: int) -> str:
    """What breaks under a seed; empty if nothing."""
    try:
        violation = simulate(load_scenario(scenario), seed).violation
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed that leads to it is worth to be kept
        return f"{type(error).__name__}: {error}"
    return str(violation or "")


def _begin_worker() -> None:
    """Ctrl-C is for the soak, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def keep(corpus: Path, scenario: str, seed: int, why: str, found: str) -> None:
    """Append a failing seed to the corpus, unless it is there."""
    line = f"{scenario} {seed}"
    text = corpus.read_text(encoding="utf-8")
    if line not in text.splitlines():
        corpus.write_text(f"{text.rstrip()}\n# {found}: {' '.join(why.split())[:300]}\n{line}\n", encoding="utf-8")


def order(first: int) -> Iterator[tuple[str, int]]:
    """Scenarios and seeds without an end: every scenario in turn, in an order of its own for each seed."""
    for seed in count(first):
        names = built_in()
        random.Random(seed).shuffle(names)
        yield from ((name, seed) for name in names)


def run_seeds(first: int, clock: Clock, corpus: Path, found: str) -> Part:
    """Simulate fresh seeds until the time is over."""
    began = time.monotonic()
    part = Part("fresh seeds", 0.0, [], [], [])
    tried, waiting = order(first), dict[Future[str], tuple[str, int]]()
    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, initializer=_begin_worker) as pool:
        try:
            while clock.left() > 0 or waiting:
                while len(waiting) < processes and clock.left() > 0:
                    scenario, seed = next(tried)
                    waiting[pool.submit(violation_of, scenario, seed)] = scenario, seed
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    scenario, seed = waiting.pop(future)
                    part.ran.append(f"{scenario} {seed}")
                    if why := future.result():
                        keep(corpus, scenario, seed, why, found)
                        command = f"./run slotreeve sim run --scenario {scenario} --seed {seed}"
                        part.failures.append(Failure(f"{scenario} {seed}", command, why))
        except Interrupted:
            for process in list((pool._processes or {}).values()):
                process.terminate()
    reached = {name.split()[0] for name in part.ran}
    part.missed.extend(f"any seed of {name}" for name in built_in() if name not in reached)
    part.seconds = time.monotonic() - began
    return part


# --- the whole -------------------------------------------------------------------------------------------------------


def soak(minutes: float, folder: Path) -> Soak:
    """Run everything within so many minutes."""
    now = datetime.now(UTC)
    commit = git("rev-parse", "--short=12", "HEAD") or "unknown"
    day = now.strftime("%Y-%m-%d")
    seed = first_seed(day, commit)
    print(
        f"soak: {minutes:g} minutes on {commit} of {day}; the first fresh seed is {seed}; pages in {folder}", flush=True
    )
    made = Soak(now.isoformat(timespec="seconds"), commit, minutes, seed, [])
    clock = Clock(time.monotonic() + 60 * minutes)

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if not clock.interrupted:
            clock.interrupted = made.interrupted = True
            raise Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    with contextlib.suppress(Interrupted):
        for name, given, variables in parts(seed):
            left = clock.left() - (1 - ENDS[name]) * 60 * minutes
            made.parts.append(run_tests(name, given, folder, seed, left, variables))
            print(f"soak: {made.parts[-1].line}", flush=True)
        made.parts.append(run_seeds(seed, clock, CORPUS, f"Found on {day} by a soak"))
        print(f"soak: {made.parts[-1].line}", flush=True)
    return made


def parts(seed: int) -> list[tuple[str, list[str], dict[str, str]]]:
    """Name, arguments and environment of each run of pytest. Bounds of time hold beside one other test."""
    fresh = {
        "SLOTREEVE_SEEDS": ",".join(map(str, range(seed, seed + 3))),
        "SLOTREEVE_SWAP_MOMENTS": ",".join(map(str, range(2, 90, 3))),
    }
    at_once = ["-n", "2", "--dist", "loadfile"]
    return [
        ("tests", [*arguments(Lane.SOAK), *at_once], {}),
        ("spark", [*arguments(Lane.SOAK, spark=True)], {}),
        ("scenarios", ["tests/scenarios", *OF_SEEDS, *at_once], fresh),
        ("properties", [*arguments(Lane.CHECK), "-m", "hypothesis", *at_once], {"SLOTREEVE_EXAMPLES": EXAMPLES}),
    ]


def main() -> int:
    """Run the soak; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it may take (default: 60)")
    parser.add_argument("--out", type=Path, default=None, help="folder of the pages (default: var/soak/DATE-TIME)")
    given = parser.parse_args()
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder: Path = (given.out or ROOT / "var/soak" / stamp).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made = soak(given.minutes, folder)
    page = write_pages(made, folder)
    print(made.summary)
    print(f"soak: {page}")
    return 1 if made.failures or made.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
