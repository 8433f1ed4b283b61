"""PostgreSQL, through psycopg 3."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import errors as states
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from slotreeve.errors import ConfigError, ConnectionLost, ElectionError, Refused, SlotreeveError, Unreachable

from slotreeve_election_mysql.connection import Parameter, Record, Session, SqlResult, SqlStatement
from slotreeve_election_mysql.database_server import DatabaseServer
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
    states.SerializationFailure,
    states.IdleInTransactionSessionTimeout,
    states.UniqueViolation,  # of the revision, by a write that was given up and is still being carried out
)
"""Errors after which the same statement may succeed later, on another connection."""
FACTS = """SELECT pg_is_in_recovery(), (SELECT system_identifier::text FROM pg_control_system()),
    CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END"""
"""Query for which server this is."""
FOR_GOOD = (states.InvalidPassword, states.InvalidAuthorizationSpecification, states.InvalidCatalogName)


def place(dsn: str) -> str:
    """Host, port and database of a connection string.

    Raises:
        ConfigError: it is not one.
    """
    wrong = ConfigError(
        "[election.postgres] dsn is not a connection string; expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
        "where / and @ in the password are written %2F and %40"
    )
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise wrong from None  # the driver's message may quote the string, and a password with it
    if "://" in dsn and any("@" in str(parts.get(part) or "") for part in ("host", "dbname")):
        raise wrong  # the password goes on there: what is for messages would have it
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"PostgreSQL at {host}:{port}, database {parts.get('dbname') or parts.get('user')}"


def hosts(dsn: str) -> int:
    """How many hosts a connection string names."""
    given = conninfo_to_dict(dsn)
    return str(given.get("host") or given.get("hostaddr") or "").count(",") + 1


def connect(dsn: str, timeout_seconds: float, idle_seconds: float, connect_seconds: float) -> Session:
    """Open a session that commits each statement; see :class:`slotreeve_election_mysql.dialect.Dialect`."""
    given = conninfo_to_dict(dsn)
    flags = " ".join(f"-c {setting}" for setting in session_settings(timeout_seconds, idle_seconds))
    more = {}
    if hosts(dsn) > 1 and not given.get("target_session_attrs"):
        more["target_session_attrs"] = "primary"
    conninfo = make_conninfo(
        dsn,
        connect_timeout=max(2, int(connect_seconds / hosts(dsn))),
        tcp_user_timeout=math.ceil(timeout_seconds * 1000),
        application_name=given.get("application_name") or "slotreeve election",
        options=f"{given.get('options') or ''} {flags}".strip(),
        **more,
    )
    try:
        session = PostgresSession(psycopg.connect(conninfo, autocommit=True), place(dsn))
    except psycopg.Error as error:
        text = _described(error)
        # A refusal while connecting has no class of its own: libpq hands over the server's text only.
        refused = isinstance(error, FOR_GOOD) or any(
            word in text for word in ("authentication failed", "does not exist", "no pg_hba.conf entry")
        )
        kind: type[SlotreeveError] = ElectionError if refused else Unreachable
        raise kind(f"{place(dsn)}: cannot connect as {given.get('user') or 'the default user'}: {text}") from None
    session.server = _server(session)
    return session


def session_settings(timeout_seconds: float, idle_seconds: float) -> Sequence[str]:
    """See :class:`slotreeve_election_mysql.dialect.Dialect`."""
    milliseconds = math.ceil(timeout_seconds * 1000)
    return (
        r"default_transaction_isolation=read\ committed",
        f"lock_timeout={milliseconds}",
        f"idle_in_transaction_session_timeout={milliseconds}",
        f"idle_session_timeout={math.ceil(idle_seconds * 1000)}",
    )


def _server(session: PostgresSession) -> DatabaseServer:
    """Which server this is. A service that is PostgreSQL to its clients only may not tell."""
    try:
        ((is_standby, name, timeline),) = session.query(FACTS)
    except ElectionError:
        return DatabaseServer()
    why = (
        "the server is a standby: pg_is_in_recovery() is true; the dsn must lead to the primary (name all hosts and "
        "target_session_attrs=read-write), or this standby must be promoted"
        if is_standby
        else ""
    )
    return DatabaseServer(str(name or ""), int(str(timeline or "0"), 16), why_read_only=why)


class PostgresSession:
    """See :class:`slotreeve_election_mysql.connection.Session`."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], place: str) -> None:
        self._connection, self._place = connection, place
        self.server = DatabaseServer()

    def run(self, *statements: SqlStatement) -> Sequence[SqlResult]:
        """Run statements in one round trip, by the protocol's pipeline."""
        with self._translated():
            if len(statements) == 1:
                return [_result(self._sent(statements[0]))]
            with self._connection.pipeline():
                cursors = [self._sent(each) for each in statements]
            return [_result(cursor) for cursor in cursors]

    def execute(self, statement: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run one statement; how many rows it changed."""
        return self.run(SqlStatement(statement, tuple(parameters)))[0].changed

    def query(self, statement: str, parameters: Sequence[Parameter] = ()) -> Sequence[Record]:
        """Run one statement; its rows."""
        return self.run(SqlStatement(statement, tuple(parameters)))[0].rows

    def _sent(self, statement: SqlStatement) -> psycopg.Cursor[tuple[object, ...]]:
        return self._connection.execute(statement.text.encode(), statement.parameters or None, binary=True)

    def lock(self, name: str, wait_seconds: float) -> bool:
        """Wait for an advisory lock."""
        with self._translated():
            try:
                with self._connection.pipeline():
                    self._connection.execute("BEGIN")  # the lock outlasts it, the setting does not
                    self._connection.execute(f"SET LOCAL lock_timeout = {round(wait_seconds * 1000)}".encode())
                    self._connection.execute("SELECT pg_advisory_lock(%s)", (_number(name),))
                    self._connection.execute("COMMIT")
            except states.LockNotAvailable:
                self._connection.rollback()
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
        except states.ReadOnlySqlTransaction as error:
            raise Refused(f"{self._place}: {_described(error)}") from None
        except PASSING as error:
            raise ConnectionLost(f"{self._place}: {_described(error)}") from None
        except psycopg.Error as error:
            self._roll_back()
            raise ElectionError(f"{self._place}: {_described(error)}") from None

    def _roll_back(self) -> None:
        """End the transaction of a statement that was refused; harmless where there is none."""
        try:
            self._connection.rollback()
        except psycopg.Error as error:
            raise ConnectionLost(f"{self._place}: {_described(error)}") from None


def _result(cursor: psycopg.Cursor[tuple[object, ...]]) -> SqlResult:
    return SqlResult(cursor.rowcount, [] if cursor.description is None else cursor.fetchall())


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
    blob="%s",
    as_blob=bytes,
    session_settings=session_settings,
    ddl=DDL,
    place=place,
    connect=connect,
    hosts=hosts,
)
