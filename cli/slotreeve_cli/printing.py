"""Results as tables for people or JSON for programs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec
from slotreeve.model.text import in_a_line

from slotreeve_cli.options import Output, Rows

if TYPE_CHECKING:
    from slotreeve_cli.through_gateway import ActSaid


def print_json(value: object) -> None:
    """One JSON value on standard output; NaN, for a figure of nothing, becomes null."""
    print(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=0).decode())


def print_act(act: ActSaid, output: Output) -> None:
    """What an act did, in sentences, and the command that undoes it."""
    if output is Output.JSON:
        print_json(act)
        return
    for sentence in act.sentences:
        print(as_text(sentence))
    if act.undo is not None:
        print(f"{'Undo' if act.done else 'It would be undone by'}: {as_text(act.undo.command)}")


def print_rows(
    rows: Sequence[dict[str, object]],
    output: Output | Rows,
    title: str = "",
    empty: str = "nothing",
    only_wide: Collection[str] = (),
) -> None:
    """A list of equal-shaped rows.

    As JSON it is a list of objects, as TSV a line with the names of the columns and one for each row. A table wraps
    between words only: it is wider than the terminal rather than that an address, an id or a time is broken.

    Args:
        rows: the rows, all with the same columns.
        output: the form.
        title: stands above a table.
        empty: what a table says where there are no rows.
        only_wide: columns that the narrow table leaves out.
    """
    if output in (Output.JSON, Rows.JSON):
        print_json(list(rows))
    elif output is Rows.TSV:
        names: list[object] = [*rows[0]] if rows else []
        for line in [names, *([*row.values()] for row in rows)]:
            print("\t".join(as_text(value) for value in line))
    else:
        hidden = () if output is Rows.WIDE else only_wide
        _print_table([{name: row[name] for name in row if name not in hidden} for row in rows], title, empty)


def _print_table(rows: Sequence[dict[str, object]], title: str, empty: str) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not rows:
        console.print(empty)
        return
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    cells = [[as_text(value) for value in row.values()] for row in rows]
    needed = 0
    for number, (column, value) in enumerate(rows[0].items()):
        words = [word for text in (column, *(line[number] for line in cells)) for word in text.split()]
        longest = max(map(cell_len, words), default=1)
        needed += longest + 2
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(column, justify="right" if is_number else "left", min_width=longest)
    for line in cells:
        table.add_row(*map(Text, line))
    console.print(table, width=max(console.width, needed), soft_wrap=needed > console.width)


def as_text(value: object) -> str:
    """A value in one line. Control characters and ends of lines are escaped: what others have named must not steer the
    terminal, nor look like another line."""
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(as_text, value))
    return "-" if value is None else in_a_line(str(value))
