"""The comparisons of balancers and elections from end to end: run, store, judge, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from slotreeve_spark.compare import balancers, elections
from slotreeve_spark.compare.competition import Rules, summarize
from slotreeve_spark.compare.disqualified import disqualified
from slotreeve_spark.compare.trade_off import EVEN_WEIGHTS, trade_off
from slotreeve_spark.compare.tuning import snippet
from slotreeve_spark.outcome import ComparisonOutcome
from slotreeve_spark.report import plots
from slotreeve_spark.report.cells_page import ComparedCells, cells_page, palette_of
from slotreeve_spark.report.charts import Palette
from slotreeve_spark.report.results import Directory, small, versions
from slotreeve_spark.verdicts import headlines, recommendations, verdict_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Judgement:
    """How balancers are judged.

    Attributes:
        even_within: a balancer ends even if no server is farther from its fair share than this, in fair shares.
        weights: of the figures of :mod:`~slotreeve_spark.compare.trade_off`.
        one_setting: clusters of all sizes are judged together.
    """

    even_within: float = 0.1
    weights: Mapping[str, float] = field(default_factory=lambda: EVEN_WEIGHTS)
    one_setting: bool = False


@dataclass(frozen=True)
class CellComparison:
    """How cells are compared and shown.

    Attributes:
        parameters: what was asked, for the report.
        rules: how cells are compared.
        example: SQL expression that names a cell for people.
        figures: heading of the report's last figures, and what draws them (caption, SVG) from the cells.
        judgement: of balancers; None for other cells.
    """

    title: str
    parameters: Mapping[str, object]
    rules: Rules
    example: str
    figures: tuple[str, Callable[[DataFrame, Palette], Iterable[tuple[str, str]]]]
    judgement: Judgement | None = None


def compare_balancers(
    session: SparkSession, asked: balancers.BalancerQuestion, out: Directory, judgement: Judgement | None = None
) -> ComparisonOutcome:
    """Compare on traces; tables ``cells``, ``disqualified``, ``summary`` and ``trade_off``.

    Raises:
        StorageError: the results cannot be written.
    """
    judgement = judgement or Judgement()
    shown = {
        name: getattr(asked, name)
        for name in ("balancers", "assigners", "options", "replicas", "seeds", "round_seconds", "limits")
    }
    shown["sizes"] = [f"{slots} slots on {servers} servers" for slots, servers in asked.sizes]
    shown["traces"] = [trace.name for trace in asked.traces] or list(asked.kinds)
    shown |= asdict(judgement)
    rules = Rules(
        balancers.CRITERIA,
        setting="'all clusters'" if judgement.one_setting else "concat(slots, ' slots, ', servers, ' servers')",
        pairing=("trace", "slots", "servers", "seed"),
        ends_well=f"ended and uneven_share <= {judgement.even_within}",
    )
    comparison = CellComparison(
        "Balancers compared",
        shown,
        rules,
        example="concat_ws(', ', trace, concat('seed ', seed), concat(slots, ' slots'), concat(servers, ' servers'))",
        figures=("Moves over time", plots.moves_over_time),
        judgement=judgement,
    )
    return _compare_cells(session, out, balancers.compare(session, asked), comparison)


def tune_balancer(
    session: SparkSession, asked: balancers.BalancerQuestion, out: Directory, judgement: Judgement
) -> ComparisonOutcome:
    """Compare the options of one balancer; the outcome's snippet configures the recommended ones.

    Raises:
        StorageError: the results cannot be written.
    """
    outcome = compare_balancers(session, asked, out, judgement)
    best = next((row["competitor"] for row in outcome.tables["trade_off"] if row["verdict"] == "recommended"), None)
    chosen = next((cell for cell in balancers.cells(asked) if cell.competitor == best), None)
    return outcome if chosen is None else replace(outcome, snippet=snippet(chosen.balancer, chosen.options))


def compare_elections(session: SparkSession, asked: elections.ElectionQuestion, out: Directory) -> ComparisonOutcome:
    """Compare in simulation; tables ``cells``, ``disqualified`` and ``summary``.

    Raises:
        StorageError: the results cannot be written.
    """
    rules = Rules(
        elections.CRITERIA,
        setting="concat('leader ', scenario, ', ', nodes, ' nodes')",
        pairing=("scenario", "nodes", "seed"),
    )
    comparison = CellComparison(
        "Elections compared",
        asdict(asked),
        rules,
        example="concat_ws(', ', concat('leader ', scenario), concat(nodes, ' nodes'), concat('seed ', seed))",
        figures=("Time to the next leader", plots.fail_over_distribution),
    )
    return _compare_cells(session, out, elections.compare(session, asked), comparison)


def _compare_cells(
    session: SparkSession, out: Directory, cells: DataFrame, comparison: CellComparison
) -> ComparisonOutcome:
    began, rules = time.monotonic(), comparison.rules
    out.progress.begin(3 if comparison.judgement is None else 4)
    stored = out.write("cells", cells)
    bad = small(out.write("disqualified", disqualified(stored, comparison.example)))
    summary = small(out.write("summary", summarize(stored, rules)))
    order = [criterion.column for criterion in rules.criteria]
    summary.sort(key=lambda r: (r["setting"], order.index(str(r["criterion"])), r["mean"], r["competitor"]))
    tables, lines = {"summary": summary}, verdict_lines(summary)
    everything = {**comparison.parameters, **versions(session)}
    headline = headlines(summary, [], {})
    if (judgement := comparison.judgement) is not None:
        trades = trade_off(stored, rules, judgement.weights, judgement.even_within)
        tables["trade_off"] = small(out.write("trade_off", trades))
        headline = headlines(summary, tables["trade_off"], judgement.weights)
        lines = [*recommendations(tables["trade_off"], judgement.weights), *lines]
    if not summary:
        lines = ["no competitor is left to be ranked"]
    heading, draw = comparison.figures
    out.progress.say("the report is drawn")
    page = cells_page(
        ComparedCells(
            comparison.title,
            headline,
            everything,
            summary,
            {criterion.column: criterion.what for criterion in rules.criteria},
            (heading, draw(stored, palette_of(summary))),
            tables.get("trade_off", []),
            bad,
        )
    )
    out.write_parameters(everything)
    report = out.write_report(page)
    return ComparisonOutcome(bad, tables, lines, report, time.monotonic() - began)
