"""What leaves a machine in a bundle has no secrets that a name or a form gives away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_cli.redaction import REMOVED, redacted, redacted_rows

WORD = st.text(st.characters(codec="ascii", exclude_characters=" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"), min_size=6)


@pytest.mark.parametrize(
    "key",
    ["election.mysql.password", "x.api_key", "x.API_KEY", "x.client_secret", "x.token", "passphrase"],
)
def test_a_value_under_a_key_that_says_secret_is_removed_and_an_empty_one_is_seen_to_be_empty(key: str) -> None:
    assert redacted(key, "hunter2") == REMOVED
    assert redacted(key, 12345) == REMOVED
    assert redacted(key, "") == ""


@given(WORD)
def test_no_password_of_an_address_is_left(password: str) -> None:
    secret = f"Q{password}Q"
    shown = redacted(
        "election.postgres.dsn", f"postgres://alice:{secret}@db.example.com:5432/slotreeve?sslmode=require"
    )
    assert secret not in str(shown)
    assert str(shown).startswith(f"postgres://alice:{REMOVED}@")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("host=db password=hunter2 dbname=x", f"host=db password={REMOVED} dbname=x"),
        ("host=db password='hun ter2' dbname=x", f"host=db password={REMOVED} dbname=x"),
        ("mysql://h/db?password=hunter2&x=1", f"mysql://h/db?password={REMOVED}&x=1"),
        ("postgres://db.example.com/x", "postgres://db.example.com/x"),
        ("127.0.0.1:7710", "127.0.0.1:7710"),
        ("user@example.com", "user@example.com"),
    ],
)
def test_pairs_lose_their_password_and_what_has_none_stays(value: str, expected: str) -> None:
    assert redacted("election.postgres.dsn", value) == expected


def test_secrets_are_found_in_lists_and_tables() -> None:
    value = {"hosts": ["a", "m://u:hunter2@b"], "deep": {"password": "hunter2"}, "n": 3}
    shown = redacted("plugin", value)
    assert shown == {"hosts": ["a", f"m://u:{REMOVED}@b"], "deep": {"password": REMOVED}, "n": 3}


def test_rows_keep_their_key_and_origin() -> None:
    rows = [{"key": "election.mysql.password", "value": "hunter2", "from": "c.toml"}]
    assert redacted_rows(rows) == [{"key": "election.mysql.password", "value": REMOVED, "from": "c.toml"}]
