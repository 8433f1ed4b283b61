"""Results as tables for people or JSON for programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from slotreeve_cli.options import Output

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]").sub


def print_json(value: object) -> None:
    """One JSON value on standard output; NaN, for a figure of nothing, becomes null."""
    print(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=0).decode())


def print_rows(rows: Sequence[dict[str, object]], output: Output, title: str = "", empty: str = "nothing") -> None:
    """A list of equal-shaped rows. As JSON: a list of objects."""
    if output is Output.JSON:
        print_json(list(rows))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not rows:
        console.print(empty)
        return
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column, value in rows[0].items():
        table.add_column(column, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(as_text(value)) for value in row.values()))
    console.print(table)


def as_text(value: object) -> str:
    """A value in a table. Control characters are escaped: what others published must not steer the terminal."""
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(as_text, value))
    return "-" if value is None else _CONTROL(_escaped, str(value))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
