"""``slotreeve subscribe``: print every change of some services."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_SESSION, ClusterOption, Output, OutputOption, ScopeName, SessionOption
from slotreeve_cli.printed_changes import PrintedChanges

if TYPE_CHECKING:
    from slotreeve_client import Client, Subscription

SILENT_SECONDS = 3.0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "subscribe",
        epilog="Examples: slotreeve subscribe com.example.Greeter  |  slotreeve subscribe a.B c.D -o json --updates 5",
    )(subscribe)


def subscribe(
    services: Annotated[list[str], typer.Argument(metavar="SERVICE...", help="Data ids or whole data info ids.")],
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    scope: Annotated[ScopeName, typer.Option(help="zone: providers in the session server's zone only.")] = (
        ScopeName.DATA_CENTER
    ),
    updates: Annotated[int | None, typer.Option(min=1, help="End after so many updates.")] = None,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print what is published for each SERVICE, now and at every change, until Ctrl-C. It ends where none is shown."""
    from slotreeve_client.tools import run_async

    run_async(_subscribe(session, cluster, services, scope, updates, seconds, output))


async def _subscribe(
    sessions: list[str],
    cluster: str,
    services: list[str],
    scope: ScopeName,
    updates: int | None,
    seconds: float | None,
    output: Output,
) -> None:
    from slotreeve_client import Scope
    from slotreeve_client.tools import open_client

    from slotreeve_cli.publish import refused_all, wait_for
    from slotreeve_cli.run import stop_requested

    stopping = stop_requested(until_eof=False)
    printed = PrintedChanges(updates, stopping)

    def changed(subscription: Subscription) -> None:
        printed.add(lambda: _print(subscription, output))

    async with open_client(sessions, cluster) as client:
        made = [client.subscribe(service, changed, Scope[scope.name]) for service in services]
        refusal = asyncio.create_task(refused_all((each.ready() for each in made), stopping))
        # A subscriber waits for a registry that is not there yet, and reports that it waits.
        silent = asyncio.get_running_loop().call_later(SILENT_SECONDS, _tell_if_silent, client)
        try:
            await wait_for(stopping, seconds)
        finally:
            silent.cancel()
            refusal.cancel()
        printed.check()
        if refusal.done() and (error := refusal.result()) is not None:
            raise error


def _tell_if_silent(client: Client) -> None:
    if client.server is None:
        typer.echo(f"not connected yet, trying on{client.why_not_connected()}", err=True)


def _print(subscription: Subscription, output: Output) -> None:
    from slotreeve.model.data_info import short_name

    from slotreeve_cli.instances import provider_line, provider_row
    from slotreeve_cli.printing import print_json

    providers = subscription.instances
    if output is Output.JSON:
        rows = list(map(provider_row, providers))
        print_json({"data_info_id": subscription.data_info_id, "version": subscription.version, "instances": rows})
        return
    typer.echo(
        f"{short_name(subscription.data_info_id)}: {len(providers)} provider{'' if len(providers) == 1 else 's'}"
    )
    for provider in providers:
        typer.echo(f"  {provider_line(provider)}")
