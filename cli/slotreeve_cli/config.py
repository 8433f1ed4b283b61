"""``slotreeve config init|check|show``: the settings that a server would run with, and their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli import config_init
from slotreeve_cli.options import ConfigOption, Rows, RowsOption, SetOption, read_configuration

if TYPE_CHECKING:
    from slotreeve.catalogue import Catalogue
    from slotreeve_servers.settings import ServerConfiguration


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="The configuration: TOML file < environment < flags.", no_args_is_help=True)
    group.command(
        "check",
        epilog="Examples: slotreeve config check -c cluster.toml  |  slotreeve config check -c cluster.toml --online "
        "--set node.name=meta-1",
    )(check)
    group.command("show", epilog="Example: slotreeve config show -c cluster.toml -o json")(show)
    config_init.add_to(group)
    app.add_typer(group, name="config")


def check(
    config: ConfigOption = None,
    settings: SetOption = [],  # noqa: B006 - typer copies it
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Try, as the meta server node.name: its ports, its election's directory or database, the other meta "
            "servers.",
        ),
    ] = False,
    output: RowsOption = Rows.TABLE,
) -> None:
    """Validate the configuration for servers of every role, or of that of its key, and build every plugin. Exit code 2
    and one line if a server would not start. Without --online nothing is opened or connected; with it, exit code 1 if
    something failed."""
    from slotreeve.catalogue import Catalogue
    from slotreeve_client.tools import run_async

    from slotreeve_cli.printing import print_rows

    configuration, catalogue = read_configuration(config, settings), Catalogue.load()
    rows = run_async(build_all(configuration, catalogue, online))
    chosen = ", ".join(f"{port} {configuration.choice(port).use}" for port in configuration.check_plugins(catalogue))
    typer.echo(f"the configuration is valid: {chosen}", err=output is Rows.JSON)
    if online or output is Rows.JSON:
        print_rows(rows, output)
    if any(row["result"] == "failed" for row in rows):
        raise typer.Exit(1)


async def build_all(configuration: ServerConfiguration, catalogue: Catalogue, online: bool) -> list[dict[str, object]]:
    """Build every plugin as servers do, on an event loop, and look at the addresses of every role. ``online``: try
    them, too, and return what was found.

    Raises:
        ConfigError, PluginError, and what a plugin's ``build`` raises: a server would not start.
    """
    import random

    from slotreeve.clock import MachineClock
    from slotreeve.model.nodes import Role
    from slotreeve_servers.launch import Launcher

    from slotreeve_cli.online_check import try_online

    launcher = Launcher(configuration, catalogue, MachineClock(), random.Random(0))
    launcher.check()
    name, metas = configuration.settings.node.name, configuration.settings.cluster.meta
    for role in launcher.may_be:
        if role is Role.GATEWAY:
            launcher.http_address(launcher.gateway_node().address)
        elif role is not Role.META or not name or name in metas:
            launcher.http_address(launcher.node(role)[1])
    return await try_online(configuration, launcher) if online else []


def show(
    config: ConfigOption = None,
    output: RowsOption = Rows.TABLE,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Print every setting with its value and its origin, the options of the chosen plugins included."""
    from slotreeve_cli.printing import print_rows

    print_rows(setting_rows(read_configuration(config, settings)), output)


def setting_rows(configuration: ServerConfiguration) -> list[dict[str, object]]:
    """Every setting with its key, its value and its origin. Raises PluginError."""
    from slotreeve.catalogue import Catalogue
    from slotreeve.offers import Port

    rows: list[dict[str, object]] = []
    dumped = configuration.settings.model_dump()
    for section, fields in dumped.items():
        if section not in [port.value for port in Port]:
            rows += [_row(configuration, f"{section}.{key}", value) for key, value in fields.items()]
    for port, options in configuration.check_plugins(Catalogue.load()).items():
        use = configuration.choice(port).use
        rows.append(_row(configuration, f"{port}.use", use))
        rows += [_row(configuration, f"{port}.{use}.{key}", value) for key, value in options.model_dump().items()]
    return rows


def _row(configuration: ServerConfiguration, key: str, value: object) -> dict[str, object]:
    return {"key": key, "value": value, "from": configuration.origin(key)}
