"""Summaries that fit a terminal: competitors side by side, a row a criterion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slotreeve_spark.report.svg import number


def side_by_side(summary: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Title and rows for each setting of a summary (:data:`~slotreeve_spark.compare.competition.SUMMARY`): every
    competitor's mean with its interval, and the best one."""
    for setting in dict.fromkeys(str(row["setting"]) for row in summary):
        rows = [row for row in summary if row["setting"] == setting]
        competitors = sorted({str(row["competitor"]) for row in rows})
        table = []
        for criterion in dict.fromkeys(str(row["criterion"]) for row in rows):
            found = {str(row["competitor"]): row for row in rows if row["criterion"] == criterion}
            line: dict[str, object] = {"criterion": criterion.replace("_", " ")}
            line |= {name: _figure(found[name]) if name in found else "-" for name in competitors}
            best = [name for name, row in found.items() if row["verdict"] == "best"]
            alike = [name for name, row in found.items() if row["verdict"] == "within noise"]
            table.append({**line, "best": ", ".join(best) + (f" (noise: {', '.join(alike)})" if alike else "")})
        yield setting, table


def _figure(row: Mapping[str, object]) -> str:
    mean, low, high = (number(float(str(row[name]))) for name in ("mean", "low", "high"))
    return mean if low == high else f"{mean} ({low} to {high})"
