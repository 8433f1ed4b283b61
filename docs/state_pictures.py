"""An extension of Sphinx that draws state diagrams: blocks ``mermaid`` of pages, which Git hosts draw by themselves.

Of that language it knows what the pages use: ``stateDiagram-v2`` and lines ``one --> another: label``. The states stand
in a row in the order of their names in the text. Ways to the right are arcs above it, ways to the left arcs below.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

BOX_WIDTH, BOX_HEIGHT, GAP, ROOM, LINE = 96, 40, 104, 50, 13
WAY = re.compile(r"(\w+) --> (\w+): (.+)")


class Way(NamedTuple):
    """From one state to another, by some events."""

    source: str
    target: str
    label: str


def read(lines: Sequence[str]) -> list[Way]:
    """The ways of a diagram. Raises ExtensionError if a line is anything else."""
    first, *rest = [line.strip() for line in lines if line.strip()]
    ways = [WAY.fullmatch(line) for line in rest]
    if first != "stateDiagram-v2" or None in ways:
        raise ExtensionError(f"a diagram has lines that docs/state_pictures.py does not know: {lines}")
    return [Way(*way.groups()) for way in ways if way is not None]


def draw(ways: Sequence[Way]) -> str:
    """The diagram as an SVG that takes its colours from the page."""
    states = list(dict.fromkeys(state for way in ways for state in (way.source, way.target)))
    place = {state: number for number, state in enumerate(states)}
    spans = [place[way.target] - place[way.source] for way in ways]
    above, below = (ROOM * max(0, longest) + 2 * LINE for longest in (max(spans), -min(spans)))
    width = len(states) * BOX_WIDTH + (len(states) - 1) * GAP
    text = "; ".join(f"{way.source} to {way.target}: {way.label}" for way in ways)
    size = f'viewBox="0 {-above} {width} {above + BOX_HEIGHT + below}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="states" {size} role="img" aria-label="{escape(text)}">',
            '<defs><marker id="way" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 10 5 0 10z"/></marker></defs>',
            *_boxes(states),
            *_arcs(ways, place),
            "</svg>",
        ]
    )


def _left(number: int) -> int:
    return number * (BOX_WIDTH + GAP)


def _boxes(states: Sequence[str]) -> Iterator[str]:
    for number, state in enumerate(states):
        x = _left(number)
        yield f'<rect x="{x + 1}" y="1" width="{BOX_WIDTH - 2}" height="{BOX_HEIGHT - 2}" rx="8"/>'
        yield f'<text x="{x + BOX_WIDTH / 2}" y="{BOX_HEIGHT / 2 + 5}" class="state">{escape(state)}</text>'


def _arcs(ways: Sequence[Way], place: dict[str, int]) -> list[str]:
    """Ends at one side of a box are spread along it, so that arcs that go further leave nearer to its middle."""
    ends: dict[tuple[str, bool, bool], list[int]] = defaultdict(list)
    for way in ways:
        source, target = place[way.source], place[way.target]
        forward = source < target
        ends[way.source, forward, forward].append(target)
        ends[way.target, forward, not forward].append(source)

    def at(state: str, other: str, forward: bool, to_the_right: bool) -> float:
        here = place[state]
        others = sorted(ends[state, forward, to_the_right], key=lambda number: abs(number - here))
        step = (BOX_WIDTH / 2 - 12) / len(others)
        offset = BOX_WIDTH / 2 - 8 - others.index(place[other]) * step
        return _left(here) + BOX_WIDTH / 2 + (offset if to_the_right else -offset)

    paths, texts = [], []
    for way in ways:
        forward = place[way.source] < place[way.target]
        x0, x1 = at(way.source, way.target, forward, forward), at(way.target, way.source, forward, not forward)
        height = ROOM * abs(place[way.source] - place[way.target])
        y, top = (0, -height) if forward else (BOX_HEIGHT, BOX_HEIGHT + height)
        bend = y + (top - y) * 4 / 3  # the middle of the curve is at top
        paths.append(f'<path d="M{x0:g} {y} C{x0:g} {bend:g} {x1:g} {bend:g} {x1:g} {y}" marker-end="url(#way)"/>')
        foot = top - 6 if forward else top + LINE + 2
        texts.append(f'<text x="{(x0 + x1) / 2:g}" y="{foot:g}">{escape(way.label)}</text>')
    return [*paths, *texts]  # no line goes through a text


class StateDiagram(SphinxDirective):
    """A block of the language ``mermaid``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The picture; raises ExtensionError."""
        return [nodes.raw("", draw(read(self.content)), format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("mermaid", StateDiagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
