"""``slotreeve drain``: take everything from a server before its machine is worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    NOT_FOUND,
    ClusterOption,
    DryRunOption,
    GatewayOption,
    MetaOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_cli.through_gateway import ThroughGateway

LOOK_SECONDS = 0.5


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    example = "slotreeve drain data-2 --dry-run  |  slotreeve drain session-1 --timeout 600"
    app.command("drain", epilog=f"Examples: {example}")(drain)


def drain(
    node: Annotated[str, typer.Argument(help="Name of a data or session server.")],
    dry_run: DryRunOption = False,
    wait: Annotated[bool, typer.Option(help="Wait until the server holds nothing.")] = True,
    timeout: Annotated[float, typer.Option(min=0, help="Wait for so many seconds at most.")] = 300.0,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
) -> None:
    """Let NODE hand over its slots, or send its clients away, and wait until it holds nothing. It is banned from then
    on, restarts included: slotreeve admin unban undoes it. Exit code 3 if there is no such member, 6 if it takes too
    long."""
    from slotreeve_client.tools import run_async

    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    if through is None:
        run_async(_drain(meta, cluster, node, dry_run, timeout if wait else 0.0))
    else:
        run_async(_drain_through(through, node, dry_run, timeout if wait else 0.0))


async def _drain(metas: list[str], cluster: str, name: str, dry_run: bool, timeout: float) -> None:
    from slotreeve_client.administration import change_orders, cluster_view
    from slotreeve_client.draining import drainable, holdings
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        with _refused():
            held = await drainable(transport, cluster, metas, name)
            typer.echo(f"{name} holds {held}, which {held.others} others take over")
            if dry_run:
                return
            await change_orders(transport, cluster, metas, held.banned_in)

        async def left() -> str:
            view = await cluster_view(transport, cluster, metas)
            still = await holdings(transport, cluster, view, held.node)
            return "" if still.is_nothing else str(still)

        await _until_empty(name, left, timeout)
    finally:
        await transport.close()


async def _drain_through(gateway: ThroughGateway, name: str, dry_run: bool, timeout: float) -> None:
    from urllib.parse import quote

    from slotreeve_cli.printing import as_text
    from slotreeve_cli.through_gateway import MembersSaid

    with _refused():
        act = gateway.act("PUT", f"drains/{quote(name, safe='')}", dry_run=dry_run)
    typer.echo("\n".join(map(as_text, act.sentences)))
    if dry_run:
        return

    async def left() -> str:
        servers = (await asyncio.to_thread(gateway.read, "members", MembersSaid)).servers
        row = next((one for one in servers if one.name == name), None)
        if row is None or (row.clients == 0 if row.role == "session" else not (row.leads or row.follows)):
            return ""
        if row.role == "session":
            return "clients, of which it does not tell" if row.clients is None else f"{row.clients} clients"
        return f"{row.leads} leaders and {row.follows} followers of slots"

    await _until_empty(name, left, timeout)


@contextmanager
def _refused() -> Iterator[None]:
    """Say why a server cannot be drained, and end."""
    from slotreeve.errors import NotThere, RequestError

    from slotreeve_cli.printing import as_text

    try:
        yield
    except RequestError as error:
        typer.echo(as_text(str(error)), err=True)
        raise typer.Exit(NOT_FOUND if isinstance(error, NotThere) else 1) from None


async def _until_empty(name: str, left: Callable[[], Awaitable[str]], timeout: float) -> None:
    """Wait until nothing is left; say on standard error what is, each time that it changes. ``timeout`` 0: do not wait.

    Raises:
        RequestTimeout: something is left after so long.
    """
    from slotreeve.errors import RequestTimeout

    undo = f"slotreeve admin unban {name} undoes it"
    if timeout <= 0:
        typer.echo(f"{name} is banned and hands over; {undo}")
        return
    before = ""
    try:
        async with asyncio.timeout(timeout):
            while held := await left():
                if held != before:
                    before = held
                    typer.echo(f"{name} still holds {before}", err=True)
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise RequestTimeout(f"{name} still holds {before} after {timeout:g} s; it goes on handing over") from None
    typer.echo(f"{name} holds nothing any more; {undo}")
