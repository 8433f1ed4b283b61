from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.data_info import DELIMITER, DataInfo
from slotreeve.model.datum import content_digest, first_version, sync_digest, with_change
from slotreeve.model.publisher import Publisher

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="#@"), min_size=1, max_size=30).filter(
    lambda text: not text.isspace()
)


def record(
    register_id: str = "r", version: int = 1, incarnation: int = 1, data: bytes = b"x", zone: str = ""
) -> Publisher:
    return Publisher(register_id, "s#@#i#@#g", version, incarnation, "session@1", zone, (data,))


@given(TEXT, TEXT, TEXT)
def test_a_data_info_id_reads_back_as_its_three_parts(data_id: str, instance: str, group: str) -> None:
    info = DataInfo(data_id, instance, group)
    assert DataInfo.parse(info.id) == info


def test_a_bare_data_id_gets_the_default_instance_and_group() -> None:
    assert DataInfo.parse("a.B").id == "a.B#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


@pytest.mark.parametrize("text", ["", "  ", "a#@#b", "a#@##@#c", "a#@#b#@#c#@#d", "x" * 2049])
def test_what_can_be_no_data_info_id_is_refused(text: str) -> None:
    with pytest.raises(ModelError):
        DataInfo.parse(text)


def test_a_part_that_holds_the_delimiter_is_refused() -> None:
    with pytest.raises(ModelError, match="holds the delimiter"):
        DataInfo("a" + DELIMITER + "b")


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_registrations_are_ordered_by_version_then_incarnation_and_strictly(v1: int, i1: int, v2: int, i2: int) -> None:
    older, newer = record(version=v1, incarnation=i1), record(version=v2, incarnation=i2)
    assert newer.newer_than(older) == ((v2, i2) > (v1, i1))


@given(st.integers(1, 2**20), st.integers(0, 2**31))
def test_every_version_of_a_later_leader_epoch_is_above_every_one_of_an_earlier(epoch: int, changes: int) -> None:
    assert first_version(epoch + 1) > first_version(epoch) + changes


@given(st.dictionaries(TEXT, st.tuples(st.binary(max_size=5), st.sampled_from(["", "east"])), max_size=8), st.randoms())
def test_the_content_digest_kept_by_steps_equals_the_one_of_the_whole(
    content: dict[str, tuple[bytes, str]], rng: object
) -> None:
    records = {key: record(key, data=data, zone=zone) for key, (data, zone) in content.items()}
    digest = content_digest([])
    for new in records.values():
        digest = with_change(digest, None, new)
    assert digest == content_digest(records.values()) == content_digest(reversed(list(records.values())))
    for key in list(records)[::2]:
        digest = with_change(digest, records.pop(key), None)
    assert digest == content_digest(records.values())


def test_the_sync_digest_tells_versions_apart_and_the_content_digest_does_not() -> None:
    before, after = record(version=1), record(version=2)
    assert sync_digest([before]) != sync_digest([after])
    assert content_digest([before]) == content_digest([after])
    assert content_digest([before]) != content_digest([record(data=b"y")])
