"""Draws rooms.svg from the imports: which room of the tree stands on which (``python docs/draw_rooms.py``).

A room's floor is one above the highest room it imports. An arrow is an import that no other path of arrows implies.
With ``--check`` nothing is written, and the exit code is 1 if the picture is not what the imports say.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "rooms.svg"
CAPTIONS = {
    "kernel": "ports, catalogue, model, errors, clock; machines",
    "protocol": "messages, codec, channel",
    "plugins": "what fills the ports",
    "events": "event log, history",
    "servers": "meta, data, session",
    "client": "the SDK, async and threads",
    "gateway": "the registry for other programs",
    "plugins/face_*": "REST, Consul, DNS, ...",
    "proving/conformance": "tests for authors of plugins",
    "proving/simulator": "a cluster on virtual time",
    "proving/harness": "real processes, databases",
    "proving/chaos": "faults, history, checker",
    "proving/bench": "measurements",
    "proving/demo": "the main job",
    "proving/fuzz": "hostile input",
    "proving/testing": "for tests of applications",
    "spark": "tables, comparisons",
    "cli": "the command slotreeve",
}
"""Every room, in the order from left to right on its floor, with what it holds."""
COLUMN = {"proving/conformance": 1 / 6, "servers": 1 / 2, "spark": 1 / 8, "proving/fuzz": 3 / 8}
"""Where the middle of a room stands on its floor, 0 left to 1 right, if the floor is not to be spread evenly."""

WIDTH, MARGIN, FLOOR, BOX_WIDTH, BOX_HEIGHT, GAP = 1000, 30, 100, 200, 54, 12
Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Box:
    """A room in the picture; ``x`` and ``y`` are its upper left corner."""

    room: str
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """The middle from left to right."""
        return self.x + self.width / 2


def packages() -> dict[str, str]:
    """The folder of each import package, from the top of the tree."""
    fronts = [path for depth in ("*", "*/*") for path in ROOT.glob(f"{depth}/slotreeve*/__init__.py")]
    shipped = [path for path in fronts if path.relative_to(ROOT).parts[0] not in ("tests", "examples")]
    return {path.parent.name: str(path.parents[1].relative_to(ROOT)) for path in shipped}


def room_of(folder: str) -> str:
    """The room in the picture of a folder. Raises KeyError: no caption names it."""
    for room in sorted(CAPTIONS, key=len, reverse=True):
        if fnmatch(folder, room) or folder.startswith(f"{room}/"):
            return room
    raise KeyError(f"docs/draw_rooms.py: CAPTIONS lacks {folder}")


def imports_of(path: Path) -> Iterator[str]:
    """Names of the packages that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def graph() -> Graph:
    """For each room the rooms that it imports."""
    rooms = {name: room_of(folder) for name, folder in packages().items()}
    found: dict[str, set[str]] = {room: set() for room in CAPTIONS}
    for name, folder in packages().items():
        for path in (ROOT / folder / name).rglob("*.py"):
            found[rooms[name]].update(rooms[other] for other in imports_of(path) if other in rooms)
    return {room: frozenset(near - {room}) for room, near in found.items()}


def below(imports: Graph, room: str) -> frozenset[str]:
    """Everything that ``room`` stands on, near and far."""
    return imports[room].union(*(below(imports, near) for near in imports[room]))


def floor_of(imports: Graph, room: str) -> int:
    """0 for a room that imports no other."""
    return 1 + max((floor_of(imports, near) for near in imports[room]), default=-1)


def arrows(imports: Graph) -> list[tuple[str, str]]:
    """The imports that remain when those are left out that other imports imply."""
    return [
        (room, near)
        for room in imports
        for near in sorted(imports[room])
        if not any(near in below(imports, other) for other in imports[room] - {near})
    ]


def boxes(imports: Graph) -> list[Box]:
    """The rooms on their floors, the kernel at the bottom."""
    floors: dict[int, list[str]] = {}
    for room in imports:
        floors.setdefault(floor_of(imports, room), []).append(room)
    top = max(floors)
    found = []
    for number, rooms in floors.items():
        y = MARGIN + (top - number) * FLOOR
        whole = len(rooms) == 1 and number in (0, top)
        for index, room in enumerate(rooms):
            width = WIDTH - 2 * MARGIN if whole else min(BOX_WIDTH, (WIDTH - 2 * MARGIN) / len(rooms) - GAP)
            share = COLUMN.get(room, (index + 0.5) / len(rooms))
            found.append(Box(room, MARGIN + share * (WIDTH - 2 * MARGIN) - width / 2, y, width))
    return found


def arrow(start: Box, end: Box) -> str:
    """A line from the lower edge of ``start`` to the upper edge of ``end``, vertical where one of them is wide."""
    x1 = end.middle if start.width > BOX_WIDTH else start.middle
    x2 = start.middle if end.width > BOX_WIDTH else end.middle
    y1, y2 = start.y + BOX_HEIGHT, end.y
    bend = (y2 - y1) / 2
    return (
        f'    <path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2 - 2:.0f}"/>'
    )


def drawn(imports: Graph) -> str:
    """The whole picture."""
    placed = {box.room: box for box in boxes(imports)}
    height = max(box.y for box in placed.values()) + BOX_HEIGHT + MARGIN
    lines = [arrow(placed[room], placed[near]) for room, near in arrows(imports)]
    shapes, texts = [], []
    for box in placed.values():
        shapes.append(
            f'    <rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{BOX_HEIGHT}" rx="7"/>'
        )
        texts.append(f'    <text x="{box.middle:.0f}" y="{box.y + 22:.0f}" font-weight="bold">{box.room}/</text>')
        texts += caption(box)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            'font-family="system-ui, sans-serif" font-size="15" role="img" '
            'aria-label="The rooms of the tree on their floors; an arrow points from a room to one that it imports.">',
            '  <defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 10 5 0 10z" fill="#5b6b7b"/></marker></defs>',
            f'  <rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>',
            '  <g fill="none" stroke="#5b6b7b" stroke-width="1.4" marker-end="url(#tip)">',
            *lines,
            "  </g>",
            '  <g fill="#f4f7fb" stroke="#1f4e79" stroke-width="1.5">',
            *shapes,
            "  </g>",
            '  <g text-anchor="middle" fill="#111">',
            *texts,
            "  </g>",
            "</svg>\n",
        ]
    )


def caption(box: Box) -> Sequence[str]:
    """What the room holds, below its name, in letters that fit the box."""
    text = CAPTIONS[box.room]
    size = min(13.0, box.width * 1.9 / len(text))
    return [
        f'    <text x="{box.middle:.0f}" y="{box.y + 42:.0f}" font-size="{size:.1f}" fill="#444">{escape(text)}</text>'
    ]


def main() -> int:
    """Write the picture, or with ``--check`` only compare it."""
    picture = drawn(graph())
    if "--check" in sys.argv[1:]:
        if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture:
            return 0
        print("docs/rooms.svg is not what the imports say; run: python docs/draw_rooms.py")
        return 1
    PICTURE.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
