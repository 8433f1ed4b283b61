"""From options to an election, without a database."""

from __future__ import annotations

import asyncio
import random

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import ConfigError
from slotreeve.ports import Context
from slotreeve_election_mysql import LockOptions, build_mysql, build_postgres, slotreeve_elections
from slotreeve_election_mysql.database_election import DatabaseLockElection
from slotreeve_election_mysql.dialect import Tables, ddl
from slotreeve_election_mysql.mysql import MYSQL, parse
from slotreeve_election_mysql.postgres import POSTGRES

TABLES = Tables("registry.locks", "registry.state", "here", "META-MASTER")


def build(options: LockOptions, cluster: str = "here", node: str = "meta-1") -> DatabaseLockElection:
    async def main() -> DatabaseLockElection:
        context = Context(cluster, 256, LoopClock(), random.Random(0), node, {node: f"{node}:7712"})
        election = build_postgres(options, context)
        assert isinstance(election, DatabaseLockElection)
        return election

    return asyncio.run(main())


def test_the_offers_are_named_after_the_databases() -> None:
    assert [offer.name for offer in slotreeve_elections()] == ["mysql", "postgres"]
    assert [offer.build for offer in slotreeve_elections()] == [build_mysql, build_postgres]


def test_without_a_dsn_the_error_shows_what_one_looks_like() -> None:
    with pytest.raises(ConfigError, match=r"\[election.postgres\] dsn is missing; expected postgres://USER"):
        build(LockOptions())


def test_a_name_that_the_tables_cannot_hold_is_refused_before_anything_is_connected() -> None:
    options = LockOptions.model_validate({"dsn": "postgresql://u@h/d"})
    build(options, cluster="c" * 128, node="n" * 240)
    with pytest.raises(ConfigError, match=r"cluster.name has 129 characters; .*'postgres' hold 128"):
        build(options, cluster="c" * 129)
    with pytest.raises(ConfigError, match=r"node.name has 241 characters; .* hold 240"):
        build(options, node="n" * 241)


def test_an_election_prints_the_statements_for_its_tables() -> None:
    options = LockOptions.model_validate({"dsn": "postgresql://u@h/d", "table": "mine", "state_table": "my_state"})
    printed = build(options).ddl()
    assert "CREATE TABLE IF NOT EXISTS mine (" in printed
    assert "CREATE TABLE IF NOT EXISTS my_state (" in printed


@pytest.mark.parametrize("dialect", [MYSQL, POSTGRES], ids=lambda dialect: dialect.name)
def test_both_tables_are_made_under_their_names(dialect: object) -> None:
    assert dialect in (MYSQL, POSTGRES)
    lock, state = ddl(MYSQL if dialect is MYSQL else POSTGRES, TABLES)
    assert lock.startswith("CREATE TABLE IF NOT EXISTS registry.locks (")
    assert state.startswith("CREATE TABLE IF NOT EXISTS registry.state (")
    assert TABLES.key == ("here", "META-MASTER")


@pytest.mark.parametrize("dsn", ["nonsense", "mysql://host", "mysql://u:p@host:port/d", "mysql://u:parole@h/d?tls=1"])
def test_what_is_no_dsn_is_refused_without_being_quoted(dsn: str) -> None:
    with pytest.raises(ConfigError, match="is not a connection string") as caught:
        parse(dsn)
    assert "parole" not in str(caught.value)


@pytest.mark.parametrize("password", ["kJ8/secret", "12/secret", "/secret", "a@secret"])
def test_a_password_that_is_not_quoted_is_not_taken_for_a_database_and_shown(password: str) -> None:
    for dialect in (MYSQL, POSTGRES):
        try:
            place = dialect.place(f"{dialect.name}://registry:{password}@10.0.0.1:5000/registry")
        except ConfigError as error:
            place = str(error)
        assert "secret" not in place


def test_a_dsn_may_quote_special_characters() -> None:
    address = parse("mysql://u:p%40ss@h/d?ssl_ca=ca.pem")
    assert (address.password, address.port, address.tls) == ("p@ss", 3306, {"ssl_ca": "ca.pem"})
    assert "p@ss" not in repr(address)


def test_observers_are_some_of_the_meta_servers_and_not_all() -> None:
    with pytest.raises(ConfigError, match=r"observers: meta-9 is not in \[cluster.meta\], which names meta-1"):
        build(LockOptions.model_validate({"dsn": "postgresql://u@h/d", "observers": ["meta-9"]}))
    with pytest.raises(ConfigError, match=r"every meta server .* is named, so none could lead"):
        build(LockOptions.model_validate({"dsn": "postgresql://u@h/d", "observers": ["meta-1"]}))
