"""Verdicts in words, for the terminal and the report. Pure functions of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slotreeve_spark.outcome import Rows, within_noise
from slotreeve_spark.report.numbers import number

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
        lines.append(f"{line}{best['competitor']} ({_mean(best)}){within_noise(noise)}{_left_out(rows, best)}")
    return lines


def headlines(summary: Rows, trades: Rows, weights: Mapping[str, float]) -> list[str]:
    """What the whole came to, in a sentence for each setting: who is recommended; where nobody can be, who is the best,
    or within noise of it, by how many criteria."""
    if not summary:
        return ["No competitor is left to be ranked."]
    if trades:
        return [f"{line}." for line in _recommended(trades, "{setting}: {best} is recommended", weights)]
    found = []
    for setting in dict.fromkeys(str(row["setting"]) for row in summary):
        rows = [row for row in summary if row["setting"] == setting]
        criteria = len({row["criterion"] for row in rows})
        good = Counter(str(row["competitor"]) for row in rows if row["verdict"] in ("best", "within noise"))
        parts = [f"{name} by {number}" for name, number in good.most_common()]
        found.append(f"{setting}: of {criteria} criteria, the best or within noise of it is {', '.join(parts)}.")
    return found


def _mean(row: Mapping[str, object]) -> str:
    return number(float(str(row["mean"])))


def _left_out(rows: Rows, best: Mapping[str, object]) -> str:
    """Those with a lower figure than the best that do not count."""
    lower = [
        row for row in rows if row["verdict"] == "not counted" and float(str(row["mean"])) < float(str(best["mean"]))
    ]
    named = ", ".join(f"{row['competitor']} ({_mean(row)})" for row in lower)
    return f"; not counted, as it ends uneven: {named}" if named else ""


def recommendations(trades: Rows, weights: Mapping[str, float]) -> list[str]:
    """For each setting the recommended competitor: with which weights, by how much, and with which confidence."""
    return _recommended(trades, "{setting}, recommended: {best}", weights)


def _recommended(trades: Rows, head: str, weights: Mapping[str, float]) -> list[str]:
    shown = ", ".join(f"{name}={weight:g}" for name, weight in weights.items())
    shown = f"weights {shown}" if len(set(weights.values())) > 1 else "all figures weigh the same"
    lines = []
    for setting in dict.fromkeys(str(row["setting"]) for row in trades):
        rows = [row for row in trades if row["setting"] == setting]
        best = next((row for row in rows if row["verdict"] == "recommended"), None)
        if best is None:
            begun = head.format(setting=setting, best="none")
            lines.append(f"{begun}, as no competitor ends even in every cell")
            continue
        rest = [row for row in rows if row["ends_well"] and row is not best]
        begun = head.format(setting=setting, best=best["competitor"])
        lines.append(f"{begun}{_compared(best, rest)} ({shown})")
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
