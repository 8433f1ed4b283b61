"""The three comparisons from end to end: run, store, sum up, report."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError

from slotreeve_spark.compare import balancers, elections, slot_functions
from slotreeve_spark.compare.competition import Criterion, summarize
from slotreeve_spark.compare.keys import open_keys
from slotreeve_spark.report import plots
from slotreeve_spark.report.page import Page
from slotreeve_spark.report.results import Directory, small, versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, object]]
UNEVEN = 0.001
"""A spread that chance makes less often than this is called uneven."""
SPEED_NOISE = 0.1
"""By so much the speed of the same function differs between runs on a machine that does other things too."""


@dataclass(frozen=True)
class ComparisonOutcome:
    """What a comparison came to.

    Attributes:
        tables: for people and programs, by title, small.
        lines: the best competitors, in words.
        failed: what did not work: competitor and error.
        report: the HTML file; the Parquet tables are beside it.
        seconds: of the whole comparison.
    """

    tables: Mapping[str, Rows]
    lines: list[str]
    failed: Rows
    report: Path
    seconds: float


# --- slot functions --------------------------------------------------------------------------------------------------


def compare_slot_functions(
    session: SparkSession, source: str, column: str, asked: slot_functions.SlotFunctionQuestion, out: Directory
) -> ComparisonOutcome:
    """Compare on the keys of ``source``; tables ``spreads``, ``moves``, ``counts`` and ``unreadable``.

    Raises:
        ConfigError: there are no keys.
        StorageError: the results cannot be written.
    """
    from pyspark.sql import functions as f

    began = time.monotonic()
    keys = open_keys(session, source, column)
    broken = slot_functions.probe(session, asked)
    works = tuple(name for name in asked.functions if name not in broken)
    fit = slot_functions.SlotFunctionQuestion(works, asked.slots, asked.timeout_seconds)
    counts = out.write("counts", slot_functions.count(keys, fit))
    counted = time.monotonic() - began
    spread = out.write("spreads", slot_functions.spreads(counts, fit, broken).withColumn("source", f.lit(source)))
    moves = out.write("moves", slot_functions.moves(counts).withColumn("source", f.lit(source)))
    unreadable: Rows = []
    if keys.unreadable is not None:
        unreadable = small(out.write("unreadable", keys.unreadable))
    rows = small(spread.orderBy("slots", "function").drop("source"))
    good = [row for row in rows if row["error"] is None]
    if good and not any(row["keys"] for row in good):
        raise ConfigError(f"--keys {source}: there are no keys in it")
    failed: Rows = [{"competitor": row["function"], "error": row["error"]} for row in rows if row["error"] is not None]
    failed += [{"competitor": row["place"], "error": row["problem"]} for row in unreadable]
    lines = [line for slots in asked.slots for line in _spread_lines([r for r in good if r["slots"] == slots], slots)]
    keys_count = max((int(str(row["keys"])) for row in good), default=0)
    lines.append(
        f"{keys_count:,} keys counted by {len(works)} functions for {len(asked.slots)} numbers of slots "
        f"in {counted:.1f} s"
    )
    moved = small(moves.orderBy("slots", "function").drop("source"))
    lines += [_moves_line([row for row in moved if row["slots"] == slots]) for slots in asked.slots[:-1] if moved]
    page = Page("Slot functions compared")
    parameters = {"keys": source, **asdict(asked), **versions(session)}
    page.parameters(parameters)
    _tell(page, lines, failed)
    page.heading("Spread")
    page.paragraph(
        "p_value: how likely keys thrown at random lie at least as unevenly. Near 0 is too uneven; near 1 more even "
        "than chance. collisions: pairs of keys in the same slot. Speed is of one core, hashing alone."
    )
    page.table([{name: value for name, value in row.items() if name != "error"} for row in good])
    for caption, svg in plots.keys_by_slot(counts):
        page.figure(caption, svg)
    page.heading("What moves when the number of slots grows")
    page.table(moved)
    out.write_parameters(parameters)
    report = out.write_report(page)
    return ComparisonOutcome({"spread": good, "moves": moved}, lines, failed, report, time.monotonic() - began)


def _spread_lines(rows: Rows, slots: int) -> list[str]:
    if not rows:
        return []
    lines = []
    uneven = [str(row["function"]) for row in rows if float(str(row["p_value"])) < UNEVEN]
    even = [str(row["function"]) for row in rows if str(row["function"]) not in uneven]
    best = min(rows, key=lambda row: float(str(row["variation"] or 0)))
    if len(even) > 1:
        lines.append(f"{slots:,} slots, spread: {', '.join(even)} are as even as chance: within noise of each other")
    elif even:
        lines.append(f"{slots:,} slots, spread: {even[0]} is as even as chance")
    else:
        lines.append(f"{slots:,} slots, spread: {best['function']} is least uneven")
    if uneven:
        lines.append(f"{slots:,} slots, spread: {', '.join(uneven)} less even than chance (p < {UNEVEN:g})")
    fastest = min(rows, key=_nanoseconds)
    near = [row["function"] for row in rows if _nanoseconds(row) <= (1 + SPEED_NOISE) * _nanoseconds(fastest)]
    line = f"{slots:,} slots, speed: {fastest['function']} with {_nanoseconds(fastest):,.0f} ns a key"
    lines.append(line + _noise(str(name) for name in near if name != fastest["function"]))
    return lines


def _nanoseconds(row: Mapping[str, object]) -> float:
    return float(str(row["nanoseconds_per_key"]))


def _moves_line(rows: Rows) -> str:
    """Which function moves fewest keys in one step; two standard deviations of a share of so many keys are noise."""
    best = min(rows, key=_share)
    keys, share = int(str(best["keys"])), _share(best)
    noise = 2 * math.sqrt(2 * share * (1 - share) / keys) if keys else 0.0
    near = [str(row["function"]) for row in rows if row is not best and _share(row) <= share + noise]
    return (
        f"{best['slots']:,} to {best['slots_after']:,} slots: {best['function']} moves fewest keys "
        f"({share:.0%}, where {float(str(best['least_share'])):.0%} must){_noise(near)}"
    )


def _share(row: Mapping[str, object]) -> float:
    return float(str(row["moved_share"] or 0))


def _noise(names: Iterable[str]) -> str:
    near = ", ".join(names)
    return f"; {near} within noise" if near else ""


# --- balancers and elections -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellComparison:
    """How cells are compared and shown.

    Attributes:
        parameters: what was asked, for the report.
        criteria: columns of the cells; less is better.
        setting: SQL expression that names the setting of a cell.
        pairing: columns by which cells of different competitors belong together.
        figures: heading of the report's last figures, and what draws them (caption, SVG) from the cells.
    """

    title: str
    parameters: Mapping[str, object]
    criteria: tuple[Criterion, ...]
    setting: str
    pairing: tuple[str, ...]
    figures: tuple[str, Callable[[DataFrame], Iterable[tuple[str, str]]]]


def compare_balancers(session: SparkSession, asked: balancers.BalancerQuestion, out: Directory) -> ComparisonOutcome:
    """Compare on traces; tables ``cells`` and ``summary``. Raises StorageError: the results cannot be written."""
    shown = {
        name: getattr(asked, name)
        for name in ("balancers", "assigners", "replicas", "seeds", "round_seconds", "timeout_seconds")
    }
    shown["sizes"] = [f"{slots} slots on {servers} servers" for slots, servers in asked.sizes]
    shown["traces"] = [trace.name for trace in asked.traces] or list(asked.kinds)
    comparison = CellComparison(
        "Balancers compared",
        shown,
        balancers.CRITERIA,
        setting="concat(slots, ' slots, ', servers, ' servers')",
        pairing=("trace", "seed"),
        figures=("Moves over time", plots.moves_over_time),
    )
    return _compare_cells(session, out, balancers.compare(session, asked), comparison)


def compare_elections(session: SparkSession, asked: elections.ElectionQuestion, out: Directory) -> ComparisonOutcome:
    """Compare in simulation; tables ``cells`` and ``summary``. Raises StorageError: the results cannot be written."""
    comparison = CellComparison(
        "Elections compared",
        asdict(asked),
        elections.CRITERIA,
        setting="concat('leader ', scenario, ', ', nodes, ' nodes')",
        pairing=("scenario", "nodes", "seed"),
        figures=("Time to the next leader", plots.fail_over_distribution),
    )
    return _compare_cells(session, out, elections.compare(session, asked), comparison)


def _compare_cells(
    session: SparkSession, out: Directory, cells: DataFrame, comparison: CellComparison
) -> ComparisonOutcome:
    began, criteria = time.monotonic(), comparison.criteria
    stored = out.write("cells", cells)
    summary = small(out.write("summary", summarize(stored, criteria, comparison.setting, comparison.pairing)))
    order = [criterion.column for criterion in criteria]
    summary.sort(key=lambda r: (r["setting"], order.index(str(r["criterion"])), r["mean"], r["competitor"]))
    failed = small(
        stored.where("status <> 'ok'").groupBy("competitor", "status", "error").count().orderBy("competitor", "error")
    )
    lines = _verdict_lines(summary)
    everything = {**comparison.parameters, **versions(session)}
    page = Page(comparison.title)
    page.parameters(everything)
    _tell(page, lines, failed)
    what = {criterion.column: criterion.what for criterion in criteria}
    page.heading("Criteria")
    page.paragraph(
        "Less is better. low and high: the interval that holds the mean with 95 % confidence (bootstrap over the "
        "cells). behind: how much more it took than the best on the same trace and seed, with its interval; where that "
        "holds 0, the difference is within noise."
    )
    page.table([{**row, "criterion": str(row["criterion"]).replace("_", " ")} for row in summary])
    for caption, svg in plots.means(summary, what):
        page.figure(caption, svg)
    heading, draw = comparison.figures
    page.heading(heading)
    for caption, svg in draw(stored):
        page.figure(caption, svg)
    out.write_parameters(everything)
    report = out.write_report(page)
    return ComparisonOutcome({"summary": summary}, lines, failed, report, time.monotonic() - began)


def _verdict_lines(summary: Rows) -> list[str]:
    groups: dict[tuple[str, str], Rows] = {}
    for row in summary:
        groups.setdefault((str(row["setting"]), str(row["criterion"])), []).append(row)
    lines = []
    for (setting, criterion), rows in groups.items():
        best = next(row for row in rows if row["verdict"] == "best")
        noise = [str(row["competitor"]) for row in rows if row["verdict"] == "within noise"]
        line = f"{setting}, {criterion.replace('_', ' ')}: {best['competitor']} ({float(str(best['mean'])):.3g})"
        lines.append(line + _noise(noise))
    return lines


def _tell(page: Page, lines: list[str], failed: Rows) -> None:
    page.heading("Best")
    for line in lines:
        page.paragraph(line)
    if failed:
        page.heading("What failed")
        page.table(failed)
