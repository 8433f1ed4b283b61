"""``slotreeve dump``: all services with all their instances."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_SESSION,
    NOT_FOUND,
    ClusterOption,
    GatewayOption,
    SessionOption,
    TokenFileOption,
    is_terminal,
)

if TYPE_CHECKING:
    from slotreeve_cli.through_gateway import ThroughGateway

PROGRESS_EVERY = 100


class DumpForm(StrEnum):
    """How a dump is printed."""

    LINES = "lines"
    JSON = "json"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dump", epilog="Examples: slotreeve dump > services.ndjson  |  slotreeve dump com.example. -o json")(
        dump
    )


def dump(
    prefix: Annotated[str, typer.Argument(help="Only services whose id starts with this.")] = "",
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: Annotated[
        DumpForm, typer.Option("--output", "-o", help="lines: an object for each service; json: one list of them.")
    ] = DumpForm.LINES,
) -> None:
    """Print all services with all their instances, one after the other, as the leaders of their slots have them. Those
    of one service are of one moment; what comes or goes meanwhile may be there or not. Exit code 3 if there is none,
    and another one, with what is printed so far, where the rest cannot be read."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.through_gateway import gateway_of

    through, printer = gateway_of(gateway, token_file), _Printer(output)
    if through is not None:
        _print_through(through, prefix, printer)
    else:
        run_async(_print(session, cluster, prefix, printer))
    printer.end()
    if not printer.services:
        raise typer.Exit(NOT_FOUND)


class _Printer:
    """Prints services, and says on a terminal how far it is."""

    def __init__(self, form: DumpForm) -> None:
        self._is_list, self._shows = form is DumpForm.JSON, is_terminal() and not sys.stdout.isatty()
        self.services = self.providers = 0

    def line(self, line: bytes, providers: int) -> None:
        """One service, as JSON without the end of the line."""
        before = (b"[\n" if not self.services else b",\n") if self._is_list else b""
        sys.stdout.buffer.write(before + line + (b"" if self._is_list else b"\n"))
        self.services, self.providers = self.services + 1, self.providers + providers
        if self._shows and self.services % PROGRESS_EVERY == 0:
            self._progress()

    def end(self) -> None:
        """Everything is printed."""
        if self._is_list:
            sys.stdout.buffer.write(b"\n]\n" if self.services else b"[]\n")
        sys.stdout.buffer.flush()
        if self._shows:
            self._progress()
            typer.echo("", err=True)

    def _progress(self) -> None:
        typer.echo(f"\r{self.services:,} services, {self.providers:,} instances", err=True, nl=False)


async def _print(sessions: list[str], cluster: str, prefix: str, printer: _Printer) -> None:
    import msgspec
    from slotreeve_client.dumps import dumped
    from slotreeve_client.tools import open_client

    async with open_client(sessions, cluster) as client:
        async for name, providers in client.dump(prefix):
            printer.line(msgspec.json.encode(dumped(name, providers)), len(providers))


def _print_through(gateway: ThroughGateway, prefix: str, printer: _Printer) -> None:
    import msgspec
    from slotreeve.errors import Unreachable
    from slotreeve.model.text import UNDECODABLE

    from slotreeve_cli.through_gateway import DumpLineSaid, error_of

    for line in gateway.lines("dump", prefix=prefix):
        try:
            said = msgspec.json.decode(line, type=DumpLineSaid)
        except UNDECODABLE:
            break
        if not said.service:
            if said.problem:
                raise error_of(said.code, said.problem)
            return
        printer.line(line.rstrip(b"\n"), said.providers if isinstance(said.providers, int) else len(said.providers))
    raise Unreachable(f"the dump was cut off after {printer.services} services")
