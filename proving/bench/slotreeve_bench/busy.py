"""The demonstration beside programs that take the processor from it.

Each run is a process of its own, whose servers inherit the processors that it may use. The busy loops are processes of
the measurement, on the same processors.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotreeve.errors import ClientError
from slotreeve_harness.processes import ClusterSize

RUN_SECONDS = 1_200.0
LOOP = "while True: pass"
ENDS = {"compare before": "subscribe", "compare after": "kills"}
"""A comparison of all views ends the phase before it, and its time counts there: alone it takes some hundredths of a
second, which is less than the busy loops are let run at a time."""


@dataclass(frozen=True)
class BusyPlan:
    """How much is run: so many ``runs`` with each number of busy ``loops``, on one processor and on all of them, of a
    demonstration with so many ``services``."""

    runs: int = 5
    one_processor: tuple[int, ...] = (0, 1, 3, 7)
    all_processors: tuple[int, ...] = (0, 4, 8)
    services: int = 2_000


@dataclass(frozen=True)
class Setting:
    """The processors of a run, and the busy loops beside it."""

    processors: frozenset[int]
    loops: int

    @property
    def share(self) -> float:
        """The share of its processors that is left for one process of the run."""
        return 1.0 / max(1.0, 1.0 + self.loops / len(self.processors))


async def measure_busy(size: ClusterSize, plan: BusyPlan, report: Callable[[str], None]) -> dict[str, object]:
    """Run the demonstration in every setting.

    Raises:
        ClientError: a run ended without a report; the message holds the end of its output.
    """
    every = frozenset(os.sched_getaffinity(0))
    settings = {f"one_processor_{loops}": Setting(frozenset({min(every)}), loops) for loops in plan.one_processor}
    settings |= {f"all_processors_{loops}": Setting(every, loops) for loops in plan.all_processors}
    figures: dict[str, object] = {"runs": plan.runs, "services": plan.services}
    quiet: dict[str, dict[str, float]] = {}
    for name, setting in settings.items():
        done = []
        for number in range(plan.runs):
            report(f"run {number + 1} of {plan.runs}: {name}")
            done.append(await asyncio.to_thread(_run, size, plan, setting))
        where = name.rpartition("_")[0]
        phases = [_phases(run["seconds_of"]) for run in done]
        seconds = {phase: round(_median([run[phase] for run in phases]), 3) for phase in phases[0]}
        quiet.setdefault(where, seconds)
        figures[name] = {
            "held": sum(run["held"] for run in done),
            **{kind: sum(len(run[kind]) for run in done) for kind in ("missing", "stale", "vanished")},
            "reconnections_without_a_death": sum(run["reconnections_without_a_death"] for run in done),
            "seconds_of": seconds,
            "times_what_the_share_explains": {
                phase: round(seconds[phase] * setting.share / quiet[where][phase], 2) for phase in seconds
            },
        }
    return figures


def _phases(seconds_of: Mapping[str, float]) -> dict[str, float]:
    """The seconds of each phase, its comparison included."""
    found: dict[str, float] = {}
    for name, seconds in seconds_of.items():
        phase = ENDS.get(name, name)
        found[phase] = found.get(phase, 0.0) + seconds
    return found


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _run(size: ClusterSize, plan: BusyPlan, setting: Setting) -> Any:
    """One run of the demonstration; its report."""
    with tempfile.TemporaryDirectory(prefix="slotreeve-busy-") as directory, _busy_loops(setting):
        names = Path(directory) / "names.txt"
        names.write_text("".join(f"bench.busy.Service{number}\n" for number in range(plan.services)))
        counts = {"--meta": size.meta, "--data": size.data, "--session": size.session}
        flags = [part for flag, count in counts.items() for part in (flag, str(count))]
        command = [sys.executable, "-m", "slotreeve_cli", "demo", "--names", str(names), "-o", "json", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            os.sched_setaffinity(process.pid, setting.processors)  # before it has started any other
            output, errors = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
            process.wait()
    try:
        return json.loads(output)
    except ValueError:
        raise ClientError(f"a run ended without a report: {errors[-2000:]}") from None


@contextmanager
def _busy_loops(setting: Setting) -> Iterator[None]:
    """Busy loops on the processors of the setting, ended with the block."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(setting.loops)]
    try:
        for loop in loops:
            os.sched_setaffinity(loop.pid, setting.processors)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
