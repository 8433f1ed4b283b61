"""The name of a service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.data_info import DELIMITER, MAX_LENGTH, DataInfo, check_data_info_id, short_name

ODD_PART = st.text(st.sampled_from("a#@ \udce9é\U0001f600\x00"), max_size=6)


@given(ODD_PART, ODD_PART, ODD_PART)
def test_whatever_is_taken_for_a_name_reads_back_as_its_three_parts_and_can_be_encoded(
    data_id: str, instance: str, group: str
) -> None:
    try:
        info = DataInfo(data_id, instance, group)
    except ModelError:
        return
    assert DataInfo.parse(info.id) == info
    assert info.id.encode().decode() == info.id


@given(st.lists(ODD_PART, min_size=1, max_size=4).map(DELIMITER.join))
def test_a_whole_id_is_good_where_it_reads_as_three_good_parts(text: str) -> None:
    def is_whole() -> bool:
        try:
            return DataInfo.parse(text).id == text
        except ModelError:
            return False

    def is_good() -> bool:
        try:
            check_data_info_id(text)
        except ModelError:
            return False
        return True

    assert is_good() == is_whole()


@pytest.mark.parametrize("length", [MAX_LENGTH, MAX_LENGTH + 1])
def test_a_whole_id_is_as_long_as_a_name_may_be(length: int) -> None:
    text = DELIMITER.join(["x" * (length - 2 - 2 * len(DELIMITER)), "b", "c"])
    if length <= MAX_LENGTH:
        check_data_info_id(text)
        assert DataInfo.parse(text).id == text
    else:
        with pytest.raises(ModelError, match="2048 is the limit"):
            check_data_info_id(text)


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
        ("x" * (MAX_LENGTH - 20), "2048 is the limit"),
        ("a#@", "'a#@' ends with '#@'"),
        ("#@", "'#@' ends with '#@'"),
        ("a#@#b#@", "has 2 parts"),
        ("caf\udce9", "at position 3, which UTF-8 cannot encode"),
    ],
)
def test_a_text_that_is_no_data_info_id_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        DataInfo.parse(text)


def test_a_part_that_holds_the_delimiter_is_refused() -> None:
    with pytest.raises(ModelError, match="holds the delimiter"):
        DataInfo("a" + DELIMITER + "b")


def test_names_of_services_are_short_where_instance_and_group_are_the_defaults() -> None:
    assert short_name("a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP") == "a"
    assert short_name("a#@#blue#@#DEFAULT_GROUP") == "a#@#blue#@#DEFAULT_GROUP"
    assert short_name("a#@#torn") == "a#@#torn"
