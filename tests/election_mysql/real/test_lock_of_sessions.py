"""The lock under which the first server of a cluster makes the tables."""

from __future__ import annotations

import pytest
from slotreeve_chaos.sql_servers import SqlServer
from slotreeve_election_mysql.connection import Session
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES

pytestmark = pytest.mark.processes


def test_one_session_at_a_time_has_the_lock_of_a_name(dialect: str, server: SqlServer) -> None:
    def connect() -> Session:
        return (POSTGRES if dialect == "postgres" else MYSQL).connect(server.dsn(), 10.0, 600.0, 30.0)

    first, second = connect(), connect()
    assert first.lock("tables of a cluster", 5.0)
    assert not second.lock("tables of a cluster", 0.2)
    first.unlock("tables of a cluster")
    assert second.lock("tables of a cluster", 5.0)
    second.unlock("tables of a cluster")
    assert first.lock("tables of a cluster", 5.0)
    first.close()
    assert second.lock("tables of a cluster", 5.0), "who ends its session ends its locks"
    second.close()
