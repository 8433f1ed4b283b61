"""Plots as inline SVG, drawn by matplotlib: lines and steps, and bars with intervals.

One competitor that lies far from the others does not press them into a corner: a line has axes of its own then, and a
bar ends at the end of the axis, which says so. Text and axes have the colours of the page, so that they are readable on
a dark one too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from slotreeve_spark.report.numbers import number

INK, GRID = "#010203", "#040506"
"""Stand for the page's colours until the figure is text."""
COLOURS = ("#2f7ed8", "#d9652b", "#3a9d4f", "#a05fb4", "#b08a1e", "#22a0a8", "#c8507a", "#808080")
DASHES = ("-", "--", "-.", ":")
FAR = 10.0
"""What reaches more than so many times as far as the median has axes of its own, or is cut off."""
WIDTH, PANEL_HEIGHT, BAR_HEIGHT = 6.6, 2.9, 0.3
"""Of a figure, of a panel of lines and of a bar, in inches."""
_STYLE: dict[Any, dict[str, Any]] = {
    "svg": {"fonttype": "none", "hashsalt": "slotreeve"},
    "font": {"family": "sans-serif", "size": 9.0},
    "text": {"color": INK},
    "axes": {"labelcolor": INK, "edgecolor": INK, "axisbelow": True, "grid": True},
    "axes.spines": {"top": False, "right": False},
    "grid": {"color": GRID},
    "xtick": {"color": INK},
    "ytick": {"color": INK},
    "legend": {"frameon": False},
}
"""matplotlib's parameters, by group."""


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
    """A plot of lines (or of steps) with a legend; each line that reaches far beyond the others has a panel of its own.
    Empty text where there are no points."""
    series = [each for each in series if each.points]
    if not series:
        return ""
    styles = {each.name: (COLOURS[n % len(COLOURS)], DASHES[n % len(DASHES)]) for n, each in enumerate(series)}
    alike, far = _apart(series)
    panels = [alike, *([each] for each in far)]
    with _styled():
        figure = Figure((WIDTH, PANEL_HEIGHT * len(panels)), layout="constrained")
        for panel, axes in zip(panels, figure.subplots(len(panels), 1, squeeze=False)[:, 0], strict=True):
            for each in panel:
                colour, dash = styles[each.name]
                xs, ys = zip(*each.points, strict=True)
                marker = "o" if len(xs) == 1 else ""
                drawn = "steps-post" if steps else "default"
                axes.plot(xs, ys, label=each.name, color=colour, linestyle=dash, marker=marker, drawstyle=drawn)
            axes.set_ylim(bottom=0)
            axes.set(xlabel=x_label, ylabel=y_label)
            if panel is not alike:
                axes.set_title("far beyond the others, on axes of its own", fontsize=9, loc="left")
            _finish(axes)
            axes.legend(loc="best")
        return _svg(figure)


def bars(items: Sequence[Bar], label: str) -> str:
    """Horizontal bars from 0, to the left where negative, each with its interval as a whisker and its mean as text. The
    axis does not reach to one that is far beyond the others; a line below says so. Empty text without items."""
    if not items:
        return ""
    end = _end([max(abs(bar.low), abs(bar.high)) for bar in items])
    far = [bar for bar in items if end is not None and max(abs(bar.low), abs(bar.high)) > end]
    with _styled():
        figure = Figure((WIDTH, 0.9 + BAR_HEIGHT * len(items)), layout="constrained")
        axes = figure.subplots()
        places = range(len(items))
        axes.barh(places, [bar.mean for bar in items], height=0.65, color=[COLOURS[n % len(COLOURS)] for n in places])
        whiskers = [[max(0.0, bar.mean - bar.low) for bar in items], [max(0.0, bar.high - bar.mean) for bar in items]]
        axes.errorbar([bar.mean for bar in items], places, xerr=whiskers, fmt="none", ecolor=INK, capsize=3)
        axes.set_yticks(places, [bar.name for bar in items])
        axes.invert_yaxis()
        if end is None:
            axes.set_xlim(0, 1)
        elif far:
            axes.set_xlim(-1.15 * end if any(bar.low < 0 for bar in items) else 0, 1.15 * end)
            label += f"\nthe axis ends before {', '.join(f'{bar.name} ({number(bar.mean)})' for bar in far)}"
        for place, bar in zip(places, items, strict=True):
            axes.annotate(
                number(bar.mean) + (" \N{RIGHTWARDS ARROW}" if bar in far else ""),
                (1.01, place),
                xycoords=("axes fraction", "data"),
                va="center",
                annotation_clip=False,
            )
        axes.set_xlabel(label)
        axes.grid(visible=False, axis="y")
        _finish(axes)
        return _svg(figure)


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context():
        for group, values in _STYLE.items():
            mpl.rc(group, **values)
        yield


def _apart(series: Sequence[Series]) -> tuple[list[Series], list[Series]]:
    """Those that are alike in their reach, and those that are not."""
    far = set[str]()
    for axis in (0, 1):
        reach = {each.name: max(abs(point[axis]) for point in each.points) for each in series}
        end = _end(list(reach.values()))
        far |= {name for name, value in reach.items() if end is not None and value > end}
    return [each for each in series if each.name not in far], [each for each in series if each.name in far]


def _end(reaches: Sequence[float]) -> float | None:
    """How far the axis has to reach for all that are not far beyond the median; None without any of them."""
    known = sorted(reach for reach in reaches if reach > 0)
    if not known:
        return None
    most = FAR * known[(len(known) - 1) // 2]
    return max(reach for reach in known if reach <= most)


def _finish(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: number(value)))
    if axes.get_ylabel():
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _place: number(value)))


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    text = out.getvalue()
    text = text[text.index("<svg") :].replace("<svg", '<svg role="img"', 1)
    return text.replace(INK, "var(--ink)").replace(GRID, "var(--line)")
