"""What a comparison came to, for people or programs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from slotreeve_cli.options import Output

if TYPE_CHECKING:
    from slotreeve_spark.outcome import ComparisonOutcome

NARROWEST = 40
_SPREAD = (
    "function",
    "slots",
    "slots_after",
    "keys",
    "moved_share",
    "least_share",
    "most_over_mean",
    "variation",
    "p_value",
    "empty",
    "nanoseconds_per_key",
)
"""Columns of slot functions for the terminal; the report and JSON have all."""
_TRADE_OFF = ("competitor", "moves", "uneven_share", "unready_slot_seconds", "front", "score", "verdict")


def print_outcome(outcome: ComparisonOutcome, output: Output, only: Sequence[str] = ()) -> None:
    """Print it: as JSON everything; else tables that fit the terminal, who is disqualified first. ``only``: the names
    of the tables that are shown on a terminal, if not all."""
    from slotreeve_cli.printing import print_json

    if output is Output.JSON:
        print_json(
            {
                "disqualified": outcome.disqualified,
                "tables": outcome.tables,
                "verdicts": outcome.lines,
                "unreadable": outcome.unreadable,
                "snippet": outcome.snippet,
                "report": str(outcome.report),
                "seconds": round(outcome.seconds, 2),
            }
        )
        return
    if outcome.disqualified:
        _print_table("disqualified: not ranked", outcome.disqualified)
    for name, rows in outcome.tables.items():
        if rows and (not only or name in only):
            _print_named(name, rows)
    recommended = [line for line in outcome.lines if ", recommended: " in line]
    for line in recommended if outcome.tables.get("summary") else outcome.lines:
        print_line(line)
    if outcome.snippet:
        typer.echo(f"\n{outcome.snippet}\n")
    if outcome.unreadable:
        _print_table("what could not be read", outcome.unreadable)
    number = len(outcome.disqualified)
    said = f"; {number} disqualified" if number else ""
    typer.echo(f"report: {outcome.report} ({outcome.seconds:.1f} s{said})")


def _print_named(name: str, rows: Sequence[Mapping[str, object]]) -> None:
    from slotreeve_spark.report.terminal import side_by_side

    if name == "summary":
        for setting, table in side_by_side(rows):
            _print_table(f"{setting}: mean (95 % interval), less is better", table)
    elif name == "trade_off":
        for setting in dict.fromkeys(str(row["setting"]) for row in rows):
            shown = [_columns(row, _TRADE_OFF) for row in rows if row["setting"] == setting]
            _print_table(f"{setting}: trade-off (front: no other beats it in all three figures)", shown)
    else:
        _print_table(name, [_columns(row, _SPREAD) for row in rows])


def _columns(row: Mapping[str, object], chosen: Sequence[str]) -> dict[str, object]:
    return {name.replace("_", " "): row[name] for name in chosen if name in row}


def _print_table(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    from slotreeve.model.text import in_a_line
    from slotreeve_spark.report.terminal import fitted

    print_line(title)
    typer.echo("\n".join(map(in_a_line, fitted(rows, width()))) + "\n")


def print_line(text: str) -> None:
    """Print a sentence, wrapped to the terminal."""
    import textwrap

    from slotreeve.model.text import in_a_line

    lines = textwrap.wrap(in_a_line(text), width(), subsequent_indent="  ", break_on_hyphens=False)
    typer.echo("\n".join(lines))


def width() -> int:
    """Columns of the terminal."""
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)
