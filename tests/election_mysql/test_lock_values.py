"""Values of any bytes and any size: how long their statements are, in which pages they are read, and whether they are
what the database gives back."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.ports import Versioned
from slotreeve_election_mysql.connection import Parameter
from slotreeve_election_mysql.dialect import Dialect, Tables
from slotreeve_election_mysql.loading import LARGEST_PAGE_BYTES, SMALLEST_PAGE_BYTES, Loading
from slotreeve_election_mysql.mysql import MYSQL
from slotreeve_election_mysql.postgres import POSTGRES
from slotreeve_election_mysql.statements import Statements
from slotreeve_election_mysql.table import Change, Position, StoredEntry

TABLES = Tables("distribute_lock", "slotreeve_meta_state", "here", "META-MASTER")
OVERHEAD_BYTES = 1_000


def patterned(piece: bytes, size: int) -> bytes:
    return (piece * (size // max(1, len(piece)) + 1))[:size]


contents = st.one_of(
    st.sampled_from([b"\0", b"\\", b"'", b'"', b"\n", b"\x1a", b"%s", b"\xff\xfe", b"\0\\'"]), st.binary(min_size=1)
)
values = st.builds(patterned, contents, st.one_of(st.integers(0, 64), st.integers(0, 256 * 1024)))

# --- how long a statement is -----------------------------------------------------------------------------------------


def quoted_length(value: Parameter) -> int:
    """In a text: quotes around it, and a backslash before what needs one."""
    written = value if isinstance(value, bytes) else str(value).encode()
    return 2 + len(written) + sum(written.count(byte) for byte in b"\0\\'\"\n\r\x1a")


def bytes_on_the_wire(dialect: Dialect, value: bytes, version: int) -> int:
    """Of a write's last statements: PostgreSQL's parameters travel as they are, MySQL's within the text."""
    total = 0
    for statement in Statements(dialect, TABLES).put("k", value, version, Position(1, 1)):
        if dialect is POSTGRES:
            total += len(statement.text) + sum(
                len(each) if isinstance(each, bytes) else len(str(each)) for each in statement.parameters
            )
        else:
            total += len(statement.text) + sum(quoted_length(each) for each in statement.parameters)
    return total


@pytest.mark.parametrize("dialect", [POSTGRES, MYSQL], ids=lambda dialect: dialect.name)
@given(value=values, version=st.integers(1, 2))
def test_no_value_makes_a_statement_that_is_much_longer_than_itself(
    dialect: Dialect, value: bytes, version: int
) -> None:
    assert bytes_on_the_wire(dialect, value, version) <= len(value) * 4 / 3 + OVERHEAD_BYTES


# --- pages -----------------------------------------------------------------------------------------------------------


class Table:
    """Values by key, each with the revision of its last change."""

    def __init__(self, sizes: list[int]) -> None:
        self.rows = {f"k{number}": (number, Versioned(b"v" * size, 1, 1)) for number, size in enumerate(sizes, 1)}

    def changes(self, after: int, up_to: int | None) -> list[Change]:
        found = sorted((revision, key, held) for key, (revision, held) in self.rows.items())
        return [each for each in found if each[0] > after and (up_to is None or each[0] <= up_to)]

    def index(self) -> list[StoredEntry]:
        return [StoredEntry(r, key, held.version, held.term, len(held.value)) for r, key, held in self.changes(0, None)]

    def change(self, key: str) -> None:
        revision = max(revision for revision, _ in self.rows.values()) + 1
        self.rows[key] = (revision, Versioned(b"changed", self.rows[key][1].version + 1, 1))


@given(
    sizes=st.lists(st.one_of(st.integers(0, 100), st.integers(0, 3 * LARGEST_PAGE_BYTES)), min_size=1, max_size=12),
    seed=st.integers(0, 1_000_000),
)
def test_pages_give_the_whole_state_although_values_change_and_pages_are_lost_meanwhile(
    sizes: list[int], seed: int
) -> None:
    rng, table, loading = random.Random(seed), Table(sizes), Loading()
    largest, read, lost = max(sizes), 0, 0
    loading.begin(0, table.index())
    for _ in range(1_000):
        if not loading.is_under_way:
            break
        page = loading.page()
        came = table.changes(page.after, page.up_to)
        size = sum(len(held.value) for _, _, held in came)
        if rng.random() < 0.3:
            lost += size
            loading.failed()
            loading.begin(0, table.index())  # the next attempt
            assert loading.page_bytes >= SMALLEST_PAGE_BYTES
        else:
            read += size
            assert size <= max(LARGEST_PAGE_BYTES, largest) + len(b"changed") * 1_000
            loading.came(page, came)
        if rng.random() < 0.3:
            table.change(rng.choice(sorted(table.rows)))
    newest = {key: (revision, held) for revision, key, held in loading.take()}
    missed = {key for key, row in table.rows.items() if newest.get(key) != row}
    assert {table.rows[key][1].value for key in missed} <= {b"changed"}, "only what changed after the last page"
    assert read <= sum(sizes) + len(b"changed") * 1_000, "no page is read twice"


def test_what_is_known_already_is_not_read_again() -> None:
    table, loading = Table([1, 1, 1]), Loading()
    loading.begin(3, table.index())
    assert not loading.is_under_way
    loading.begin(2, table.index())
    assert loading.page().after == 2
    assert [revision for revision, _, _ in table.changes(loading.page().after, loading.page().up_to)] == [3]
