"""The name of a service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.data_info import DELIMITER, MAX_LENGTH, DataInfo

PART = st.text(st.characters(codec="utf-8", exclude_characters="#@"), min_size=1, max_size=30).filter(
    lambda text: not text.isspace()
)


@given(PART, PART, PART)
def test_a_data_info_id_reads_back_as_its_three_parts(data_id: str, instance: str, group: str) -> None:
    info = DataInfo(data_id, instance, group)
    assert DataInfo.parse(info.id) == info


def test_a_data_id_alone_gets_the_default_instance_and_group() -> None:
    assert DataInfo.parse("a.B").id == "a.B#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the data id of .* is blank"),
        ("  ", "the data id of .* is blank"),
        ("a#@##@#c", "the instance id of .* is blank"),
        ("a#@#b#@# ", "the group of .* is blank"),
        ("a#@#b", "has 2 parts"),
        ("a#@#b#@#c#@#d", "has 4 parts"),
        ("x" * (MAX_LENGTH + 1), "2048 is the limit"),
    ],
)
def test_a_text_that_is_no_data_info_id_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        DataInfo.parse(text)


def test_a_part_that_holds_the_delimiter_is_refused() -> None:
    with pytest.raises(ModelError, match="holds the delimiter"):
        DataInfo("a" + DELIMITER + "b")
