"""The lock election over TLS, with an account that has no right too many: on a real PostgreSQL and a real MariaDB.

The PostgreSQL of these tests is built without TLS, so a proxy ends it there, as some poolers do. What is tried is the
client's side of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import trustme
from slotreeve.errors import SlotreeveError
from slotreeve_chaos.sql_servers import MariaDbServer, PostgresServer, SqlServer
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES

from tests.election_mysql.conftest import shared_server
from tests.election_mysql.real_nodes import Build, play, started, until

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
TLS_REQUEST = (8).to_bytes(4) + (80_877_103).to_bytes(4)
"""PostgreSQL's SSLRequest (its protocol, message formats)."""
DIALECTS = {"postgres": POSTGRES, "mysql": MYSQL}


class TlsFront:
    """Ends TLS before a PostgreSQL server that has none: PostgreSQL's request for it, TLS, then the bytes as they are.

    Attributes:
        ciphers: of the connections so far.
        received: what has come over TLS.
    """

    def __init__(self, behind: str, context: ssl.SSLContext) -> None:
        self._behind, self._context = behind, context
        self.ciphers: list[str] = []
        self.received = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            assert connection.recv(8, socket.MSG_WAITALL) == TLS_REQUEST
            connection.sendall(b"S")
            with self._context.wrap_socket(connection, server_side=True) as secured:
                self.ciphers.append((secured.cipher() or ("",))[0])
                host, port = self._behind.split(":")
                with socket.create_connection((host, int(port))) as server:
                    back = threading.Thread(target=self._pump, args=(server, secured), daemon=True)
                    back.start()
                    self._pump(secured, server)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65_536):
                self.received += part if isinstance(source, ssl.SSLSocket) else b""
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)


class Secured:
    """A server with TLS, and files of its issuer and of another one."""

    def __init__(self, dialect: str, directory: Path) -> None:
        self.dialect, self.directory = dialect, directory
        issuer = trustme.CA()
        self.server: SqlServer
        issued = issuer.issue_cert("127.0.0.1", "localhost")
        certificate = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        self.front: TlsFront | None = None
        if dialect == "postgres":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            issued.configure_cert(context)
            self.server = PostgresServer()
            self.front = TlsFront(self.server.address, context)
        else:
            self.server = with_tls = MariaDbServer()
            with_tls.use_tls(certificate, issued.private_key_pem.bytes())
        self.issuer, self.other = directory / "issuer.pem", directory / "other.pem"
        issuer.cert_pem.write_to_path(str(self.issuer))
        trustme.CA().cert_pem.write_to_path(str(self.other))

    def dsn(self, issuer: Path, host: str = "127.0.0.1", user: str = "slotreeve") -> str:
        port = self.front.port if self.front is not None else self.server.port
        dsn = self.server.dsn(user=user, address=f"{host}:{port}")
        if self.dialect == "postgres":
            return f"{dsn}?sslmode=verify-full&sslrootcert={issuer}"
        return f"{dsn}?ssl_ca={issuer}"

    def session(self, dsn: str) -> Session:
        return DIALECTS[self.dialect].connect(dsn, 10.0, 600.0, 30.0)

    def cipher(self, session: Session) -> str:
        if self.front is not None:
            return self.front.ciphers[-1]
        (row,) = session.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return str(row[1])


@pytest.fixture(scope="module", params=sorted(DIALECTS))
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    shared_server(request.param)  # skips, or fails in CI, where there are no programs
    made = Secured(request.param, tmp_path_factory.mktemp("tls"))
    with made.server:
        yield made
    if made.front is not None:
        made.front.close()


@pytest.fixture
def dialect(secured: Secured) -> str:
    return secured.dialect


@pytest.fixture
def server(secured: Secured) -> SqlServer:
    return secured.server


def test_the_connection_is_encrypted_and_the_server_is_who_it_says(secured: Secured) -> None:
    session = secured.session(secured.dsn(secured.issuer))
    assert secured.cipher(session)
    session.close()


@pytest.mark.parametrize("what", ["another issuer", "another name"])
def test_another_certificate_is_refused_and_the_password_is_not_sent_or_printed(secured: Secured, what: str) -> None:
    dsn = secured.dsn(secured.other) if what == "another issuer" else secured.dsn(secured.issuer, host="127.0.0.2")
    with pytest.raises(SlotreeveError) as refused:
        secured.session(dsn)
    assert "open-sesame" not in str(refused.value)
    assert secured.front is None or b"open-sesame" not in secured.front.received
    if what == "another issuer":
        assert re.search(r"certificate", str(refused.value), re.IGNORECASE), refused.value


def statements(dialect: str, tables: Mapping[str, object]) -> list[str]:
    """What docs/lock-election.md lets the owner run, for this test's tables and password."""
    page = (ROOT / "docs/lock-election.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"```sql\n-- {dialect}\n(.*?)```", page, re.DOTALL)
    for name, table in (("distribute_lock", tables["table"]), ("slotreeve_meta_state", tables["state_table"])):
        block = block.replace(name, str(table))
    block = block.replace("'...'", "'open-sesame'").replace("DATABASE registry", "DATABASE slotreeve")
    block = block.replace("registry.", "slotreeve.")
    return [statement.strip() for statement in block.split(";") if statement.strip()]


def test_the_account_of_the_manual_leads_over_tls_and_can_do_nothing_else(
    secured: Secured, build: Build, tables: Mapping[str, object]
) -> None:
    owner = secured.session(secured.dsn(secured.issuer))

    async def scenario() -> None:
        async with started(build("meta-3")):  # makes the tables
            for statement in statements(secured.dialect, tables):
                await asyncio.to_thread(owner.execute, statement)
        of_account = secured.dsn(secured.issuer, user="meta")
        async with started(build(dsn=of_account)) as (node,):
            await until(lambda: node.leads)
            await node.election.state.write("a", b"1", 0, node.term)
        account = secured.session(of_account)
        assert secured.cipher(account)
        table = tables["table"]
        for forbidden in (
            f"DELETE FROM {table}",
            f"DROP TABLE {table}",
            f"TRUNCATE {table}",
            "CREATE TABLE another (a int)",
            "CREATE ROLE friend",
        ):
            with pytest.raises(SlotreeveError):
                account.execute(forbidden)
        account.close()

    try:
        play(scenario)
    finally:
        owner.close()
