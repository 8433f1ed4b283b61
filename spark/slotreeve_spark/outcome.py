"""What a comparison came to, and who was not ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slotreeve_spark.report.page import Page

Rows = list[dict[str, object]]
MOST_NAMES = 3


@dataclass(frozen=True)
class ComparisonOutcome:
    """What a comparison came to.

    Attributes:
        disqualified: competitors that are not ranked, each with reason, example and the number of cells concerned.
        tables: for people and programs, by title, small.
        lines: the best competitors and the recommendation, in words.
        report: the HTML file; the Parquet tables are beside it.
        seconds: of the whole comparison.
        unreadable: parts of the input that could not be read: place and problem.
        snippet: configuration to paste; empty if the comparison ends in none.
    """

    disqualified: Rows
    tables: Mapping[str, Rows]
    lines: list[str]
    report: Path
    seconds: float
    unreadable: Rows = field(default_factory=list)
    snippet: str = ""


def tell_disqualified(page: Page, disqualified: Rows) -> None:
    """Who is not ranked, and why."""
    if disqualified:
        page.heading("Disqualified")
        page.paragraph("In at least one cell these broke a rule, raised, or took too much. They are not ranked.")
        page.table(disqualified)


def within_noise(names: list[str]) -> str:
    """The end of a line about the best; empty if no other is as good. Of many, a few are named."""
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    return f"; {shown} within noise" if names else ""
