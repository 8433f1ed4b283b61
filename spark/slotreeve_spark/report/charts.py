"""Plots as inline SVG, drawn by matplotlib: lines and steps, bars with intervals, and points of two figures.

A competitor has one look in all plots of a report, whatever its rank in one of them (:class:`Palette`).

One competitor that lies far from the others does not press them into a corner: a line has axes of its own then, and a
bar ends at the end of the axis, which says so. Text and axes have the colours of the page, so that they are readable on
a dark one too.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
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
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
FAINT = 0.35
FAR = 10.0
"""What reaches more than so many times as far as the median has axes of its own, or is cut off."""
WIDTH, PANEL_HEIGHT, BAR_HEIGHT = 6.6, 2.9, 0.3
"""Of a figure, of a panel of lines and of a bar, in inches."""
BAR_WIDTH, SCATTER = 4.6, (10.4, 3.9)
"""Of a plot of bars; of a pair of scatter plots; in inches."""
_STYLE: dict[Any, dict[str, Any]] = {
    "svg": {"fonttype": "none", "hashsalt": "slotreeve"},
    "font": {"family": "sans-serif", "size": 9.0},
    "text": {"color": INK, "parse_math": False},
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
    """One bar: a mean with its interval. ``counts``: it takes part; else it is drawn faintly."""

    name: str
    mean: float
    low: float
    high: float
    counts: bool = True


@dataclass(frozen=True)
class Dot:
    """One competitor in a scatter plot. ``front``: no other is better in one figure and as good in all others.
    ``counts``: it takes part; else it is drawn faintly. ``chosen``: it has a ring."""

    name: str
    x: float
    y: float
    front: bool = False
    counts: bool = True
    chosen: bool = False


class Palette:
    """The look of each competitor of a report: colour, dash and marker by its place among the sorted names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._places = {name: place for place, name in enumerate(sorted(set(names)))}
        ends = {name.partition(" + ")[2] for name in self._places}
        self._common = f" + {ends.pop()}" if len(ends) == 1 else ""

    def label(self, name: str) -> str:
        """The name in plots: without the second part of a pair that is the same in all."""
        return name.removesuffix(self._common)

    @property
    def names(self) -> list[str]:
        """The competitors, sorted."""
        return list(self._places)

    def colour(self, name: str) -> str:
        """As CSS has it. Beyond the number of :data:`COLOURS` they come again, with other dashes and markers."""
        return COLOURS[self._places.get(name, 0) % len(COLOURS)]

    def dash(self, name: str) -> str:
        """Of lines."""
        place = self._places.get(name, 0)
        return DASHES[(place + place // len(COLOURS)) % len(DASHES)]

    def marker(self, name: str) -> str:
        """Of points."""
        place = self._places.get(name, 0)
        return MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]


def lines(
    series: Sequence[Series], x_label: str, y_label: str, steps: bool = False, palette: Palette | None = None
) -> str:
    """A plot of lines (or of steps) with a legend; each line that reaches far beyond the others has a panel of its own.
    Empty text where there are no points."""
    series = [each for each in series if each.points]
    if not series:
        return ""
    looks = palette or Palette(each.name for each in series)
    alike, far = _apart(series)
    panels = [alike, *([each] for each in far)]
    with _styled():
        figure = Figure((WIDTH, PANEL_HEIGHT * len(panels)), layout="constrained")
        for panel, axes in zip(panels, figure.subplots(len(panels), 1, squeeze=False)[:, 0], strict=True):
            for each in panel:
                colour, dash = looks.colour(each.name), looks.dash(each.name)
                xs, ys = zip(*each.points, strict=True)
                marker = "o" if len(xs) == 1 else ""
                drawn = "steps-post" if steps else "default"
                axes.plot(
                    xs, ys, label=looks.label(each.name), color=colour, linestyle=dash, marker=marker, drawstyle=drawn
                )
            axes.set_ylim(bottom=0)
            axes.set(xlabel=x_label, ylabel=y_label)
            if panel is not alike:
                axes.set_title("far beyond the others, on axes of its own", fontsize=9, loc="left")
            _finish(axes)
            axes.legend(loc="best")
        return _svg(figure)


def bars(items: Sequence[Bar], label: str, palette: Palette | None = None) -> str:
    """Horizontal bars from 0, to the left where negative, each with its interval as a whisker and its mean as text. The
    axis does not reach to one that is far beyond the others; a line below says so. Empty text without items."""
    if not items:
        return ""
    looks = palette or Palette(bar.name for bar in items)
    end = _end([max(abs(bar.low), abs(bar.high)) for bar in items])
    far = [bar for bar in items if end is not None and max(abs(bar.low), abs(bar.high)) > end]
    with _styled():
        figure = Figure((BAR_WIDTH, 0.9 + BAR_HEIGHT * len(items)), layout="constrained")
        axes = figure.subplots()
        places = range(len(items))
        drawn = axes.barh(
            places, [bar.mean for bar in items], height=0.65, color=[looks.colour(bar.name) for bar in items]
        )
        for patch, bar in zip(drawn, items, strict=True):
            patch.set_alpha(1.0 if bar.counts else FAINT)
        whiskers = [[max(0.0, bar.mean - bar.low) for bar in items], [max(0.0, bar.high - bar.mean) for bar in items]]
        axes.errorbar([bar.mean for bar in items], places, xerr=whiskers, fmt="none", ecolor=INK, capsize=3)
        axes.set_yticks(places, [_label(looks, bar.name, bar.counts) for bar in items])
        axes.invert_yaxis()
        if end is None:
            axes.set_xlim(0, 1)
        elif far:
            axes.set_xlim(-1.15 * end if any(bar.low < 0 for bar in items) else 0, 1.15 * end)
            label += (
                f"\nthe axis ends before {', '.join(f'{looks.label(bar.name)} ({number(bar.mean)})' for bar in far)}"
            )
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


def scatter(pairs: Sequence[tuple[str, str, Sequence[Dot]]], palette: Palette) -> str:
    """Plots of points beside each other: label of x, label of y, and the points of each. The points of the front are
    joined by a line. An axis is logarithmic beyond the median where one lies far from the others. Empty text without
    points."""
    pairs = [pair for pair in pairs if pair[2]]
    if not pairs:
        return ""
    with _styled():
        figure = Figure((SCATTER[0] / 2 * len(pairs), SCATTER[1]), layout="constrained")
        for (x_label, y_label, dots), axes in zip(pairs, figure.subplots(1, len(pairs), squeeze=False)[0], strict=True):
            front = sorted((dot.x, dot.y) for dot in dots if dot.front)
            if len(front) > 1:
                axes.plot(*zip(*front, strict=True), color=INK, linewidth=1, linestyle=":", zorder=1)
            for dot in dots:
                colour, alpha = palette.colour(dot.name), 1.0 if dot.counts else FAINT
                if dot.chosen:
                    axes.scatter(dot.x, dot.y, s=260, facecolors="none", edgecolors=INK, linewidths=1.5, zorder=2)
                marker = palette.marker(dot.name)
                axes.scatter(dot.x, dot.y, s=70, color=colour, marker=marker, alpha=alpha, zorder=3)
            _named(axes, dots, palette)
            axes.set(xlabel=x_label, ylabel=y_label)
            for axis, scale, limit in (("x", axes.set_xscale, axes.set_xlim), ("y", axes.set_yscale, axes.set_ylim)):
                _scaled(scale, limit, [getattr(dot, axis) for dot in dots])
            _finish(axes)
        return _svg(figure)


def _label(looks: Palette, name: str, counts: bool) -> str:
    return looks.label(name) if counts else f"({looks.label(name)})"


def _named(axes: Axes, dots: Sequence[Dot], looks: Palette) -> None:
    """Each point with its name beside it; of those at one place the names stand below each other."""
    lines: dict[tuple[str, str], int] = {}
    for dot in dots:
        place = number(round(dot.x, 2)), number(round(dot.y, 2))
        line = lines[place] = lines.get(place, -1) + 1
        text = _label(looks, dot.name, dot.counts)
        axes.annotate(text, (dot.x, dot.y), (11, -3 - 11 * line), textcoords="offset points", fontsize=8.5)


def _scaled(scale: Any, limit: Any, values: Sequence[float]) -> None:
    most, end = max(map(abs, values), default=0.0), _end(values)
    if end is not None and most > end:
        scale("symlog", linthresh=max(end, 1e-9))
        limit(-0.07 * end, 2.5 * most)
    else:
        limit(-0.07 * (most or 1.0), 1.3 * (most or 1.0))


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
