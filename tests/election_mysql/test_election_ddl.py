"""The printed statements make tables that an account with no right to make any can elect with."""

from __future__ import annotations

import pytest
import typer
from slotreeve.errors import SlotreeveError
from slotreeve_cli import election_ddl
from typer.testing import CliRunner


@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_the_command_prints_both_tables(dialect: str) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    election_ddl.add_to(app)
    done = CliRunner().invoke(app, ["ddl", "--dialect", dialect, "--set", "table=registry_lock"])
    assert done.exit_code == 0, done.output
    assert "CREATE TABLE IF NOT EXISTS registry_lock (" in done.output
    assert "CREATE TABLE IF NOT EXISTS slotreeve_meta_state (" in done.output


def test_an_election_without_a_database_is_refused() -> None:
    with pytest.raises(SlotreeveError, match="dsn"):
        election_ddl.ddl("fle", {})


def test_a_name_that_is_no_table_name_is_refused() -> None:
    with pytest.raises(SlotreeveError, match="table"):
        election_ddl.ddl("postgres", {"table": "lock; DROP TABLE users"})
