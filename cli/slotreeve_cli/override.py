"""``slotreeve override``: what an operator wants of single instances, whatever their providers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    DEFAULT_SESSION,
    NOT_FOUND,
    ClusterOption,
    DryRunOption,
    GatewayOption,
    MetaOption,
    Rows,
    RowsOption,
    SessionOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_protocol.overrides import Override, Overrides

    from slotreeve_cli.through_gateway import ThroughGateway

ServiceArgument = Annotated[str, typer.Argument(help="The service: a data id, or a whole data info id.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the instance, by default its address:port.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="What an operator wants of single instances: weight, enabled, drain. Providers keep theirs."
    )
    group.command(
        "set",
        epilog="Examples: slotreeve override set com.example.Greeter 10.0.0.1:8080 --drain --note 'new disk'  |  "
        "slotreeve override set com.example.Greeter 10.0.0.1:8080 --weight 10  |  "
        "slotreeve override set com.example.Greeter 10.0.0.1:8080 --disabled",
    )(set_)
    group.command(
        "list", epilog="Examples: slotreeve override list  |  slotreeve override list com.example.Greeter -o json"
    )(list_)
    group.command("clear", epilog="Example: slotreeve override clear com.example.Greeter 10.0.0.1:8080")(clear)
    group.command(
        "prune", epilog="Examples: slotreeve override prune --dry-run  |  slotreeve override prune com.example.Greeter"
    )(prune)
    app.add_typer(group, name="override", no_args_is_help=True)


def set_(
    service: ServiceArgument,
    instance_id: IdArgument,
    weight: Annotated[int | None, typer.Option("--weight", help="Its share of the traffic, 0 to 65535.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enabled/--disabled", help="Whether it may be called.")] = None,
    drain: Annotated[bool | None, typer.Option("--drain/--no-drain", help="No new traffic: its weight is 0.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="Why, for people.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Forget what was overridden before.")] = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
) -> None:
    """Override what the provider of instance ID says. It holds until it is cleared, also where the provider registers
    again. What is not given stays as it was overridden before. The instance need not be registered."""
    from msgspec.structs import asdict, replace
    from slotreeve.model.data_info import DataInfo
    from slotreeve_client.tools import run_async
    from slotreeve_protocol.overrides import Override

    from slotreeve_cli.through_gateway import gateway_of

    given = {"weight": weight, "enabled": enabled, "drain": drain, "note": note}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("give at least one of --weight, --enabled, --disabled, --drain, --no-drain and --note")
    data_info_id = DataInfo.parse(service).id

    def changed(overrides: Overrides) -> Override:
        before = Override() if anew else overrides.of(data_info_id).get(instance_id, Override())
        return replace(before, **changes)

    def change(overrides: Overrides) -> Overrides:
        return overrides.changed(data_info_id, instance_id, changed(overrides))

    through = gateway_of(gateway, token_file)
    if through is None:
        run_async(_change(meta, cluster, change))
    else:
        body = asdict(changed(_overrides_through(through)))
        _say(through.act("PUT", _place(data_info_id, instance_id), body).sentences)
    typer.echo(f"overridden: {instance_id} of {data_info_id}")


def clear(
    service: ServiceArgument,
    instance_id: IdArgument,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
) -> None:
    """Let instance ID be as its provider says. Exit code 3 where it is not overridden."""
    from slotreeve.model.data_info import DataInfo
    from slotreeve_client.tools import run_async

    from slotreeve_cli.through_gateway import gateway_of

    data_info_id = DataInfo.parse(service).id
    was_there = False

    def change(overrides: Overrides) -> Overrides:
        nonlocal was_there
        was_there = instance_id in overrides.of(data_info_id)
        return overrides.changed(data_info_id, instance_id, None)

    through = gateway_of(gateway, token_file)
    if through is None:
        run_async(_change(meta, cluster, change))
    else:
        was_there = through.act("DELETE", _place(data_info_id, instance_id)).done
    if not was_there:
        typer.echo(f"{instance_id} of {data_info_id} is not overridden")
        raise typer.Exit(NOT_FOUND)
    typer.echo(f"cleared: {instance_id} of {data_info_id}")


def prune(
    service: Annotated[str, typer.Argument(help="Only of this service.")] = "",
    dry_run: DryRunOption = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    output: RowsOption = Rows.TABLE,
) -> None:
    """Clear every override whose instance is not registered now, and print them. One that registers again later meets
    no override. Nothing is cleared where the session servers do not say what is registered."""
    from slotreeve.errors import Unreachable
    from slotreeve.model.data_info import DataInfo
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    rows = run_async(_list(meta, session, cluster, DataInfo.parse(service).id if service else ""))
    if any(row["registered"] is None for row in rows):
        raise Unreachable("no session server says which instances are registered; nothing was cleared")
    gone = [row for row in rows if not row["registered"]]

    def change(overrides: Overrides) -> Overrides:
        for row in gone:
            overrides = overrides.changed(str(row["service"]), str(row["id"]), None)
        return overrides

    if gone and not dry_run:
        run_async(_change(meta, cluster, change))
    print_rows(gone, output, empty="every override is of a registered instance")


def list_(
    service: Annotated[str, typer.Argument(help="Only of this service.")] = "",
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    session: SessionOption = [DEFAULT_SESSION],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """Every override, and whether its instance is registered now (unknown where no session server says, and through a
    gateway)."""
    from slotreeve.model.data_info import DataInfo
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows
    from slotreeve_cli.through_gateway import gateway_of

    only, through = DataInfo.parse(service).id if service else "", gateway_of(gateway, token_file)
    if through is None:
        rows = run_async(_list(meta, session, cluster, only))
    else:
        rows = _rows(_overrides_through(through), only, None)
    print_rows(rows, output, empty="nothing is overridden")


def _place(data_info_id: str, instance_id: str) -> str:
    from urllib.parse import quote

    return f"overrides/{quote(data_info_id, safe='')}/{quote(instance_id, safe='')}"


def _say(sentences: Sequence[str]) -> None:
    from slotreeve_cli.printing import as_text

    for sentence in sentences:
        typer.echo(as_text(sentence), err=True)


def _overrides_through(gateway: ThroughGateway) -> Overrides:
    from slotreeve_protocol.overrides import Override, Overrides

    from slotreeve_cli.through_gateway import OverridesSaid

    services: dict[str, dict[str, Override]] = {}
    for one in gateway.read("overrides", OverridesSaid).overrides:
        services.setdefault(one.service, {})[one.id] = Override(one.weight, one.enabled, one.drain, one.note)
    return Overrides(services)


async def _list(metas: list[str], sessions: list[str], cluster: str, only: str) -> list[dict[str, object]]:
    overrides = await _change(metas, cluster, lambda overrides: overrides)
    services = [name for name in sorted(overrides.services) if name == only or not only]
    return _rows(overrides, only, await _registered(sessions, cluster, services))


def _rows(overrides: Overrides, only: str, registered: dict[str, set[str]] | None) -> list[dict[str, object]]:
    """``registered``: the ids of the registered instances by service; None: they are not known."""
    return [
        {
            "service": name,
            "id": instance_id,
            "weight": override.weight,
            "enabled": override.enabled,
            "drain": override.drain,
            "note": override.note,
            "registered": instance_id in registered[name] if registered is not None else None,
        }
        for name in sorted(overrides.services)
        if name == only or not only
        for instance_id, override in sorted(overrides.of(name).items())
    ]


async def _registered(sessions: list[str], cluster: str, services: list[str]) -> dict[str, set[str]] | None:
    """The ids of the registered instances by service; None where the session servers do not tell."""
    from slotreeve.errors import TransportError
    from slotreeve_client.tools import open_client

    found: dict[str, set[str]] = {}
    async with open_client(sessions, cluster) as client:
        try:
            for name in services:
                found[name] = {p.said.id for p in await client.get(name) if p.said is not None}
        except TransportError as error:
            typer.echo(f"which of them are registered is unknown: {error}", err=True)
            return None
    return found


async def _change(metas: list[str], cluster: str, change: Callable[[Overrides], Overrides]) -> Overrides:
    from slotreeve_client.administration import change_overrides
    from slotreeve_client.tools import open_transport

    transport = open_transport()
    try:
        return (await change_overrides(transport, cluster, metas, change))[1]
    finally:
        await transport.close()
