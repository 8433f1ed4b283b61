"""What differs between the databases: parts of statements, and how to connect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotreeve_election_mysql.connection import Parameter, Session


@dataclass(frozen=True)
class Dialect:
    """SQL fragments and statements of one kind of database.

    Attributes:
        name: the election's name in the config.
        now: the present moment by the database's clock, in UTC, to the millisecond or finer.
        remaining: milliseconds from now until ``gmt_modified`` plus ``duration``, rounded up.
        insert_new: how INSERT ... VALUES begins and ends where a row that exists is no error.
        blob: the placeholder of a value of the meta state.
        as_blob: a value as that placeholder's parameter. A statement must not be much longer than its value, whatever
            bytes the value has.
        ddl: statements that make the tables; ``{lock}`` and ``{state}`` are their names.
        place: host, port and database of a connection string, for messages; raises ConfigError if it is not one.
        session_settings: what every session sets, whatever the server's or the account's defaults are. A transaction
            reads what was committed before each of its statements. As far as the server has such limits, a statement
            waits no longer for a lock than the first number of seconds, and the server ends a connection that is
            unused for the second number: a machine that was lost, or a process that is frozen within a transaction,
            must not keep the row from the others.
        connect: opens a session with these settings, within the third number of seconds, of which each host or address
            that is tried has its share.
        hosts: how many hosts a connection string names.
    """

    name: str
    now: str
    remaining: str
    insert_new: tuple[str, str]
    blob: str
    as_blob: Callable[[bytes], Parameter]
    session_settings: Callable[[float, float], Sequence[str]]
    ddl: tuple[str, ...]
    place: Callable[[str], str]
    connect: Callable[[str, float, float, float], Session]
    hosts: Callable[[str], int]


@dataclass(frozen=True)
class Tables:
    """Names of the two tables, and which rows in them are this cluster's.

    Attributes:
        data_center, lock: the key of the row, as in SOFARegistry; two clusters may share the tables.
    """

    lock_table: str
    state_table: str
    data_center: str
    lock: str

    @property
    def key(self) -> tuple[str, str]:
        """Parameters for the key's two columns."""
        return self.data_center, self.lock


def ddl(dialect: Dialect, tables: Tables) -> Sequence[str]:
    """The statements that make the tables, for an account that may."""
    return [part.format(lock=tables.lock_table, state=tables.state_table) for part in dialect.ddl]
