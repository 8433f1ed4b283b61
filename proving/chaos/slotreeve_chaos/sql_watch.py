"""What a test sets up in a real database beside the election's tables: a log of commits, and a COMMIT that stalls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from slotreeve.ports import Versioned
from slotreeve_conformance.gaplessness import Change
from slotreeve_election_mysql.connection import Session, SqlStatement
from slotreeve_election_mysql.dialect import Dialect, Tables, ddl

POSTGRES_LOG = """CREATE FUNCTION {log}_add() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {log} (revision, state_key, state_value, version, term)
    VALUES (NEW.revision, NEW.state_key, NEW.state_value, NEW.version, NEW.term);
    RETURN NULL; END $$;
CREATE TRIGGER {log} AFTER INSERT OR UPDATE ON {state} FOR EACH ROW EXECUTE FUNCTION {log}_add();
CREATE TABLE {log} (number bigserial PRIMARY KEY, revision bigint, state_key bytea, state_value bytea,
    version bigint, term bigint)"""
MYSQL_LOG = """CREATE TABLE {log} (number bigint AUTO_INCREMENT PRIMARY KEY, revision bigint,
    state_key varbinary(255), state_value longblob, version bigint, term bigint) ENGINE=InnoDB;
CREATE TRIGGER {log}_i AFTER INSERT ON {state} FOR EACH ROW INSERT INTO {log} VALUES
    (NULL, NEW.revision, NEW.state_key, NEW.state_value, NEW.version, NEW.term);
CREATE TRIGGER {log}_u AFTER UPDATE ON {state} FOR EACH ROW INSERT INTO {log} VALUES
    (NULL, NEW.revision, NEW.state_key, NEW.state_value, NEW.version, NEW.term)"""
POSTGRES_GATE = """CREATE TABLE {gate} (is_closed boolean);
INSERT INTO {gate} VALUES (false);
CREATE FUNCTION {gate}_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    WHILE (SELECT is_closed FROM {gate}) LOOP PERFORM pg_sleep(0.002); END LOOP;
    RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER {gate} AFTER INSERT OR UPDATE ON {state} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {gate}_wait()"""


class WatchedTables:
    """The tables of one cluster, made by their owner, with a log of every change that was committed."""

    def __init__(self, dialect: Dialect, tables: Tables, session: Session) -> None:
        """``session``: of the owner; it is used by this object alone, and belongs to the caller."""
        self._dialect, self._tables, self._session = dialect, tables, session
        self._names = {"log": f"{tables.state_table}_log", "gate": f"{tables.state_table}_gate"}

    def make(self) -> None:
        """Make the tables, and what watches them."""
        parts = {"postgres": f"{POSTGRES_LOG};{POSTGRES_GATE}", "mysql": MYSQL_LOG}[self._dialect.name]
        statements = [*ddl(self._dialect, self._tables)]
        text = parts.format(**self._names, state=self._tables.state_table)
        # A body between $$ is one statement.
        for index, piece in enumerate(text.split("$$")):
            if index % 2:
                statements[-1] += f"$${piece}$$"
                continue
            rest, *others = piece.split(";")
            if index:
                statements[-1] += rest
            else:
                statements.append(rest)
            statements += others
        for statement in statements:
            self._session.execute(statement)

    def committed(self) -> Sequence[Change]:
        """Every change that was committed, by the order of its commit: all of them held the cluster's row."""
        statement = f"SELECT revision, state_key, state_value, version, term FROM {self._names['log']} ORDER BY number"
        found: list[Change] = []
        for revision, key, value, version, term in self._session.query(statement):
            held = Versioned(bytes(cast(bytes, value)), int(cast(int, version)), int(cast(int, term)))
            found.append((int(cast(int, revision)), bytes(cast(bytes, key)).decode(), held))
        return found

    def empty(self) -> None:
        """Delete all rows, in one transaction."""
        tables = (self._tables.lock_table, self._tables.state_table)
        deletions = [SqlStatement(f"DELETE FROM {table}") for table in tables]
        self._session.run(SqlStatement("BEGIN"), *deletions, SqlStatement("COMMIT"))

    def newest_revision(self) -> int:
        """Of the meta state as it is."""
        ((newest,),) = self._session.query(f"SELECT COALESCE(MAX(revision), 0) FROM {self._tables.state_table}")
        return int(cast(int, newest))

    def expire(self) -> None:
        """Let the row be expired, whatever its owner believes."""
        self._session.execute(f"UPDATE {self._tables.lock_table} SET duration = 0")

    def give_away(self) -> None:
        """Let the row have an owner who is gone, in the next term, and be expired."""
        self._session.execute(
            f"UPDATE {self._tables.lock_table} SET owner = 'gone#1', duration = 0, term = term + 1, term_duration = 0"
        )

    def close_gate(self) -> None:
        """From now on every COMMIT of a change stalls within PostgreSQL. MariaDB has nothing like it: it gives up a
        COMMIT that waits, once the client is gone."""
        self._session.execute(f"UPDATE {self._names['gate']} SET is_closed = true")

    def open_gate(self) -> None:
        """COMMITs go on."""
        self._session.execute(f"UPDATE {self._names['gate']} SET is_closed = false")
