"""Text that can be sent, and text that is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.text import check_text, in_a_line


@given(st.text(st.characters(exclude_categories=())))
def test_a_text_is_good_exactly_if_utf_8_can_encode_it(text: str) -> None:
    try:
        check_text("the zone", text, len(text))
    except ModelError:
        with pytest.raises(UnicodeEncodeError):
            text.encode()
    else:
        assert text.encode().decode() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12345", r"the zone '12345'\.\.\. has 5 characters; 4 is the limit"),
        (5, "the zone is 5; expected a text"),
        (b"x" * 100, r"the zone is b'x+\.\.\.; expected a text"),
        ("a\ud800", r"the zone 'a\\ud800' holds '\\ud800' at position 1, which UTF-8 cannot encode"),
    ],
)
def test_an_error_names_what_is_wrong_with_it(text: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_text("the zone", text, 4)


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
def test_what_others_have_named_stays_in_its_line_and_turns_none_around(text: str, shown: str) -> None:
    assert in_a_line(text) == shown
