"""Summaries that fit a terminal: competitors side by side, a row a criterion, in tables no wider than the screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from slotreeve_spark.report.numbers import number

GAP = "  "
_LEAST_WIDTH = 8


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
            best = ", ".join(_with(found, "best")) or "-"
            for verdict, what in (("within noise", "noise"), ("not counted", "not counted")):
                if names := _with(found, verdict):
                    best += f" ({what}: {', '.join(names)})"
            table.append({**line, "best": best})
        yield setting, table


def fitted(rows: Sequence[Mapping[str, object]], width: int) -> list[str]:
    """Lines of a table of equal-shaped rows, no longer than ``width``.

    Headers and cells wrap between words; only a word of a cell that is wider than its column is broken. Where the
    columns do not fit side by side, the rest follows in another table that begins with the first column again.
    """
    if not rows:
        return []
    columns = [_Column(name, [_text(row[name]) for row in rows], width) for name in rows[0]]
    first, *rest = columns
    lines, block = list[str](), [first]
    for column in rest:
        if len(block) > 1 and _least(block) + len(GAP) + column.least > width:
            lines += [*_lines(block, width), ""]
            block = [first]
        block.append(column)
    return [*lines, *_lines(block, width)]


class _Column:
    """Header and cells of one column, and how narrow and how wide it may be."""

    def __init__(self, name: str, cells: Sequence[str], width: int) -> None:
        self.header, self.cells = name, cells
        words = max((len(word) for cell in cells for word in cell.split()), default=1)
        self.least = max(max(len(word) for word in name.split()), min(words, max(_LEAST_WIDTH, width // 3)))
        self.most = max(self.least, len(name), max(len(cell) for cell in cells))
        self.right = all(cell[:1].isdigit() or cell[:1] == "-" for cell in cells)


def _least(block: Sequence[_Column]) -> int:
    return sum(column.least for column in block) + len(GAP) * (len(block) - 1)


def _lines(block: Sequence[_Column], width: int) -> Iterator[str]:
    widths, room = [column.least for column in block], width - _least(block)
    while room > 0 and any(w < c.most for w, c in zip(widths, block, strict=True)):
        narrow = max(range(len(block)), key=lambda place: block[place].most / widths[place])
        widths[narrow] += 1
        room -= 1
    yield from _row([column.header for column in block], block, widths)
    yield GAP.join("-" * width for width in widths)
    for cells in zip(*(column.cells for column in block), strict=True):
        yield from _row(cells, block, widths)


def _row(cells: Sequence[str], block: Sequence[_Column], widths: Sequence[int]) -> Iterator[str]:
    wrapped = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(cells, widths, strict=True)
    ]
    for line in range(max(map(len, wrapped))):
        parts = [
            (each[line] if line < len(each) else "").rjust(width)
            if column.right
            else (each[line] if line < len(each) else "").ljust(width)
            for each, column, width in zip(wrapped, block, widths, strict=True)
        ]
        yield GAP.join(parts).rstrip()


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _with(found: Mapping[str, Mapping[str, object]], verdict: str) -> list[str]:
    return [name for name, row in found.items() if row["verdict"] == verdict]


def _figure(row: Mapping[str, object]) -> str:
    mean, low, high = (number(float(str(row[name]))) for name in ("mean", "low", "high"))
    return mean if low == high else f"{mean} ({low} to {high})"
