"""Versions and digests of a datum."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.datum import NO_VERSION, content_digest, first_version, with_change
from slotreeve.model.publisher import Publisher

IDS = st.text("abc", min_size=1, max_size=3)
CONTENTS = st.dictionaries(IDS, st.tuples(st.binary(max_size=5), st.sampled_from(["", "east"])), max_size=8)


def record(register_id: str = "r", version: int = 1, data: bytes = b"x", zone: str = "") -> Publisher:
    return Publisher(register_id, "s#@#i#@#g", version, 1, "session@1", zone, (data,))


@given(st.integers(1, 2**20), st.integers(0, 2**31))
def test_every_version_of_a_later_leader_epoch_is_above_every_one_of_an_earlier(epoch: int, changes: int) -> None:
    assert first_version(epoch + 1) > first_version(epoch) + changes > NO_VERSION


@given(CONTENTS, st.randoms(use_true_random=False))
def test_the_digest_after_single_changes_is_the_digest_of_the_whole(
    contents: dict[str, tuple[bytes, str]], rng: random.Random
) -> None:
    records = {key: record(key, data=data, zone=zone) for key, (data, zone) in contents.items()}
    digest = content_digest([])
    for new in records.values():
        digest = with_change(digest, None, new)
    assert digest == content_digest(records.values()) == content_digest(reversed(list(records.values())))
    for key in rng.sample(sorted(records), len(records) // 2):
        digest = with_change(digest, records.pop(key), None)
    for key, old in records.items():
        records[key] = record(key, data=b"new")
        digest = with_change(digest, old, records[key])
    assert digest == content_digest(records.values())


def test_the_content_digest_depends_on_payload_zone_and_id_and_not_on_the_version() -> None:
    digests = {content_digest([r]) for r in (record(), record(data=b"y"), record(zone="east"), record("q"))}
    assert len(digests) == 4
    assert content_digest([record(version=1)]) == content_digest([record(version=2)])


def test_the_content_digest_depends_on_where_one_part_of_the_payload_ends() -> None:
    one = Publisher("r", "s", 1, 1, "", "", (b"ab", b"c"))
    other = Publisher("r", "s", 1, 1, "", "", (b"a", b"bc"))
    assert content_digest([one]) != content_digest([other])


@given(st.lists(st.integers(1, 50), max_size=10, unique=True), st.randoms(use_true_random=False))
def test_digests_do_not_depend_on_the_order_of_records(versions: list[int], rng: random.Random) -> None:
    records = [record(str(version), version) for version in versions]
    shuffled = rng.sample(records, len(records))
    assert content_digest(records) == content_digest(shuffled)
