"""``slotreeve config check|show``: the settings that a server would run with, and their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from slotreeve_cli.options import ConfigOption, Output, OutputOption, SetOption, read_configuration

if TYPE_CHECKING:
    from slotreeve.catalogue import Catalogue
    from slotreeve_servers.settings import ServerConfiguration


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="The configuration: TOML file < environment < flags.", no_args_is_help=True)
    group.command("check", epilog="Example: slotreeve config check -c cluster.toml")(check)
    group.command("show", epilog="Example: slotreeve config show -c cluster.toml -o json")(show)
    app.add_typer(group, name="config")


def check(config: ConfigOption = None, settings: SetOption = []) -> None:  # noqa: B006 - typer copies it
    """Validate the configuration, and build every plugin as a meta server would; nothing is opened or connected. Exit
    code 2 and one line if a server would not start."""
    from slotreeve.catalogue import Catalogue
    from slotreeve_client.tools import run_async

    configuration, catalogue = read_configuration(config, settings), Catalogue.load()
    run_async(_build_all(configuration, catalogue))
    chosen = ", ".join(f"{port} {configuration.choice(port).use}" for port in configuration.check_plugins(catalogue))
    typer.echo(f"the configuration is valid: {chosen}")


async def _build_all(configuration: ServerConfiguration, catalogue: Catalogue) -> None:
    """Plugins are built on an event loop, as in a server."""
    import random

    from slotreeve.clock import LoopClock
    from slotreeve_servers.launch import Launcher

    Launcher(configuration, catalogue, LoopClock(), random.Random(0)).check()


def show(
    config: ConfigOption = None,
    output: OutputOption = Output.TABLE,
    settings: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """Print every setting with its value and its origin, the options of the chosen plugins included."""
    from slotreeve_cli.printing import print_rows

    print_rows(_rows(read_configuration(config, settings)), output)


def _rows(configuration: ServerConfiguration) -> list[dict[str, object]]:
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
