"""``slotreeve drain``: take everything from a server before its machine is worked on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_META, NOT_FOUND, ClusterOption, MetaOption

if TYPE_CHECKING:
    from slotreeve.model.nodes import Node
    from slotreeve.ports import Transport

LOOK_SECONDS = 0.5


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    example = "slotreeve drain data-2 --dry-run  |  slotreeve drain session-1 --timeout 600"
    app.command("drain", epilog=f"Examples: {example}")(drain)


def drain(
    node: Annotated[str, typer.Argument(help="Name of a data or session server.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be moved.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until the server holds nothing.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Wait for so many seconds at most.")] = 300.0,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
) -> None:
    """Let NODE hand over its slots, or send its clients away, and wait until it holds nothing. It is banned from then
    on, restarts included: slotreeve admin unban undoes it. Exit code 3 if there is no such member, 6 if it takes too
    long."""
    from slotreeve_client.tools import run_async

    run_async(_drain(meta, cluster, node, dry_run, timeout if wait else 0.0))


async def _drain(metas: list[str], cluster: str, name: str, dry_run: bool, timeout: float) -> None:
    from slotreeve.errors import NotThere, RequestError
    from slotreeve_client.draining import drainable
    from slotreeve_client.tools import open_transport

    from slotreeve_cli.admin import ban_nodes

    transport = open_transport()
    try:
        try:
            held = await drainable(transport, cluster, metas, name)
        except RequestError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(NOT_FOUND if isinstance(error, NotThere) else 1) from None
        typer.echo(f"{name} holds {held}, which {held.others} others take over")
        if dry_run:
            return
        await ban_nodes(metas, cluster, [name])
        if timeout > 0:
            await _until_empty(transport, cluster, metas, held.node, timeout)
            typer.echo(f"{name} holds nothing any more; slotreeve admin unban {name} undoes it")
        else:
            typer.echo(f"{name} is banned and hands over; slotreeve admin unban {name} undoes it")
    finally:
        await transport.close()


async def _until_empty(transport: Transport, cluster: str, metas: list[str], node: Node, timeout: float) -> None:
    """Say on standard error what is left, each time that it changes.

    Raises:
        RequestTimeout: something is left after so long.
    """
    from slotreeve.errors import RequestTimeout
    from slotreeve_client.administration import cluster_view
    from slotreeve_client.draining import holdings

    before = ""
    try:
        async with asyncio.timeout(timeout):
            while True:
                view = await cluster_view(transport, cluster, metas)
                held = await holdings(transport, cluster, view, node)
                if held.is_nothing:
                    return
                if str(held) != before:
                    before = str(held)
                    typer.echo(f"{node.name} still holds {before}", err=True)
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise RequestTimeout(f"{node.name} still holds {before} after {timeout:g} s; it goes on handing over") from None
