"""``slotreeve clients``, ``application`` and ``subscribers``: who is connected, what it uses, what it was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    NOT_FOUND,
    ClusterOption,
    GatewayOption,
    MetaOption,
    Rows,
    RowsOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_client.reports import ApplicationsReport, ClientsReport, SubscribersReport, UsesReport


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("clients", epilog="Examples: slotreeve clients  |  slotreeve clients orders- -o tsv")(clients)
    example = "slotreeve application  |  slotreeve application orders"
    app.command("application", epilog=f"Examples: {example}")(application)
    app.command("subscribers", epilog="Example: slotreeve subscribers com.example.Greeter")(subscribers)


def clients(
    prefix: Annotated[str, typer.Argument(help="Only clients whose id or address starts with this.")] = "",
    of: Annotated[str | None, typer.Option("--application", help="Only clients of this application.")] = None,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """The connected clients of all session servers: what each has registered, and whether it reads what is pushed. The
    ids are those that slotreeve admin client-off takes. Exit code 3 if there are none, 1 if a server is silent."""
    from msgspec.structs import asdict
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    found = through.clients(prefix, of) if through is not None else run_async(_clients(meta, cluster, prefix, of))
    rows: list[dict[str, object]] = [
        {**asdict(one), "connected_s": round(one.connected_s), "hidden": "yes" if one.hidden else "no"}
        for one in found.clients
    ]
    print_rows(rows, output, empty="no client is connected", only_wide=("not_stored", "hidden", "application"))
    _end(found.silent, bool(rows))


def application(
    name: Annotated[str, typer.Argument(help="The application; none: all of them.")] = "",
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """What the application NAME publishes and subscribes to, at all session servers; without NAME, all applications
    with their clients. Clients say what they are called (ClientOptions.application). Exit code 3 if there are none, 1
    if a server is silent."""
    from msgspec.structs import asdict
    from slotreeve.model.data_info import short_name
    from slotreeve_client.reports import ApplicationsReport
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    if name:
        uses = through.uses(name) if through is not None else run_async(_uses(meta, cluster, name))
        shown = str if output is Rows.JSON else short_name
        rows = [asdict(one) | {"service": shown(one.service)} for one in uses.uses]
        if output is not Rows.JSON:
            rows = [row | {"subscribes": "yes" if row["subscribes"] else "no"} for row in rows]
        print_rows(rows, output, empty=f"no client of {name} publishes or subscribes to anything")
        silent = uses.silent
    else:
        read = through.read("applications", ApplicationsReport) if through is not None else None
        found = read or run_async(_applications(meta, cluster))
        rows = list(map(asdict, found.applications))
        print_rows(rows, output, empty="no client is connected")
        silent = found.silent
    _end(silent, bool(rows))


def subscribers(
    service: Annotated[str, typer.Argument(help="The service: a data id, or a whole data info id.")],
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """The subscribers of SERVICE at all session servers, and whether each was sent the newest version, and how late
    its callbacks run. Exit code 3 if there are none, 1 if a server is silent."""
    from slotreeve_client.tools import run_async
    from slotreeve_protocol.people_messages import LATE_SECONDS

    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    found = through.subscribers(service) if through is not None else run_async(_subscribers(meta, cluster, service))
    rows: list[dict[str, object]] = [
        {
            "client": one.client,
            "address": one.address,
            "server": one.server,
            "scope": one.scope,
            "state": "behind" if not one.is_current else "late" if one.late_s >= LATE_SECONDS else "current",
            "unread": one.unread,
            "late_s": one.late_s,
            "sent": one.sent,
            "newest": found.newest,
        }
        for one in found.subscribers
    ]
    print_rows(rows, output, empty=f"{service} has no subscribers", only_wide=("sent", "newest"))
    _end(found.silent, bool(rows))


def _end(silent: Mapping[str, str], is_there: bool) -> None:
    from slotreeve_cli.printing import as_text

    for server, why in silent.items():
        typer.echo(f"{server} does not tell of its clients: {as_text(why)}", err=True)
    if silent:
        raise typer.Exit(1)
    if not is_there:
        raise typer.Exit(NOT_FOUND)


async def _clients(metas: list[str], cluster: str, prefix: str, application: str | None) -> ClientsReport:
    from slotreeve_client.audience import connected_clients
    from slotreeve_client.reports import clients_report
    from slotreeve_client.tools import asked

    found = await asked(lambda transport: connected_clients(transport, cluster, metas))
    return clients_report(found, prefix, application)


async def _applications(metas: list[str], cluster: str) -> ApplicationsReport:
    from slotreeve_client.audience import connected_clients
    from slotreeve_client.reports import applications_report
    from slotreeve_client.tools import asked

    return applications_report(await asked(lambda transport: connected_clients(transport, cluster, metas)))


async def _uses(metas: list[str], cluster: str, application: str) -> UsesReport:
    from slotreeve_client.audience import uses_of
    from slotreeve_client.reports import uses_report
    from slotreeve_client.tools import asked

    return uses_report(await asked(lambda transport: uses_of(transport, cluster, metas, application)))


async def _subscribers(metas: list[str], cluster: str, service: str) -> SubscribersReport:
    from slotreeve_client.audience import subscribers_of
    from slotreeve_client.reports import subscribers_report
    from slotreeve_client.tools import asked

    return subscribers_report(await asked(lambda transport: subscribers_of(transport, cluster, metas, service)))
