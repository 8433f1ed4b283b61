"""What ``slotreeve top`` shows: tables on a terminal, or one below the other."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from slotreeve_client.activity import Activity

from slotreeve_cli.options import Output
from slotreeve_cli.printing import as_text, print_rows

MOST_PROBLEMS = 8
RATES = {"publishes": "publishes/s", "pushes": "pushes/s", "changes": "changes/s"}
SHOWN_TOTALS = ("publishes", "pushes", "registrations", "clients", "queue")
Rows = Sequence[dict[str, object]]


def head(look: Activity, now: datetime) -> str:
    """One line: who leads, and the sums over all servers. Pure."""
    who = f"{look.leader} leads in term {look.term}" if look.leader else "nobody leads"
    sums = [f"{RATES.get(figure, figure)} {as_text(_rounded(look.total(figure)))}" for figure in SHOWN_TOTALS]
    return f"{now:%H:%M:%S} UTC  {who}; {', '.join(sums)}"


def servers(look: Activity) -> Rows:
    """A row for each server. Pure."""
    return [
        {RATES.get(name, name): _rounded(value) for name, value in asdict(server).items()} for server in look.servers
    ]


def busiest(look: Activity) -> Rows:
    """A row for each busy slot. Pure."""
    return [
        {
            "slot": busy.slot,
            "leader": busy.leader,
            "writes/s": _rounded(busy.load.writes_per_second),
            "records": busy.load.records,
            "bytes": busy.load.bytes,
        }
        for busy in look.busiest
    ]


def _rounded(value: object) -> object:
    """A figure as people read it: whole from ten on."""
    if not isinstance(value, float):
        return value
    return round(value) if value >= 10 else round(value, 1)


def print_activity(look: Activity, now: datetime) -> None:
    """Print it below what was printed before."""
    print(as_text(head(look, now)))
    for problem in look.problems:
        print(as_text(problem))
    print_rows(servers(look), Output.TABLE, empty="no server is known")
    if look.busiest:
        print_rows(busiest(look), Output.TABLE, title="busiest slots")
    print()


class Screen:
    """A whole terminal, which has its former content again at the end. Use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> Screen:
        """Take the terminal."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back."""
        self._live.stop()

    def show(self, look: Activity, now: datetime) -> None:
        """Show this instead of what is shown."""
        lines: list[Text | Table] = [Text(as_text(head(look, now)), style="bold")]
        hidden = len(look.problems) - MOST_PROBLEMS
        lines += [Text(as_text(problem), style="red") for problem in look.problems[:MOST_PROBLEMS]]
        if hidden > 0:
            lines.append(Text(f"and {hidden} more: slotreeve status", style="red"))
        lines += [Text(), _table(servers(look))]
        if look.busiest:
            lines += [Text("\nbusiest slots", style="bold"), _table(busiest(look))]
        lines.append(Text("\nq ends", style="dim"))
        self._live.update(Group(*lines), refresh=True)


def _table(rows: Rows) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in rows[0] if rows else ():
        is_number = any(isinstance(row[name], int | float) for row in rows)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True, min_width=cell_len(name))
    for row in rows:
        table.add_row(*(Text(as_text(value)) for value in row.values()))
    return table


@contextmanager
def key_ends(key: str, stopping: asyncio.Event) -> Iterator[None]:
    """Set ``stopping`` when the key is pressed. Does nothing where standard input is no terminal."""
    if not sys.stdin.isatty():
        yield
        return
    file, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def pressed() -> None:
        typed = os.read(file, 64).decode(errors="replace")
        if key in typed or not typed:
            stopping.set()
            loop.remove_reader(file)

    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    loop.add_reader(file, pressed)
    try:
        yield
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)
