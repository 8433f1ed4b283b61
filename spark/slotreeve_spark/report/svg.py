"""Plots as inline SVG: lines and steps, and bars with intervals. No script, no font, no file beside it."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 12, 46
COLOURS = ("#2864b4", "#c8501e", "#3c8c3c", "#8c50a0", "#96781e", "#1e8c96", "#a03250", "#5a5a5a")
TICKS = 5
BAR_HEIGHT = 26


@dataclass(frozen=True)
class Series:
    """One line of a plot: points (x, y) in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    """One bar: a mean with its interval."""

    name: str
    mean: float
    low: float
    high: float


def lines(series: Sequence[Series], x_label: str, y_label: str, steps: bool = False) -> str:
    """A plot of lines (or of steps) from 0 on, with a legend; empty text where there are no points."""
    points = [point for each in series for point in each.points]
    if not points:
        return ""
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    x_low = 0.0 if 0 < x_low < 0.5 * x_high else x_low
    y_high = max(y for _, y in points)
    x_scale, y_scale = _Scale(x_low, x_high, LEFT, WIDTH - RIGHT), _Scale(0.0, y_high, HEIGHT - BOTTOM, TOP)
    parts = [*_axes(x_scale, y_scale, x_label, y_label)]
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        path = _path([(x_scale(x), y_scale(y)) for x, y in each.points], steps)
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    legend = "".join(
        f'<tspan fill="{COLOURS[n % len(COLOURS)]}" font-weight="600">{html.escape(each.name)}</tspan>   '
        for n, each in enumerate(series)
    )
    parts.append(f'<text x="{LEFT + 10}" y="{TOP + 12}" xml:space="preserve">{legend}</text>')
    return _svg(HEIGHT, parts)


def bars(items: Sequence[Bar], label: str) -> str:
    """Horizontal bars from 0, to the left where negative, each with its interval as a whisker and its mean as text;
    empty text without items."""
    if not items:
        return ""
    left, height = 180, len(items) * BAR_HEIGHT + BOTTOM
    scale = _Scale(min(0.0, *(bar.low for bar in items)), max(0.0, *(bar.high for bar in items)), left, WIDTH - 90)
    parts = []
    for tick in scale.ticks():
        x = scale(tick)
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height - BOTTOM + 4}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{number(tick)}</text>')
    for position, bar in enumerate(items):
        y, colour = position * BAR_HEIGHT + 4, COLOURS[position % len(COLOURS)]
        middle = y + (BAR_HEIGHT - 8) / 2
        parts += [
            f'<text x="{left - 8}" y="{middle + 4:.1f}" text-anchor="end">{html.escape(bar.name)}</text>',
            f'<rect x="{min(scale(0.0), scale(bar.mean)):.1f}" y="{y}" width="{abs(scale(bar.mean) - scale(0.0)):.1f}" '
            f'height="{BAR_HEIGHT - 8}" fill="{colour}" fill-opacity="0.75"/>',
            f'<path d="M{scale(bar.low):.1f} {middle:.1f}H{scale(bar.high):.1f}M{scale(bar.low):.1f} {middle - 4:.1f}'
            f'v8M{scale(bar.high):.1f} {middle - 4:.1f}v8" stroke="#222"/>',
            f'<text x="{scale(bar.high) + 6:.1f}" y="{middle + 4:.1f}">{number(bar.mean)}</text>',
        ]
    parts.append(f'<text x="{left}" y="{height - 6}">{html.escape(label)}</text>')
    return _svg(height, parts)


def number(value: float) -> str:
    """A figure with three digits or so: ``0.0123``, ``4.56``, ``1,234``, ``1.23e+09``."""
    if value != value or abs(value) == math.inf:
        return "-"
    if value == 0 or 0.001 <= abs(value) < 1_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 1_000 <= abs(value) < 10_000_000 else f"{value:.3g}"


class _Scale:
    """From figures to pixels."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low, self._high = low, high if high > low else low + 1.0
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        return self._first + (value - self._low) / (self._high - self._low) * (self._last - self._first)

    def ticks(self) -> list[float]:
        """Round figures within the scale."""
        raw = (self._high - self._low) / TICKS
        power = 10 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
        first = math.ceil(self._low / step)
        return [n * step for n in range(first, math.floor(self._high / step) + 1)]


def _axes(x_scale: _Scale, y_scale: _Scale, x_label: str, y_label: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in y_scale.ticks():
        y = y_scale(tick)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for tick in x_scale.ticks():
        x = x_scale(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="#888"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{number(tick)}</text>')
    middle = (TOP + bottom) / 2
    return [
        *parts,
        f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#888"/>',
        f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{html.escape(x_label)}</text>',
        f'<text transform="rotate(-90 14 {middle})" x="14" y="{middle}" text-anchor="middle">'
        f"{html.escape(y_label)}</text>",
    ]


def _path(points: Sequence[tuple[float, float]], steps: bool) -> str:
    first, *rest = points
    parts = [f"M{first[0]:.1f} {first[1]:.1f}"]
    for x, y in rest:
        parts.append(f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}")
    return "".join(parts)


def _svg(height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">{"".join(parts)}</svg>'
    )
