"""``slotreeve cluster``: a whole registry of real processes on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import SetOption, dotted

if TYPE_CHECKING:
    from slotreeve_harness.processes import LocalCluster

WATCH_SECONDS = 0.5
CONSOLE = "console"
"""The face that people open in a browser; gateways have it unless their faces are chosen without it."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "cluster",
        epilog="Examples: slotreeve cluster  |  slotreeve cluster --meta 5 --data 4 --session 3 --directory var "
        "--set election.fle.ping_interval_ms=50",
    )(cluster)


def cluster(
    meta: Annotated[int, typer.Option(min=1, max=9, help="Number of meta servers.")] = 3,
    data: Annotated[int, typer.Option(min=1, max=64, help="Number of data servers.")] = 3,
    session: Annotated[int, typer.Option(min=1, max=64, help="Number of session servers.")] = 2,
    gateway: Annotated[int, typer.Option(min=0, max=64, help="Number of gateways.")] = 1,
    directory: Annotated[
        Path | None, typer.Option("--directory", "-d", help="Keeps logs and meta state; default: a temporary one.")
    ] = None,
    has_keys: Annotated[
        bool, typer.Option("--keys/--no-keys", help="Whether each server has a key, and only who has one is let in.")
    ] = True,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="Also stop when standard input ends.")] = False,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Start every server as a process of its own, on free ports of loopback; they end with this command."""
    import tempfile

    from slotreeve_client.tools import run_async
    from slotreeve_harness.processes import ClusterSize, LocalCluster

    with tempfile.TemporaryDirectory(prefix="slotreeve-") as temporary:
        local = LocalCluster(directory or Path(temporary), ClusterSize(meta, data, session, gateway), dotted(settings))
        if has_keys:
            local.use_keys()
        faces = dotted(settings).get("face.use", CONSOLE)
        run_async(_run(local, until_eof, CONSOLE in str(faces)))


async def _run(local: LocalCluster, until_eof: bool, has_console: bool) -> None:
    from slotreeve_client.tools import open_transport

    from slotreeve_cli.run import stop_requested

    stopping = stop_requested(until_eof)
    transport = open_transport(local.transport)
    try:
        with local:
            await local.ready(transport)
            for server in local.servers.values():
                typer.echo(f"{server.role:8} {server.name:10} {server.address:22} process {server.pid}")
            if has_console and local.gateway_addresses:
                typer.echo(f"console in a browser: http://{local.gateway_addresses[0]}/ui/")
            typer.echo(f"logs and state: {local.directory}")
            sessions, metas = " ".join(local.session_addresses), " ".join(local.meta_addresses.values())
            key = f' SLOTREEVE_OWN_KEY="{local.operator_key}"' if local.has_keys else ""
            typer.echo(
                f'export SLOTREEVE_CLUSTER={local.name} SLOTREEVE_SESSION="{sessions}" SLOTREEVE_META="{metas}"{key}'
            )
            await _watch(local, stopping)
    finally:
        await transport.close()


async def _watch(local: LocalCluster, stopping: asyncio.Event) -> None:
    """Wait until asked to stop; report once each server that ends by itself."""
    reported: set[str] = set()
    while not stopping.is_set():
        for server in local.servers.values():
            if not server.is_running and server.name not in reported:
                reported.add(server.name)
                typer.echo(f"{server.name} has ended; the rest goes on. Its last lines:\n{server.tail(5)}", err=True)
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                await stopping.wait()
        except TimeoutError:
            continue
