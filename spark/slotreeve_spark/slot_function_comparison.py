"""The comparison of slot functions from end to end: run, store, judge, report."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError

from slotreeve_spark.compare import slot_functions
from slotreeve_spark.compare.keys import open_keys
from slotreeve_spark.outcome import ComparisonOutcome, Rows, tell_disqualified, within_noise
from slotreeve_spark.report import plots
from slotreeve_spark.report.charts import Palette
from slotreeve_spark.report.page import Page
from slotreeve_spark.report.results import Directory, small, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNEVEN = 0.001
"""A spread that chance makes less often than this is called less even than chance."""
DISQUALIFIED_BELOW, DISQUALIFIED_ABOVE = 1e-6, 0.1
"""A spread that chance makes less often than this, and that varies by more than this share of the mean beyond chance,
disqualifies. Both, as a test of very many keys finds differences that do not matter: crc32c is a linear code, and on
300,000 numbered names over 16,384 slots chance is as uneven once in 10 to the 20 times, by 8 % of the mean."""
SPEED = ("nanoseconds_per_key", "keys_per_second_per_core")
"""Columns that are not shown of functions that are disqualified."""
SPEED_NOISE = 0.1
"""By so much the speed of the same function differs between runs on a machine that does other things too."""


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
    out.progress.begin(3)
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
    even, bad = _judged(rows)
    lines = [line for slots in asked.slots for line in _lines(good, even, slots)]
    keys_count = max((int(str(row["keys"])) for row in good), default=0)
    lines.append(
        f"{keys_count:,} keys counted by {len(works)} functions for {len(asked.slots)} numbers of slots "
        f"in {counted:.1f} s"
    )
    good = [row if row["function"] in even else {**row, **dict.fromkeys(SPEED)} for row in good]
    moved = [row for row in small(moves.orderBy("slots", "function").drop("source")) if row["function"] in even]
    lines += [_moves_line([row for row in moved if row["slots"] == slots]) for slots in asked.slots[:-1] if moved]
    parameters = {"keys": source, **asdict(asked), **versions(session)}
    palette = Palette(str(row["function"]) for row in rows)
    page = Page("Slot functions compared")
    page.verdict(_headline(good, even, asked.slots[-1]))
    page.legend({name: palette.colour(name) for name in palette.names})
    tell_disqualified(page, bad)
    page.heading("What came of it")
    for line in lines:
        page.paragraph(line)
    out.progress.say("the report is drawn")
    page.heading("How many slots hold how many keys")
    page.figures(plots.keys_by_slot(counts, palette), "wide")
    with page.folded("Spread and speed in figures"):
        page.paragraph(
            "p_value: how likely keys thrown at random lie at least as unevenly. Near 0 is too uneven; near 1 more "
            "even than chance. collisions: pairs of keys in the same slot. Speed is of one core, hashing alone."
        )
        page.table([{name: value for name, value in row.items() if name != "error"} for row in good])
    with page.folded("What moves when the number of slots grows"):
        page.table(moved)
    if unreadable:
        with page.folded("What could not be read"):
            page.table(unreadable)
    with page.folded("What was asked, and with which versions"):
        page.parameters(parameters)
    out.write_parameters(parameters)
    report = out.write_report(page)
    seconds = time.monotonic() - began
    return ComparisonOutcome(bad, {"spread": good, "moves": moved}, lines, report, seconds, unreadable)


def _headline(rows: Rows, even: set[str], slots: int) -> str:
    """What came of the largest number of slots, in a sentence."""
    rows = [row for row in rows if row["slots"] == slots and row["function"] in even]
    if not rows:
        return "No function is left to be ranked."
    alike = sorted(str(row["function"]) for row in rows if _p(row) >= UNEVEN)
    fastest = min(rows, key=_nanoseconds)
    spread = f"{', '.join(alike)} spread as evenly as chance" if alike else "no function spreads as evenly as chance"
    speed = f"{fastest['function']} is the fastest with {_nanoseconds(fastest):,.0f} ns a key"
    return f"Over {slots:,} slots {spread}; {speed}."


def _judged(rows: Rows) -> tuple[set[str], Rows]:
    """The functions that work and are as even as chance for every number of slots; and the others, disqualified."""
    found = dict[str, dict[str, object]]()
    for row in rows:
        name, reason, what = str(row["function"]), row["error"], "everything"
        if reason is None and (beyond := _beyond_chance(row)) > DISQUALIFIED_ABOVE and _p(row) < DISQUALIFIED_BELOW:
            what = "speed and moves"
            reason = (
                f"less even than chance by chi-square (p < {DISQUALIFIED_BELOW:g}): varies by {beyond:.0%} beyond it"
            )
        if reason is not None:
            cell = "a try with few keys" if row["slots"] is None else f"{row['slots']:,} slots, {row['keys']:,} keys"
            found.setdefault(name, {"competitor": name, "reason": reason, "example": cell, "for": what})
    return {str(row["function"]) for row in rows} - found.keys(), [found[name] for name in sorted(found)]


def _lines(rows: Rows, even: set[str], slots: int) -> list[str]:
    """What came of one number of slots, in words."""
    rows = [row for row in rows if row["slots"] == slots and row["function"] in even]
    if not rows:
        return [f"{slots:,} slots: no function is left to be ranked"]
    alike = [str(row["function"]) for row in rows if _p(row) >= UNEVEN]
    lines = []
    if alike:
        said = "are as even as chance: within noise of each other" if len(alike) > 1 else "is as even as chance"
        lines.append(f"{slots:,} slots, spread: {', '.join(alike)} {said}")
    for row in rows:
        if _p(row) < UNEVEN:
            said = f"less even than chance (p = {_p(row):.1g}), by {_beyond_chance(row):.1%} of the mean"
            lines.append(f"{slots:,} slots, spread: {row['function']} is {said}")
    fastest = min(rows, key=_nanoseconds)
    near = [
        str(row["function"])
        for row in rows
        if row is not fastest and _nanoseconds(row) <= (1 + SPEED_NOISE) * _nanoseconds(fastest)
    ]
    line = f"{slots:,} slots, speed: {fastest['function']} with {_nanoseconds(fastest):,.0f} ns a key"
    lines.append(line + within_noise(near))
    return lines


def _p(row: Mapping[str, object]) -> float:
    return float(str(row["p_value"]))


def _beyond_chance(row: Mapping[str, object]) -> float:
    """The standard deviation of the counts, over their mean, that is more than that of keys thrown at random."""
    slots, keys, statistic = int(str(row["slots"])), int(str(row["keys"])), float(str(row["chi_square"]))
    return math.sqrt(max(0.0, statistic - (slots - 1)) / keys) if keys else 0.0


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
        f"({share:.0%}, where {float(str(best['least_share'])):.0%} must){within_noise(near)}"
    )


def _share(row: Mapping[str, object]) -> float:
    return float(str(row["moved_share"] or 0))
