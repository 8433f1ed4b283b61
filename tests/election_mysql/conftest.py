"""Real servers, shared by all tests of this directory, and what a node needs of its kernel."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.clock import Clock, LoopClock
from slotreeve.offers import Port
from slotreeve.ports import Context
from slotreeve_election_mysql.election import LockElection
from slotreeve_harness.sql_backends import TIMES, MariaDbBackend, PostgresBackend, fresh_tables, running
from slotreeve_harness.sql_programs import ServerMissing
from slotreeve_harness.sql_servers import SqlServer

MEMBERS = {f"meta-{number}": f"meta-{number}:7712" for number in (1, 2, 3)}
BACKENDS = {"postgres": PostgresBackend, "mysql": MariaDbBackend}

Build = Callable[..., LockElection]


def shared_server(dialect: str) -> SqlServer:
    """The server, or a skip with the reason where there is none; in CI there has to be one."""
    try:
        return running(BACKENDS[dialect].server)
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))


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
