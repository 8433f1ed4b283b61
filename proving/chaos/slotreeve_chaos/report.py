"""A chaos run as one HTML page: the verdict, a timeline of faults, what subscribers saw meanwhile."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from slotreeve_chaos.checker import HistoryVerdict

WIDTH, ROW, LEFT = 1100, 22, 170
STYLE = """body{font:15px system-ui,sans-serif;margin:2em auto;max-width:1200px;color:#222}
table{border-collapse:collapse}
td,th{padding:.25em .8em;text-align:left;border-bottom:1px solid #ddd}.good{color:#176b2c}.bad{color:#a4161a}
svg text{font-size:12px;fill:#333}"""


def as_html(verdict: HistoryVerdict, records: Sequence[dict[str, Any]], seed: int | None) -> str:
    """The page; ``records`` are the whole history."""
    good = not verdict.violations
    headline = "Every invariant held" if good else f"{len(verdict.violations)} violations"
    rows = [
        ("published", f"{verdict.published:,}"),
        ("callbacks", f"{verdict.callbacks:,}"),
        ("faults", ", ".join(f"{what} x {count}" for what, count in sorted(verdict.faults.items()))),
        ("meta leaders", f"{len(set(verdict.leaders.values()))} servers in {len(verdict.leaders)} terms"),
        ("missing, stale at the end", f"{verdict.missing}, {verdict.stale}"),
        ("leases", f"{verdict.leases}"),
        ("longest sight of a lease after its end", f"{max(verdict.leases_gone_after_seconds, default=0.0):.2f} s"),
        ("longest sight of the dead", f"{max(verdict.gone_after_seconds, default=0.0):.2f} s"),
        ("seed", "unknown" if seed is None else str(seed)),
    ]
    table = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows)
    broken = "".join(
        f"<tr><td>{v.t:.2f} s</td><td>{v.invariant}</td><td>{html.escape(v.what)}</td></tr>"
        for v in verdict.violations[:500]
    )
    return (
        f"<!doctype html><meta charset=utf-8><title>slotreeve chaos</title><style>{STYLE}</style>"
        f"<h1>slotreeve chaos: <span class={'good' if good else 'bad'}>{headline}</span></h1><table>{table}</table>"
        f"<h2>Faults, and callbacks a second</h2>{_timeline(records, verdict)}"
        + (f"<h2>Violations</h2><table>{broken}</table>" if broken else "")
    )


def _timeline(records: Sequence[dict[str, Any]], verdict: HistoryVerdict) -> str:
    """One row for each kind of fault, violations as red ticks, callbacks a second as a curve below."""
    end = max((record["t"] for record in records), default=1.0)
    kinds = sorted(verdict.faults)
    height = ROW * (len(kinds) + 1) + 140

    def x(t: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * t / end

    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="timeline of faults">']
    for row, kind in enumerate(kinds):
        parts.append(f'<text x="4" y="{ROW * row + 15}">{html.escape(kind)}</text>')
    begun: dict[str, float] = {}
    for record in records:
        if record["kind"] != "fault":
            continue
        if record["phase"] == "begin":
            begun[record["what"]] = record["t"]
        else:
            start, y = begun.pop(record["what"], record["t"]), ROW * kinds.index(record["what"]) + 4
            width = max(3.0, x(record["t"]) - x(start))
            title = html.escape(f"{record['what']}: {record['target']} at {start:.1f} s")
            place = f'x="{x(start):.1f}" y="{y}" width="{width:.1f}" height="14"'
            parts.append(f'<rect {place} fill="#d98c2b"><title>{title}</title></rect>')
    base = ROW * (len(kinds) + 1)
    parts.extend(
        f'<line x1="{x(violation.t):.1f}" x2="{x(violation.t):.1f}" y1="0" y2="{base}" stroke="#a4161a"/>'
        for violation in verdict.violations[:500]
    )
    parts.append(_curve(records, end, base, x(0.0), x(end)))
    return "".join(parts) + "</svg>"


def _curve(records: Sequence[dict[str, Any]], end: float, base: int, left: float, right: float) -> str:
    counts = [0] * (int(end) + 1)
    for record in records:
        if record["kind"] == "seen":
            counts[int(record["t"])] += 1
    most = max(counts, default=1) or 1
    step = (right - left) / max(1, len(counts))
    points = " ".join(f"{left + step * i:.1f},{base + 110 - 100 * c / most:.1f}" for i, c in enumerate(counts))
    return (
        f'<polyline points="{points}" fill="none" stroke="#1f4e79"/>'
        f'<text x="4" y="{base + 60}">callbacks/s, up to {most:,}</text>'
        f'<text x="{left:.0f}" y="{base + 130}">0 s</text>'
        f'<text x="{right - 40:.0f}" y="{base + 130}">{end:.0f} s</text>'
    )
