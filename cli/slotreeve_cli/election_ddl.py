"""``slotreeve election ddl``: the tables of a lock election, for an account that may make them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

import typer

from slotreeve_cli.options import dotted

EPILOG = "Example: slotreeve election ddl --dialect postgres | psql registry"


class DialectName(StrEnum):
    """The elections that keep tables."""

    MYSQL = "mysql"
    POSTGRES = "postgres"


@runtime_checkable
class KeepsTables(Protocol):
    """An election that can print its tables."""

    def ddl(self) -> str:
        """SQL statements that make them, each ended by a semicolon."""


def add_to(group: typer.Typer) -> None:
    """Add the command."""
    group.command("ddl", epilog=EPILOG)(print_ddl)


def print_ddl(
    dialect: Annotated[DialectName, typer.Option("--dialect", "-d", help="Kind of database; mysql is MariaDB too.")],
    settings: Annotated[
        list[str], typer.Option("--set", help="An option of the election, e.g. table=distribute_lock; repeatable.")
    ] = [],  # noqa: B006 - typer copies it
) -> None:
    """Print the statements that make the tables of a lock election; nothing is connected."""
    typer.echo(ddl(dialect, dotted(settings)), nl=False)


def ddl(dialect: str, options: Mapping[str, object]) -> str:
    """The statements that make the tables which the election ``dialect`` uses with these options.

    Raises:
        PluginError: it is not installed, or an option does not fit.
        ConfigError: the options do not go together.
    """
    from slotreeve.errors import ConfigError
    from slotreeve.offers import Port

    from slotreeve_cli.plan import build_unattached

    nowhere = {"dsn": f"{dialect}://nobody@localhost/none"}
    election = build_unattached(Port.ELECTION, dialect, 1, {**nowhere, **options})
    if not isinstance(election, KeepsTables):
        raise ConfigError(f"the election {dialect!r} keeps no tables; those that do: {', '.join(DialectName)}")
    return election.ddl()
