"""The lock election: by a row in a database, as SOFARegistry's, with fenced meta state beside it.

Offers ``mysql`` (MariaDB too) and ``postgres``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, SecretStr
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.errors import PluginError
from slotreeve.ports import Election

if TYPE_CHECKING:
    from slotreeve_election_mysql.dialect import Dialect

NAME = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$"


class LockOptions(Options):
    """Options of the lock election, on either database. All nodes of a cluster must have the same, except ``dsn``."""

    dsn: SecretStr = Field(
        default=SecretStr(""),
        description="Where the database is: DIALECT://USER:PASSWORD@HOST:PORT/DATABASE. Required. Straight to the "
        "server that takes writes, not through a pooler.",
    )
    lease_ms: int = Field(
        default=5_000,
        ge=100,
        le=600_000,
        description="Milliseconds for which the row is its owner's after a renewal, and after which a dead leader is "
        "replaced. Greater than 2 x renew_ms + timeout_ms.",
    )
    renew_ms: int = Field(
        default=1_000,
        ge=10,
        le=60_000,
        description="Milliseconds between two renewals of the leader, and at most between two reads of the others.",
    )
    timeout_ms: int = Field(
        default=1_000,
        ge=10,
        le=60_000,
        description="Milliseconds after which one round trip to the database is given up and its connection dropped. "
        "Connecting has three times as long.",
    )
    table: str = Field(default="distribute_lock", pattern=NAME, description="Name of the lock table.")
    state_table: str = Field(
        default="slotreeve_meta_state", pattern=NAME, description="Name of the meta state's table."
    )
    observers: list[str] = Field(
        default_factory=list,
        description="Names of the meta servers that follow the leader and never lead; their accounts need SELECT only. "
        "The same on all meta servers.",
    )
    lock_name: str = Field(
        default="META-MASTER",
        min_length=1,
        max_length=128,
        description="Together with the cluster's name the key of the cluster's row: several clusters may share tables.",
    )


def _build(dialect: Dialect, options: LockOptions, context: Context) -> Election:
    from slotreeve_election_mysql.database_election import DatabaseLockElection

    return DatabaseLockElection(dialect, options, context)


def build_postgres(options: LockOptions, context: Context) -> Election:
    """The election of one node, by a row in PostgreSQL.

    Raises:
        ConfigError: the times do not go together, or the dsn is none.
        PluginError: the driver is not installed.
    """
    try:
        from slotreeve_election_mysql.postgres import POSTGRES
    except ImportError as error:
        raise _driver_missing("postgres", "psycopg", error) from None
    return _build(POSTGRES, options, context)


def build_mysql(options: LockOptions, context: Context) -> Election:
    """The election of one node, by a row in MySQL or MariaDB; raises as :func:`build_postgres`."""
    try:
        from slotreeve_election_mysql.mysql import MYSQL
    except ImportError as error:
        raise _driver_missing("mysql", "PyMySQL", error) from None
    return _build(MYSQL, options, context)


def _driver_missing(election: str, driver: str, error: ImportError) -> PluginError:
    return PluginError(f"the election {election!r} needs {driver} ({error}); pip install 'slotreeve[sql]'")


@hookimpl
def slotreeve_elections() -> Sequence[Offer]:
    """The lock election, on each kind of database."""
    return [
        Offer("mysql", build_mysql, "a row in MySQL or MariaDB, taken by compare-and-set", LockOptions),
        Offer("postgres", build_postgres, "a row in PostgreSQL, taken by compare-and-set", LockOptions),
    ]
