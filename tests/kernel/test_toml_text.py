"""Values as the text of TOML."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.toml_text import toml_key, toml_value

TEXTS = st.text(st.characters(codec="utf-8")) | st.sampled_from(
    ["\x7f", 'a"b\\c\u00fc\n', "\U0001f600", "\u2028", "\x00"]
)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(TEXTS, VALUES)
def test_what_is_written_reads_as_the_same_value_under_the_same_key(key: str, value: object) -> None:
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}") == {key: value}


def test_a_name_that_needs_no_quotes_has_none() -> None:
    assert toml_key("most_megabytes-2") == "most_megabytes-2"
    assert toml_key("a.b") == '"a.b"'


@pytest.mark.parametrize("value", [None, [None], object()])
def test_what_toml_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="has no form in TOML"):
        toml_value(value)
