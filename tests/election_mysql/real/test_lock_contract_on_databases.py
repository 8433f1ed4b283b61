"""The lock election keeps the contract of elections on real databases."""

from __future__ import annotations

import pytest
from slotreeve_chaos.sql_backends import MariaDbBackend, PostgresBackend
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend


@pytest.mark.processes
@pytest.mark.timed
class TestPostgres(ElectionContract):
    @pytest.fixture(autouse=True)
    def _on_a_server(self, postgres: SqlServer) -> None:
        """Skips where there is none."""

    def make_backend(self) -> ElectionBackend:
        return PostgresBackend()


@pytest.mark.processes
@pytest.mark.timed
class TestMariaDb(ElectionContract):
    @pytest.fixture(autouse=True)
    def _on_a_server(self, mariadb: SqlServer) -> None:
        """Skips where there is none."""

    def make_backend(self) -> ElectionBackend:
        return MariaDbBackend()
