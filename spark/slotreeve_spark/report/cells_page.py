"""The report of a comparison of cells (balancers, elections). Pure: rows in, a page out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slotreeve_spark.outcome import Rows, tell_disqualified
from slotreeve_spark.report import plots
from slotreeve_spark.report.charts import Palette
from slotreeve_spark.report.page import Page
from slotreeve_spark.report.terminal import side_by_side
from slotreeve_spark.verdicts import TRADE_OFF_EXPLAINED

CRITERIA_EXPLAINED = (
    "Less is better. low and high: the interval that holds the mean with 95 % confidence (bootstrap over the "
    "cells). behind: how much more it took than the best on the same trace and seed, with its interval; where that "
    "holds 0, the difference is within noise. not counted, and drawn faintly in parentheses: the criterion "
    "rewards doing nothing, and this competitor does not end even."
)


@dataclass(frozen=True)
class ComparedCells:
    """What a report shows.

    Attributes:
        headlines: what the whole came to, in sentences.
        parameters: what was asked, and with which versions.
        summary, trades, disqualified: the rows of the tables.
        what: the meaning of each criterion.
        curves: heading, and captions with plots.
    """

    title: str
    headlines: list[str]
    parameters: Mapping[str, object]
    summary: Rows
    what: Mapping[str, str]
    curves: tuple[str, Iterable[tuple[str, str]]]
    trades: Rows = field(default_factory=list)
    disqualified: Rows = field(default_factory=list)


def palette_of(summary: Rows) -> Palette:
    """The looks of the competitors of a summary."""
    return Palette(str(row["competitor"]) for row in summary)


def cells_page(found: ComparedCells) -> Page:
    """The verdict first, then pictures, then the tables, folded."""
    page, palette = Page(found.title), palette_of(found.summary)
    for line in found.headlines:
        page.verdict(line)
    if palette.names:
        page.legend({palette.label(name): palette.colour(name) for name in palette.names})
    tell_disqualified(page, found.disqualified)
    if found.trades:
        page.heading("Trade-off")
        page.paragraph(
            "Down and to the left is better. A ring marks the recommended one. Who does not end even is faint and in "
            "parentheses. The dotted line joins those of the others that no other beats in both figures."
        )
        page.figures(plots.trade_offs(found.trades, palette), "one")
        with page.folded("Trade-off in figures"):
            page.paragraph(TRADE_OFF_EXPLAINED)
            page.table(found.trades)
    _criteria(page, found, palette)
    heading, drawn = found.curves
    curves = [(caption, svg) for caption, svg in drawn if svg]
    if curves:
        page.heading(heading)
        page.figures(curves, "wide")
    with page.folded("What was asked, and with which versions"):
        page.parameters(found.parameters)
    return page


def _criteria(page: Page, found: ComparedCells, palette: Palette) -> None:
    if not found.summary:
        return
    page.heading("Criterion by criterion")
    page.paragraph("Less is better. Each bar is a mean, with the interval that holds it with 95 % confidence.")
    drawn = list(plots.means(found.summary, found.what, palette))
    settings = list(dict.fromkeys(setting for setting, _, _ in drawn))
    for setting in settings:
        if len(settings) > 1:
            page.subheading(setting)
        page.figures((caption, svg) for each, caption, svg in drawn if each == setting)
    with page.folded("The best by each criterion"):
        for setting, table in side_by_side(found.summary):
            page.subheading(setting)
            page.table(table)
    with page.folded("Every figure"):
        page.paragraph(CRITERIA_EXPLAINED)
        page.table([{**row, "criterion": str(row["criterion"]).replace("_", " ")} for row in found.summary])
