"""``slotreeve settings``: settings that an operator changes while servers run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import (
    DEFAULT_META,
    NOT_FOUND,
    ClusterOption,
    DryRunOption,
    GatewayOption,
    MetaOption,
    Output,
    OutputOption,
    Rows,
    RowsOption,
    TokenFileOption,
)

if TYPE_CHECKING:
    from slotreeve_client.setting_reports import SettingsReport
    from slotreeve_protocol.live_settings import Value

    from slotreeve_cli.through_gateway import ActSaid, ThroughGateway

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A setting, e.g. session.push_window_seconds.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Settings that change while servers run: above every file, until they are unset.")
    group.command("show", epilog="Examples: slotreeve settings show  |  slotreeve settings show data. -o json")(show)
    group.command(
        "set",
        epilog="Examples: slotreeve settings set session.push_window_seconds 0.05  |  "
        "slotreeve settings set meta.protect_below 3 --dry-run  |  slotreeve settings set log.level debug",
    )(set_)
    group.command("unset", epilog="Example: slotreeve settings unset session.push_window_seconds")(unset)
    app.add_typer(group, name="settings", no_args_is_help=True)


def show(
    name: Annotated[str, typer.Argument(help="Only settings whose names begin so.")] = "",
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: RowsOption = Rows.TABLE,
) -> None:
    """What is in force at every server, what its own configuration says and where, and the bounds. A gateway is shown
    where it is asked. Exit code 3 if no server has such a setting, 1 if a server is silent or does not follow."""
    from msgspec.structs import asdict
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import as_text, print_rows
    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    found = _through(through) if through is not None else run_async(_report(meta, cluster))
    rows = [asdict(one) | {"live": "yes" if one.live else "no"} for one in found.settings if one.name.startswith(name)]
    print_rows(rows, output, empty=f"no setting that may be changed begins with {name!r}", only_wide=("bounds",))
    for server, why in found.silent.items():
        typer.echo(f"{server} does not tell of its settings: {as_text(why)}", err=True)
    for sentence in found.ignored:
        typer.echo(as_text(sentence), err=True)
    if found.silent or found.ignored:
        raise typer.Exit(1)
    if not rows:
        raise typer.Exit(NOT_FOUND)


def set_(
    name: NameArgument,
    value: Annotated[str, typer.Argument(help="A number or a word within its bounds (slotreeve settings show).")],
    dry_run: DryRunOption = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change the setting NAME of all servers at once. It outranks their files, flags and variables, survives restarts,
    and holds until it is unset."""
    from slotreeve_client.tools import run_async
    from slotreeve_protocol.live_settings import live_setting

    from slotreeve_cli.printing import print_act
    from slotreeve_cli.through_gateway import gateway_of

    through, parsed = gateway_of(gateway, token_file), live_setting(name).parse(value)
    if through is not None:
        act = through.act("PUT", f"settings/{name}", {"value": parsed}, dry_run=dry_run)
    else:
        act = run_async(_change(meta, cluster, name, parsed, dry_run))
    print_act(act, output)


def unset(
    name: NameArgument,
    dry_run: DryRunOption = False,
    meta: MetaOption = [DEFAULT_META],  # noqa: B006 - typer copies it
    cluster: ClusterOption = "slotreeve",
    gateway: GatewayOption = "",
    token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let the setting NAME be as the configuration of each server says."""
    from urllib.parse import quote

    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_act
    from slotreeve_cli.through_gateway import gateway_of

    through = gateway_of(gateway, token_file)
    if through is not None:
        act = through.act("DELETE", f"settings/{quote(name, safe='')}", dry_run=dry_run)
    else:
        act = run_async(_change(meta, cluster, name, None, dry_run))
    print_act(act, output)


def _through(gateway: ThroughGateway) -> SettingsReport:
    from slotreeve_client.setting_reports import SettingsReport

    return gateway.read("settings", SettingsReport)


async def _report(metas: list[str], cluster: str) -> SettingsReport:
    from slotreeve_client.setting_reports import settings_in_force
    from slotreeve_client.tools import asked

    return await asked(lambda transport: settings_in_force(transport, cluster, metas))


async def _change(metas: list[str], cluster: str, name: str, value: Value | None, dry_run: bool) -> ActSaid:
    from slotreeve_client.administration import change_settings
    from slotreeve_client.setting_reports import setting_change, settings_in_force, undo_command
    from slotreeve_client.tools import open_transport

    from slotreeve_cli.through_gateway import ActSaid, UndoSaid

    transport = open_transport()
    try:
        before, _ = await change_settings(transport, cluster, metas, lambda table: table)
        sentences = setting_change(await settings_in_force(transport, cluster, metas), before, name, value)
        after = before.changed(name, value)
        if not dry_run:
            before, after = await change_settings(transport, cluster, metas, lambda table: table.changed(name, value))
    finally:
        await transport.close()
    undo = undo_command(before, name) if before != after else ""
    return ActSaid(not dry_run and before != after, sentences, UndoSaid(undo) if undo else None)
