"""Real servers, shared by all tests of this directory, and what a node needs of its kernel."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.clock import Clock, LoopClock
from slotreeve.offers import Port
from slotreeve.ports import Context
from slotreeve_chaos.sql_backends import TIMES, MariaDbBackend, PostgresBackend, close_all, fresh_tables, running
from slotreeve_chaos.sql_programs import ServerMissing
from slotreeve_chaos.sql_servers import PASSWORD, SqlServer
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.election import LockElection
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES

from tests.election_mysql.real_nodes import Build

MEMBERS = {f"meta-{number}": f"meta-{number}:7712" for number in (1, 2, 3)}
BACKENDS = {"postgres": PostgresBackend, "mysql": MariaDbBackend}


def shared_server(dialect: str) -> SqlServer:
    """The server, or a skip with the reason where there is none; in CI there has to be one."""
    try:
        return running(BACKENDS[dialect].server)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session", autouse=True)
def the_shared_servers_end() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(params=sorted(BACKENDS))
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(dialect: str) -> Iterator[SqlServer]:
    """The shared server; it runs again after a test that stopped it."""
    found = shared_server(dialect)
    yield found
    if not found.is_running:
        found.start()


@pytest.fixture
def tables() -> Mapping[str, object]:
    return fresh_tables()


@pytest.fixture
def build(dialect: str, server: SqlServer, tables: Mapping[str, object]) -> Build:
    """Builds a node's election as a server would, on tables of this test's own; on a running event loop."""
    catalogue = Catalogue.load()

    def make(
        node: str = "meta-1",
        *,
        cluster: str = "test",
        clock: Clock | None = None,
        observe_only: bool = False,
        **options: object,
    ) -> LockElection:
        entry = catalogue.find(Port.ELECTION, dialect)
        chosen = catalogue.options(entry, {**TIMES, **tables, "dsn": server.dsn(), **options})
        rng = random.Random()
        context = Context(cluster, 256, clock or LoopClock(), rng, node, MEMBERS, observe_only=observe_only)
        built = catalogue.build(entry, chosen, context)
        assert isinstance(built, LockElection)
        return built

    return make


@pytest.fixture
def postgres() -> SqlServer:
    return shared_server("postgres")


@pytest.fixture
def mariadb() -> SqlServer:
    return shared_server("mysql")


@pytest.fixture
def admin(dialect: str, server: SqlServer) -> Iterator[Session]:
    """A session of the account that owns everything."""
    session = (POSTGRES if dialect == "postgres" else MYSQL).connect(server.dsn(), 10.0, 600.0, 30.0)
    yield session
    session.close()


@pytest.fixture
def plain(dialect: str, admin: Session) -> str:
    """An account that may use the tables, and no more than that."""
    if dialect == "postgres":
        if admin.query("SELECT 1 FROM pg_roles WHERE rolname = 'plain'"):
            admin.execute("DROP OWNED BY plain CASCADE")
        else:
            admin.execute(f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")
        admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    else:
        admin.execute(f"CREATE OR REPLACE USER plain@'%' IDENTIFIED BY '{PASSWORD}'")
        admin.execute("GRANT USAGE ON slotreeve.* TO plain@'%'")
    return "plain" if dialect == "postgres" else "plain@'%'"
