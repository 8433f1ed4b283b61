"""Two checkouts against each other, in one run: pairs of benchmarks in turn, and the ratio of each figure.

Example: ``python proving/benchmarks/pairs.py --before ../before --after . --pairs 8 > ratios.json``

Each checkout needs its own ``.venv`` (``./run setup``). The order within a pair alternates, so that a machine that
slows down during the run does not favour one of them. Figures are medians over the pairs; ``ratio`` is the median of
the ratios of the pairs, ``low`` and ``high`` are its quartiles.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

MEASUREMENTS = ["latency", "throughput", "fanout", "lookups"]
FIGURES = {
    "latency p50 (ms)": ("latency", "latency_ms", "p50"),
    "latency p99 (ms)": ("latency", "latency_ms", "p99"),
    "publishes/s": ("throughput", "publishes_per_second"),
    "republishes/s": ("throughput", "republishes_per_second"),
    "bytes a publisher": ("throughput", "data_server_bytes_per_publisher"),
    "fanout p50 (ms)": ("fanout", "until_last_ms", "p50"),
    "lookup p50 (ms)": ("lookups", "one_at_a_time_ms", "p50"),
    "lookups/s": ("lookups", "lookups_per_second"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the older state")
    parser.add_argument("--after", type=Path, required=True, help="checkout of the newer state")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of the latency measurement")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=MEASUREMENTS, help="which measurements")
    given = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for number in range(given.pairs):
        for name in ("before", "after") if number % 2 == 0 else ("after", "before"):
            runs[name].append(measured(getattr(given, name), given.only, given.seconds))
            print(f"pair {number + 1} of {given.pairs}: {name} measured", file=sys.stderr)
    figures = {}
    for figure in runs["before"][0]:
        before, after = ([run[figure] for run in runs[name]] for name in ("before", "after"))
        ratios = sorted(a / b for a, b in zip(after, before, strict=True))
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        figures[figure] = {
            "before": statistics.median(before),
            "after": statistics.median(after),
            "ratio": round(middle, 3),
            "low": round(low, 3),
            "high": round(high, 3),
        }
    print(json.dumps({"pairs": given.pairs, "seconds": given.seconds, "figures": figures}, indent=2))


def measured(checkout: Path, measurements: Sequence[str], seconds: float) -> dict[str, float]:
    """The figures of one run of the benchmarks of a checkout."""
    command = [".venv/bin/slotreeve", "bench", *measurements]
    done = subprocess.run(
        [*command, "--seconds", str(seconds), "-o", "json"], cwd=checkout, capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    return {figure: _at(report, path) for figure, path in FIGURES.items() if path[0] in measurements}


def _at(report: Mapping[str, object], path: tuple[str, ...]) -> float:
    value: object = report
    for step in path:
        assert isinstance(value, Mapping)
        value = value[step]
    if isinstance(value, list):
        return float(statistics.median(value))
    assert isinstance(value, int | float)
    return float(value)


if __name__ == "__main__":
    main()
