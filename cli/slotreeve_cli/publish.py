"""``slotreeve publish``: be a provider for as long as the command runs."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from slotreeve_client.tools import run_async

from slotreeve_cli.options import DEFAULT_SESSION, ClusterOption, Output, OutputOption, SessionOption

TIMEOUT_SECONDS = 10.0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "publish",
        epilog="Examples: slotreeve publish com.example.Greeter 10.0.0.1:8080  |  "
        "slotreeve publish com.example.Greeter 10.0.0.1:8080 --zone east --for 60",
    )(publish)


def publish(
    service: Annotated[str, typer.Argument(help="The service: a data id, or a whole data info id.")],
    data: Annotated[list[str], typer.Argument(help="What subscribers receive, usually an address.")],
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    zone: Annotated[str | None, typer.Option("--zone", help="The provider's zone.")] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, help="End after so many seconds; default: with Ctrl-C.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Publish DATA under SERVICE until the command ends; then the provider disappears from every subscriber's view."""
    run_async(_publish(session, cluster, service, data, zone, seconds, output))


async def _publish(
    sessions: list[str],
    cluster: str,
    service: str,
    data: list[str],
    zone: str | None,
    seconds: float | None,
    output: Output,
) -> None:
    from slotreeve.errors import Unreachable
    from slotreeve_client.tools import open_client

    from slotreeve_cli.printing import print_json
    from slotreeve_cli.run import stop_requested

    stopping = stop_requested(until_eof=False)
    async with open_client(sessions, cluster) as client:
        began = time.monotonic()
        publication = client.publish(service, *data, zone=zone)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await publication.acknowledged()
        except TimeoutError:
            raise Unreachable(
                f"{service} was not acknowledged within {TIMEOUT_SECONDS:g} s by {', '.join(sessions)}"
                f"{client.why_not_connected()}"
            ) from None
        took_ms = 1000 * (time.monotonic() - began)
        if output is Output.JSON:
            print_json(
                {
                    "data_info_id": publication.data_info_id,
                    "register_id": publication.register_id,
                    "server": client.server,
                    "acknowledged_ms": round(took_ms, 3),
                }
            )
        else:
            typer.echo(f"published {publication.data_info_id} as {publication.register_id} ({took_ms:.1f} ms)")
            if seconds is None:
                typer.echo("it stays until this command ends (Ctrl-C)")
        await wait_for(stopping, seconds)


async def wait_for(stopping: asyncio.Event, seconds: float | None) -> None:
    """Until ``stopping`` is set, at most ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return
