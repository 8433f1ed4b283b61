"""``slotreeve election accept``: an operator accepts a database that was set back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import typer

from slotreeve_cli.options import ConfigOption, SetOption, read_configuration

if TYPE_CHECKING:
    from slotreeve_servers.settings import ServerConfiguration

EPILOG = "Example: slotreeve election accept -c cluster.toml"
LOST = (
    "What was written to the meta state after this copy was made is given up: provided configuration and standing "
    "orders. Registrations are not in it. Accept it?"
)


@runtime_checkable
class AcceptsHistory(Protocol):
    """An election whose store can be set back."""

    async def accept(self, history: str) -> str:
        """Accept the store as it is, under a new name of its history; returns what was accepted, for people."""


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command("accept", epilog=EPILOG)(accept)


def accept(
    config: ConfigOption = None,
    settings: SetOption = [],  # noqa: B006 - typer copies it
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Accept the meta state as the database has it now, where the meta servers say that it was set back. They read all
    of it again and elect a leader; the servers and their registrations stay as they are."""
    from slotreeve_client.tools import run_async

    configuration = read_configuration(config, settings)
    if not yes:
        typer.confirm(LOST, abort=True)
    typer.echo(f"accepted: {run_async(_accept(configuration))}")


async def _accept(configuration: ServerConfiguration) -> str:
    import random
    import uuid

    from slotreeve.catalogue import Catalogue
    from slotreeve.clock import MachineClock
    from slotreeve.errors import ConfigError
    from slotreeve_servers.launch import Launcher

    election = Launcher(configuration, Catalogue.load(), MachineClock(), random.Random()).election()
    if not isinstance(election, AcceptsHistory):
        use = configuration.settings.election.use
        raise ConfigError(
            f"election.use: {use!r} keeps no state in a database, so there is none to accept; its data directories are "
            "described in docs/operating.md"
        )
    return await election.accept(uuid.uuid4().hex)
