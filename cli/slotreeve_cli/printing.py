"""Results as tables for people or JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from slotreeve_cli.options import Output

if TYPE_CHECKING:
    from slotreeve_client import Provider


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

    console = Console(highlight=False)
    if not rows:
        console.print(empty)
        return
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column, value in rows[0].items():
        table.add_column(column, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    console.print(table)


def instance_row(instance: Provider) -> dict[str, object]:
    """One provider; its data as text; bytes that are not text are escaped."""
    values = [value.decode("utf-8", "backslashreplace") for value in instance.data]
    return {
        "data": values[0] if len(values) == 1 else values,
        "zone": instance.zone,
        "register_id": instance.register_id,
    }


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)
