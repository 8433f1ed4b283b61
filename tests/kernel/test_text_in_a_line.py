"""What others have named writes no lines of a log or a table, and turns none around."""

from __future__ import annotations

import pytest
from slotreeve.model.text import in_a_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web\nok: all is well", "web\\nok: all is well"),
        ("\x1b[2Jweb\r", "\\x1b[2Jweb\\r"),
        ("a\u2028b\u2029c\x85", "a\\u2028b\\u2029c\\x85"),
        ("a\u202eb\u2066c\u200fd\u061c", "a\\u202eb\\u2066c\\u200fd\\u061c"),
        ("für שלום 雨 👍", "für שלום 雨 👍"),
    ],
)
def test_a_text_stays_in_its_line_and_in_its_order(text: str, shown: str) -> None:
    assert in_a_line(text) == shown
