"""``slotreeve publish``: be a provider for as long as the command runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import DEFAULT_SESSION, ClusterOption, HealthName, Output, OutputOption, SessionOption

if TYPE_CHECKING:
    from slotreeve.errors import SlotreeveError
    from slotreeve_client import Client, Instance, Publication

TIMEOUT_SECONDS = 10.0


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "publish",
        epilog="Examples: slotreeve publish com.example.Greeter 10.0.0.1:8080  |  "
        "slotreeve publish com.example.Greeter 10.0.0.1:8080 --zone east --for 60  |  "
        "slotreeve publish com.example.Greeter --address 10.0.0.1:8080 --scheme http --weight 50 --tag blue "
        "--meta version=1.2  |  slotreeve publish com.example.Greeter --address [2001:db8::1]:8080 "
        "--health warning --note 'disk at 91 %'",
    )(publish)


def publish(
    service: Annotated[str, typer.Argument(help="The service: a data id, or a whole data info id.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(help="What subscribers receive, as it is; or give --address.", show_default=False),
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Register an instance here: an address or name, with :port.")
    ] = None,
    scheme: Annotated[str, typer.Option("--scheme", help="Instance: how to talk to it, e.g. http.")] = "",
    weight: Annotated[
        int | None, typer.Option("--weight", help="Instance: share of the traffic, 100 by default.")
    ] = None,
    tag: Annotated[list[str], typer.Option("--tag", help="Instance: a tag; repeatable.")] = [],  # noqa: B006
    meta: Annotated[list[str], typer.Option("--meta", help="Instance: metadata key=value; repeatable.")] = [],  # noqa: B006
    health: Annotated[HealthName, typer.Option("--health", help="Instance: how it is.")] = HealthName.PASSING,
    note: Annotated[str, typer.Option("--note", help="Instance: why it is so, for people.")] = "",
    disabled: Annotated[bool, typer.Option("--disabled", help="Instance: it must not be called.")] = False,
    instance_id: Annotated[
        str, typer.Option("--id", help="Instance: its id within the service; by default address:port.")
    ] = "",
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    zone: Annotated[str | None, typer.Option("--zone", help="The provider's zone.")] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, help="End after so many seconds; default: with Ctrl-C.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Publish DATA, or register the instance at --address, under SERVICE until the command ends; then the provider
    disappears from every subscriber's view."""
    from slotreeve_client import Health, Instance
    from slotreeve_client.tools import run_async
    from slotreeve_protocol.addresses import split_endpoint
    from slotreeve_protocol.instance import DEFAULT_WEIGHT

    from slotreeve_cli.instances import pairs

    if (address is None) == (not data):
        raise typer.BadParameter("give exactly one of DATA and --address")
    if address is None:
        if scheme or weight is not None or tag or meta or note or disabled or instance_id or health != "passing":
            raise typer.BadParameter("options of an instance need --address instead of DATA")
        offer = partial(_publish_data, service=service, data=data or [], zone=zone)
    else:
        host, port = split_endpoint(address)
        instance = Instance(
            host,
            port,
            scheme,
            DEFAULT_WEIGHT if weight is None else weight,
            zone or "",
            tuple(tag),
            pairs("--meta", meta),
            Health(health.value),
            note,
            not disabled,
            instance_id,
        )
        offer = partial(_register, service=service, instance=instance)
    run_async(_publish(session, cluster, offer, seconds, output))


def _publish_data(client: Client, service: str, data: list[str], zone: str | None) -> Publication:
    return client.publish(service, *data, zone=zone)


def _register(client: Client, service: str, instance: Instance) -> Publication:
    return client.register(service, instance).publication


async def _publish(
    sessions: list[str],
    cluster: str,
    offer: Callable[[Client], Publication],
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
        publication = offer(client)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await publication.acknowledged()
        except TimeoutError:
            raise Unreachable(
                f"{publication.data_info_id} was not acknowledged within {TIMEOUT_SECONDS:g} s by {', '.join(sessions)}"
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


async def refused_all(awaited: Iterable[Awaitable[None]], stopping: asyncio.Event) -> SlotreeveError | None:
    """Set ``stopping`` once everything that is awaited has failed, and return the first error."""
    from slotreeve.errors import SlotreeveError

    found = await asyncio.gather(*awaited, return_exceptions=True)
    errors = [each for each in found if isinstance(each, SlotreeveError)]
    if len(errors) < len(found):
        return None
    stopping.set()
    return errors[0]


async def wait_for(stopping: asyncio.Event, seconds: float | None) -> None:
    """Until ``stopping`` is set, at most ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return
