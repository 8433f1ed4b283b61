"""PostgreSQL, through psycopg 3."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import errors as states
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from slotreeve.errors import ConfigError, ConnectionLost, ElectionError, SlotreeveError, Unreachable

from slotreeve_election_mysql.connection import Parameter, Record, Session
from slotreeve_election_mysql.dialect import Dialect

DDL = (
    """CREATE TABLE IF NOT EXISTS {lock} (
    data_center varchar(128) NOT NULL,
    lock_name varchar(128) NOT NULL,
    owner varchar(255) NOT NULL,
    duration bigint NOT NULL,
    term bigint NOT NULL,
    term_duration bigint NOT NULL,
    gmt_create timestamptz NOT NULL,
    gmt_modified timestamptz NOT NULL,
    PRIMARY KEY (data_center, lock_name)
)""",
    """CREATE TABLE IF NOT EXISTS {state} (
    data_center varchar(128) NOT NULL,
    lock_name varchar(128) NOT NULL,
    state_key bytea NOT NULL,
    state_value bytea NOT NULL,
    version bigint NOT NULL,
    term bigint NOT NULL,
    revision bigint NOT NULL,
    gmt_modified timestamptz NOT NULL,
    PRIMARY KEY (data_center, lock_name, state_key),
    UNIQUE (data_center, lock_name, revision)
)""",
)
PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    states.ReadOnlySqlTransaction,
    states.SerializationFailure,
    states.IdleInTransactionSessionTimeout,
    states.UniqueViolation,  # of the revision, by a write that was given up and is still being carried out
)
"""Errors after which the same statement may succeed later, on another connection."""
FOR_GOOD = (states.InvalidPassword, states.InvalidAuthorizationSpecification, states.InvalidCatalogName)


def place(dsn: str) -> str:
    """Host, port and database of a connection string.

    Raises:
        ConfigError: it is not one.
    """
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        # The driver's message may quote the string, and a password with it.
        raise ConfigError(
            "[election.postgres] dsn is not a connection string; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"PostgreSQL at {host}:{port}, database {parts.get('dbname') or parts.get('user')}"


def connect(dsn: str, timeout_seconds: float, idle_seconds: float) -> Session:
    """Open a session that commits each statement; see :class:`slotreeve_election_mysql.dialect.Dialect`."""
    milliseconds = math.ceil(timeout_seconds * 1000)
    given = conninfo_to_dict(dsn)
    settings = {
        "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds,
        "idle_session_timeout": math.ceil(idle_seconds * 1000),
    }
    flags = " ".join(f"-c {key}={value}" for key, value in settings.items())
    conninfo = make_conninfo(
        dsn,
        connect_timeout=max(2, math.ceil(timeout_seconds)),
        tcp_user_timeout=milliseconds,
        application_name=given.get("application_name") or "slotreeve election",
        options=f"{given.get('options') or ''} {flags}".strip(),
    )
    try:
        return PostgresSession(psycopg.connect(conninfo, autocommit=True), place(dsn))
    except psycopg.Error as error:
        text = _described(error)
        # A refusal while connecting has no class of its own: libpq hands over the server's text only.
        refused = isinstance(error, FOR_GOOD) or any(
            word in text for word in ("authentication failed", "does not exist", "no pg_hba.conf entry")
        )
        kind: type[SlotreeveError] = ElectionError if refused else Unreachable
        raise kind(f"{place(dsn)}: cannot connect as {given.get('user') or 'the default user'}: {text}") from None


class PostgresSession:
    """See :class:`slotreeve_election_mysql.connection.Session`."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], place: str) -> None:
        self._connection, self._place = connection, place

    def execute(self, statement: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run a statement; how many rows it changed."""
        with self._translated():
            return self._connection.execute(statement.encode(), parameters or None).rowcount

    def query(self, statement: str, parameters: Sequence[Parameter] = ()) -> Sequence[Record]:
        """Run a statement; its rows."""
        with self._translated():
            return self._connection.execute(statement.encode(), parameters or None).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end, roll back after an exception."""
        with self._translated(), self._connection.transaction():
            yield

    def lock(self, name: str, wait_seconds: float) -> bool:
        """Wait for an advisory lock."""
        with self._translated():
            try:
                with self._connection.transaction():  # the lock outlasts it, the setting does not
                    self._connection.execute(f"SET LOCAL lock_timeout = {round(wait_seconds * 1000)}".encode())
                    self._connection.execute("SELECT pg_advisory_lock(%s)", (_number(name),))
            except states.LockNotAvailable:
                return False
        return True

    def unlock(self, name: str) -> None:
        """Release it."""
        self.query("SELECT pg_advisory_unlock(%s)", (_number(name),))

    def fileno(self) -> int:
        """The socket."""
        return self._connection.fileno()

    def close(self) -> None:
        """End the connection in order."""
        self._connection.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PASSING as error:
            raise ConnectionLost(f"{self._place}: {_described(error)}") from None
        except psycopg.Error as error:
            raise ElectionError(f"{self._place}: {_described(error)}") from None


def _described(error: psycopg.Error) -> str:
    """The first line of the server's message, with its code."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{text} ({error.sqlstate})" if error.sqlstate else text


def _number(name: str) -> int:
    """Advisory locks are numbers. Two names with one number would only notify each other's nodes in vain."""
    return zlib.crc32(name.encode())


POSTGRES = Dialect(
    name="postgres",
    now="clock_timestamp()",
    remaining="ceil(extract(epoch FROM gmt_modified - clock_timestamp()) * 1000 + duration)::bigint",
    insert_new=("INSERT INTO", "ON CONFLICT DO NOTHING"),
    ddl=DDL,
    place=place,
    connect=connect,
)
