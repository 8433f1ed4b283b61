"""Verdicts in words, for the terminal and the report. Pure functions of rows."""

from __future__ import annotations

from collections.abc import Mapping

from slotreeve_spark.outcome import Rows, within_noise

TRADE_OFF_EXPLAINED = (
    "Means of the cells. uneven share: the farthest distance of a server from its fair share in the end, in fair "
    "shares. unready slot seconds: slots times seconds led by a server without the data. front: no other is as good in "
    "all three figures and better in one. score: the weighted mean of the three, for those that end even; each is "
    "measured by the mean of theirs, the uneven share by the tolerance where that is greater. behind: how much greater "
    "the score is than the recommended one's on the same trace and seed, with its 95 % interval, and confidence, the "
    "share of resamples in which it is greater (paired bootstrap over cells)."
)


def verdict_lines(summary: Rows) -> list[str]:
    """The best by each criterion in each setting."""
    groups: dict[tuple[str, str], Rows] = {}
    for row in summary:
        groups.setdefault((str(row["setting"]), str(row["criterion"])), []).append(row)
    lines = []
    for (setting, criterion), rows in groups.items():
        line = f"{setting}, {criterion.replace('_', ' ')}: "
        best = next((row for row in rows if row["verdict"] == "best"), None)
        if best is None:
            lines.append(f"{line}no competitor ends even, so none is the best")
            continue
        noise = [str(row["competitor"]) for row in rows if row["verdict"] == "within noise"]
        lines.append(f"{line}{best['competitor']} ({float(str(best['mean'])):.3g}){within_noise(noise)}")
    return lines


def recommendations(trades: Rows, weights: Mapping[str, float]) -> list[str]:
    """For each setting the recommended competitor: with which weights, by how much, and with which confidence."""
    shown = ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
    lines = []
    for setting in dict.fromkeys(str(row["setting"]) for row in trades):
        rows = [row for row in trades if row["setting"] == setting]
        best = next((row for row in rows if row["verdict"] == "recommended"), None)
        if best is None:
            lines.append(f"{setting}, recommended: none, as no competitor ends even in every cell")
            continue
        rest = [row for row in rows if row["ends_well"] and row is not best]
        lines.append(f"{setting}, recommended: {best['competitor']}{_compared(best, rest)} (weights {shown})")
    return lines


def _compared(best: Mapping[str, object], rest: Rows) -> str:
    if not rest:
        return ", the only one that ends even in every cell"
    score, cells = float(str(best["score"])), best["cells"]
    second = min(rest, key=lambda row: float(str(row["score"])))
    own, low, high = (float(str(second[name])) for name in ("behind", "behind_low", "behind_high"))
    line = (
        f" with a score of {score:.3g}; {second['competitor']} is next, {own:.3g} behind (95 % interval {low:.3g} to "
        f"{high:.3g}), in {float(str(second['confidence'])):.0%} of the resamples of {cells} paired cells"
    )
    noise = [str(row["competitor"]) for row in rest if row["verdict"] == "within noise"]
    return line + within_noise(noise)
