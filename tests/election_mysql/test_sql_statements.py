"""The SQL of the lock election, as a golden file for each database shows it: what a reviewer must see when it changes.

``pytest --rewrite-transcripts`` writes the files anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve_election_mysql.connection import SqlStatement
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl
from slotreeve_election_mysql.mysql import FACTS as MYSQL_FACTS
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import FACTS as POSTGRES_FACTS
from slotreeve_election_mysql.postgres import POSTGRES
from slotreeve_election_mysql.sql_table import SqlRow
from slotreeve_election_mysql.statements import Batch, Statements
from slotreeve_election_mysql.table import Position

from tests.election_mysql.sql_bugs import BUGS

GOLDEN = Path(__file__).parent / "golden"
TABLES = Tables("distribute_lock", "slotreeve_meta_state", "here", "META-MASTER")
DIALECTS = {dialect.name: dialect for dialect in (MYSQL, POSTGRES)}
FACTS = {"mysql": MYSQL_FACTS.text, "postgres": POSTGRES_FACTS}


def batches(dialect: Dialect) -> Iterator[tuple[str, Batch]]:
    """Everything that is sent, under a name."""
    statements = Statements(dialect, TABLES)
    yield "the tables", tuple(SqlStatement(text) for text in ddl(dialect, TABLES))
    yield (
        "a session, 1 s for a lock, 5 s idle",
        tuple(SqlStatement(text) for text in dialect.session_settings(1.0, 5.0)),
    )
    yield "which server it is", (SqlStatement(FACTS[dialect.name]),)
    yield "check reading", statements.check_reading()
    yield "check writing", statements.check_writing()
    yield "look", statements.look()
    yield "insert", statements.insert(3, 5_000)
    yield "take over", statements.take_over(SqlRow("old#1", 3, 7, 0), "new#2", 4, 5_000)
    yield "renew", statements.renew("new#2", 4, 8)
    yield "release", statements.release("new#2", 4)
    yield "release, kept for a node", statements.release("new#2", 4, "next", 3_000)
    yield "release of a dead owner", statements.release_of(SqlRow("old#1", 3, 7, 0))
    yield "highest term", statements.highest_term()
    yield "index", statements.index(17)
    yield "index, once the row is free", statements.settled_index(17)
    yield "a page", statements.page(17, 23)
    yield "the last page", statements.page(23, None)
    yield "a write: hold the row", statements.hold("view")
    yield "a write: a new key", statements.put("view", b"one", 1, Position(24, 4))
    yield "a write: a key that is there", statements.put("view", b"two", 2, Position(25, 4))
    yield "a write: refused", statements.roll_back()
    yield "name the history", statements.name_history("accepted")


def shown(dialect: Dialect) -> str:
    """The golden text."""
    parts = []
    for name, batch in batches(dialect):
        lines = [f"-- {name}"]
        for statement in batch:
            lines.append(f"{statement.text};")
            if statement.parameters:
                lines.append(f"--   {', '.join(repr(value) for value in statement.parameters)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("name", DIALECTS)
def test_the_statements_are_those_of_the_golden_file(name: str, rewrite_transcripts: bool) -> None:
    path = GOLDEN / f"statements-{name}.sql"
    if rewrite_transcripts:
        path.write_text(shown(DIALECTS[name]))
    assert shown(DIALECTS[name]) == path.read_text(), "the SQL has changed; --rewrite-transcripts accepts it"


@pytest.mark.parametrize("what", BUGS)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_bug_planted_in_the_sql_is_found_without_a_database(name: str, what: str) -> None:
    with BUGS[what](DIALECTS[name]), pytest.raises(AssertionError, match="the SQL has changed"):
        test_the_statements_are_those_of_the_golden_file(name, rewrite_transcripts=False)


@pytest.mark.parametrize("name", DIALECTS)
def test_every_statement_is_in_the_golden_file(name: str) -> None:
    seen: set[str] = set()

    class Counting(Statements):
        def __getattribute__(self, attribute: str) -> object:
            seen.add(attribute)
            return super().__getattribute__(attribute)

    public = {attribute for attribute in vars(Statements) if not attribute.startswith("_")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "Statements", Counting)
        shown(DIALECTS[name])
    assert public <= seen
