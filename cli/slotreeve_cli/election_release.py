"""``slotreeve election release``: the row of a leader that is dead, released by an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import typer

from slotreeve_cli.options import ConfigOption, SetOption, read_configuration

if TYPE_CHECKING:
    from slotreeve_servers.settings import ServerConfiguration

EPILOG = "Example: slotreeve election release -c cluster.toml"


@runtime_checkable
class ReleasesRow(Protocol):
    """An election whose leader owns a row."""

    async def release(self) -> str:
        """Release the row of a dead owner; returns what was done, for people."""


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command("release", epilog=EPILOG)(release)


def release(
    config: ConfigOption = None,
    settings: SetOption = [],  # noqa: B006 - typer copies it
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Release the row of a lock election whose owner is dead, where its lease does not end by itself: the clock of the
    database was set back, or the lease is long. The row is watched for a whole lease first, and an owner that renews it
    keeps it."""
    from slotreeve_client.tools import run_async

    configuration = read_configuration(config, settings)
    if not yes:
        typer.confirm("Watch the row for a whole lease, and release it if its owner does not renew it?", abort=True)
    typer.echo(run_async(_release(configuration)))


async def _release(configuration: ServerConfiguration) -> str:
    import random

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import LoopClock
    from slotreeve.errors import ConfigError
    from slotreeve_servers.launch import Launcher

    election = Launcher(configuration, Catalogue.load(), LoopClock(), random.Random()).election()
    if not isinstance(election, ReleasesRow):
        use = configuration.settings.election.use
        raise ConfigError(
            f"election.use: {use!r} has no row that could be released; only a lock election (mysql, postgres) has one"
        )
    return await election.release()
