"""How long ``slotreeve`` takes to its first word: ``python proving/benchmarks/cli_start.py --runs 20 > figures.json``.

Each command is run again and again as a process of its own, the commands in turn, so that what else the machine does
hits all of them. Measured are the seconds from the start of the process to its first byte of output, those to its end,
and the processor time, which another load disturbs least. A registry runs in one further process meanwhile. Exit code 1
where a median of the first word exceeds its bound, which a quiet machine keeps; ``--no-bounds``: always 0.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from slotreeve_harness.figures import percentile
from slotreeve_harness.processes import DevServer

VERSION_SECONDS, COMMAND_SECONDS = 0.15, 0.4
"""Bounds of the median of the first word: of ``--version``, and of every other command."""
TOP_SECONDS = 0.1
STARTS_SLOTREEVE = [sys.executable, "-c", "from slotreeve_cli.main import main; main()"]
"""As the script that pip installs."""
COMMANDS = (
    "--version",
    "--help",
    "slot-of com.example.Greeter",
    "plugins list",
    "plugins new --help",
    "config check",
    "config show",
    "leader",
    "status",
    "members",
    "slots",
    "counters",
    "ls",
    "clients",
    "publish com.example.Greeter 10.0.0.1:80 --for 0",
    f"top -n 1 --interval {TOP_SECONDS} -o json",
    "admin show",
)


@dataclass
class Times:
    """What was measured of one command, in seconds."""

    first_word: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def measure(words: Sequence[str], environment: dict[str, str], times: Times) -> None:
    """Run a command once.

    Raises:
        RuntimeError: it says nothing, or ends with an exit code above 1.
    """
    before, began = _processor_of_children(), time.perf_counter()
    with subprocess.Popen(
        [*STARTS_SLOTREEVE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        times.first_word.append(time.perf_counter() - began)
        rest = process.stdout.read()
        code = process.wait()
    times.end.append(time.perf_counter() - began)
    times.processor.append(_processor_of_children() - before)
    if not first or code > 1:
        raise RuntimeError(f"slotreeve {' '.join(words)} ended with {code}: {(first + rest).decode(errors='replace')}")


def _processor_of_children() -> float:
    used = os.times()
    return used.children_user + used.children_system


def figures(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    shares = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {name: round(1000 * percentile(seconds, share), 1) for name, share in shares.items()}


def bound_of(command: str) -> float:
    """Seconds to the first word. ``top`` prints after its first interval."""
    if command == "--version":
        return VERSION_SECONDS
    return COMMAND_SECONDS + (TOP_SECONDS if command.startswith("top") else 0.0)


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs of each command")
    parser.add_argument("--no-bounds", action="store_true", help="exit with 0 whatever was measured")
    given = parser.parse_args()
    taken = {command: Times() for command in COMMANDS}
    with DevServer() as dev:
        # An installed package has its bytecode beside it.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {
            **inherited,
            "SLOTREEVE_META": dev.meta_address,
            "SLOTREEVE_SESSION": dev.session_address,
            "COLUMNS": "100",
        }
        for number in range(given.runs + 1):
            for command, times in taken.items():
                # The first run reads files that the others find in memory.
                measure(command.split(), environment, times if number else Times())
    rows = {
        command: {
            "first_word_ms": figures(times.first_word),
            "end_ms": figures(times.end),
            "processor_ms": figures(times.processor),
        }
        for command, times in taken.items()
    }
    late = [command for command, times in taken.items() if percentile(times.first_word, 0.5) > bound_of(command)]
    machine = {"python": platform.python_version(), "processors": os.cpu_count(), "load": os.getloadavg()[0]}
    print(json.dumps({"machine": machine, "runs": given.runs, "late": late, "commands": rows}, indent=1))
    return 1 if late and not given.no_bounds else 0


if __name__ == "__main__":
    sys.exit(main())
