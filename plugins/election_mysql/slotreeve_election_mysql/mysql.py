"""MySQL and MariaDB, through PyMySQL."""

from __future__ import annotations

import base64
import contextlib
import math
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from slotreeve.errors import ConfigError, ConnectionLost, ElectionError, Refused, SlotreeveError, Unreachable

from slotreeve_election_mysql.connection import Parameter, Record, Session, SqlResult, SqlStatement
from slotreeve_election_mysql.database_server import DatabaseServer
from slotreeve_election_mysql.dialect import Dialect

DDL = (
    """CREATE TABLE IF NOT EXISTS {lock} (
    data_center varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    lock_name varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    owner varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    duration bigint NOT NULL,
    term bigint NOT NULL,
    term_duration bigint NOT NULL,
    gmt_create datetime(3) NOT NULL,
    gmt_modified datetime(3) NOT NULL,
    PRIMARY KEY (data_center, lock_name)
) ENGINE=InnoDB""",
    """CREATE TABLE IF NOT EXISTS {state} (
    data_center varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    lock_name varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    state_key varbinary(255) NOT NULL,
    state_value longblob NOT NULL,
    version bigint NOT NULL,
    term bigint NOT NULL,
    revision bigint NOT NULL,
    gmt_modified datetime(3) NOT NULL,
    PRIMARY KEY (data_center, lock_name, state_key),
    UNIQUE (data_center, lock_name, revision)
) ENGINE=InnoDB""",
)
DEFAULT_PORT = 3306
MULTI_STATEMENTS = 1 << 16
"""The protocol's flag for several statements in one text."""
REFUSED = {1044, 1045, 1049, 1130, 1698}
"""Codes of errors while connecting that stay: account, password, database, host."""
TOO_MANY_OR_STOPPING = {1040, 1053}
NETWORK = {1158, 1159, 1160, 1161}
LOCK_WAIT_OR_DEADLOCK = {1205, 1213, 3100}
READ_ONLY = {1290, 1792, 1836}
KILLED_OR_IDLE = {1317, 1927, 1969, 3024, 4031}
REVISION_TAKEN = {1062}
"""By a write that was given up and is still being carried out."""
PASSING = TOO_MANY_OR_STOPPING | NETWORK | LOCK_WAIT_OR_DEADLOCK | KILLED_OR_IDLE | REVISION_TAKEN
"""Codes of errors after which the same statement may succeed later. So may everything from the client (from 2000)."""
FACTS = SqlStatement(
    "SHOW VARIABLES WHERE Variable_name IN "
    "('server_uuid', 'hostname', 'port', 'server_id', 'read_only', 'max_allowed_packet')"
)
"""SqlStatement that reads which server this is."""


@dataclass(frozen=True)
class Address:
    """The parts of a connection string."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    tls: dict[str, str]


def parse(dsn: str) -> Address:
    """Read a connection string.

    Raises:
        ConfigError: it is not one. The message does not quote it, since it holds a password.
    """
    wrong = ConfigError(
        "[election.mysql] dsn is not a connection string; expected mysql://USER:PASSWORD@HOST:PORT/DATABASE, with "
        "?ssl_ca=FILE (ssl_cert, ssl_key) for TLS, where / in the password is written %2F"
    )
    try:
        parts = urlsplit(dsn)
        port = parts.port or DEFAULT_PORT
        tls = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise wrong from None
    known = {"ssl_ca", "ssl_cert", "ssl_key"}
    if parts.scheme not in {"mysql", "mariadb"} or not parts.hostname or len(parts.path) < 2 or not known >= tls.keys():
        raise wrong
    if "@" in parts.path:  # the password goes on there
        raise wrong
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address(parts.hostname, port, user, password, unquote(parts.path[1:]), tls)


def place(dsn: str) -> str:
    """Host, port and database of a connection string; raises ConfigError as :func:`parse`."""
    address = parse(dsn)
    return f"MySQL at {address.host}:{address.port}, database {address.database}"


def hosts(dsn: str) -> int:
    """A connection string names one host. It may have several addresses, which share its time."""
    return 1


def connect(dsn: str, timeout_seconds: float, idle_seconds: float, connect_seconds: float) -> Session:
    """Open a session that commits each statement; see :class:`slotreeve_election_mysql.dialect.Dialect`."""
    address = parse(dsn)
    tls = {"ssl_verify_cert": True, "ssl_verify_identity": True} if address.tls else {}
    seconds = math.ceil(timeout_seconds)
    try:
        connection = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=MULTI_STATEMENTS,
            connect_timeout=connect_seconds / _addresses(address),
            read_timeout=seconds,
            write_timeout=seconds,
            **address.tls,
            **tls,
        )
    except (pymysql.Error, RuntimeError) as error:  # RuntimeError: the account's way to log in needs another library
        kind: type[SlotreeveError] = ElectionError
        if isinstance(error, pymysql.Error) and _code(error) not in REFUSED:
            kind = Unreachable
        raise kind(f"{place(dsn)}: cannot connect as {address.user or 'nobody'}: {_described(error)}") from None
    session = MySqlSession(connection, place(dsn))
    *_, variables = session.run(
        *(SqlStatement(text) for text in session_settings(timeout_seconds, idle_seconds)), FACTS
    )
    session.server = _server({str(name): str(value) for name, value in variables.rows})
    return session


def session_settings(timeout_seconds: float, idle_seconds: float) -> Sequence[str]:
    """See :class:`slotreeve_election_mysql.dialect.Dialect`."""
    settings = {
        "innodb_lock_wait_timeout": math.ceil(timeout_seconds),
        "wait_timeout": max(2, math.ceil(idle_seconds)),
        "sql_mode": "'STRICT_ALL_TABLES'",
    }
    return (
        "SET SESSION " + ", ".join(f"{key} = {value}" for key, value in settings.items()),
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )


def _addresses(address: Address) -> int:
    """How many addresses the driver will try, one after the other."""
    try:
        return len(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    except OSError:
        return 1  # the driver says what is wrong


def _server(variables: Mapping[str, str]) -> DatabaseServer:
    """What the server tells about itself. MariaDB has no ``server_uuid``."""
    name = variables.get("server_uuid") or "{hostname}:{port}/{server_id}".format_map(variables)
    read_only = variables["read_only"]
    why = (
        ""
        if read_only in {"OFF", "0"}
        else f"the server is a replica, or read-only for another reason: read_only is {read_only}; the dsn must lead "
        "to the primary, or read_only must be set to OFF where this server is the primary now"
    )
    return DatabaseServer(name, 0, int(variables["max_allowed_packet"]), why)


def as_base64(value: bytes) -> str:
    """A value for ``FROM_BASE64``: a third longer than the value, where a quoted one may be twice as long."""
    return base64.b64encode(value).decode()


class MySqlSession:
    """See :class:`slotreeve_election_mysql.connection.Session`."""

    def __init__(self, connection: pymysql.Connection, place: str) -> None:
        self._connection, self._place = connection, place
        self.server = DatabaseServer()

    def run(self, *statements: SqlStatement) -> Sequence[SqlResult]:
        """Run statements in one round trip, which is one text."""
        with self._translated(), self._connection.cursor() as cursor:
            text = ";\n".join(cursor.mogrify(each.text, each.parameters or None) for each in statements)
            self._check_length(text)
            changed = int(cursor.execute(text))
            results = [SqlResult(changed, list(cursor.fetchall()))]
            while cursor.nextset():
                results.append(SqlResult(int(cursor.rowcount), list(cursor.fetchall())))
            return results

    def execute(self, statement: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run one statement; how many rows it changed."""
        return self.run(SqlStatement(statement, tuple(parameters)))[0].changed

    def query(self, statement: str, parameters: Sequence[Parameter] = ()) -> Sequence[Record]:
        """Run one statement; its rows."""
        return self.run(SqlStatement(statement, tuple(parameters)))[0].rows

    def _check_length(self, text: str) -> None:
        """The server would end the connection, and nobody would know why."""
        longest, size = self.server.longest_statement, len(text.encode()) + 1
        if not longest or size <= longest:
            return
        if int(cast(int, self.query("SELECT @@GLOBAL.max_allowed_packet")[0][0])) > longest:
            raise ConnectionLost(f"{self._place}: max_allowed_packet was raised; a new connection has the new limit")
        self._roll_back()
        raise ElectionError(
            f"{self._place}: a statement of {size} bytes is longer than max_allowed_packet ({longest}) of the server; "
            "store a smaller value, or raise max_allowed_packet"
        )

    def lock(self, name: str, wait_seconds: float) -> bool:
        """Wait for a named lock."""
        return self.query("SELECT GET_LOCK(%s, %s)", (name, math.ceil(wait_seconds)))[0][0] == 1

    def unlock(self, name: str) -> None:
        """Release it."""
        self.query("SELECT RELEASE_LOCK(%s)", (name,))

    def fileno(self) -> int:
        """The socket."""
        return int(self._connection._sock.fileno())  # the driver has no public way to it

    def close(self) -> None:
        """End the connection in order."""
        if self._connection.open:
            self._connection.close()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (pymysql.Error, OSError) as error:
            code = _code(error)
            if code in READ_ONLY:
                raise Refused(f"{self._place}: {_described(error)}") from None
            if code in PASSING or code == 0 or code >= 2000:
                raise ConnectionLost(f"{self._place}: {_described(error)}") from None
            self._roll_back()
            raise ElectionError(f"{self._place}: {_described(error)}") from None

    def _roll_back(self) -> None:
        """End the transaction of a statement that was refused; harmless where there is none."""
        try:
            self._connection.rollback()
        except (pymysql.Error, OSError) as error:
            raise ConnectionLost(f"{self._place}: {_described(error)}") from None


def _code(error: Exception) -> int:
    """The server's or the client's number for it; 0 where there is none, as for a connection closed under a call."""
    if isinstance(error, pymysql.Error) and error.args and isinstance(error.args[0], int):
        return error.args[0]
    return 0


def _described(error: Exception) -> str:
    text = str(error.args[-1] if error.args else "") or type(error).__name__
    code = _code(error)
    return f"{text} ({code})" if code else text


MYSQL = Dialect(
    name="mysql",
    now="UTC_TIMESTAMP(3)",
    remaining="CEIL(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), gmt_modified) / 1000) + duration",
    insert_new=("INSERT IGNORE INTO", ""),
    blob="FROM_BASE64(%s)",
    as_blob=as_base64,
    session_settings=session_settings,
    ddl=DDL,
    place=place,
    connect=connect,
    hosts=hosts,
)
