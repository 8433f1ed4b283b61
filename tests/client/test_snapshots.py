"""Snapshots: what is saved is what is read, damage is noticed, and a restore does what is missing and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ConfigError
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve_client.snapshots import FORMAT, Change, Snapshot, Step, decode, encode, steps, take
from slotreeve_protocol.meta_messages import ConfigEntry, View

VIEW = View(3, 9, SlotTable(4, ()), [Node("data-1", Role.DATA, "a:1", "data-1@1")], [])
KEYS = st.sampled_from(["a", "b", "limits.rate", "ключ"])
VALUES = st.one_of(st.none(), st.binary(max_size=6))
STORED = st.dictionaries(KEYS, st.tuples(VALUES, st.integers(1, 9)))


def entries(stored: dict[str, tuple[bytes | None, int]]) -> list[ConfigEntry]:
    return [ConfigEntry(key, value, version) for key, (value, version) in stored.items()]


def saved(stored: dict[str, tuple[bytes | None, int]]) -> Snapshot:
    return take("slotreeve", "2026-01-01T00:00:00+00:00", VIEW, entries(stored))


@given(STORED)
def test_a_saved_snapshot_is_read_as_it_was_taken(stored: dict[str, tuple[bytes | None, int]]) -> None:
    snapshot = saved(stored)
    assert decode(encode(snapshot), "file") == snapshot
    assert (snapshot.cluster, snapshot.term, snapshot.revision, snapshot.table_epoch) == ("slotreeve", 3, 9, 4)
    assert snapshot.servers == ["data-1"]
    assert {entry.key: entry.value for entry in snapshot.entries} == {
        key: value for key, (value, _) in stored.items() if value is not None
    }


@given(STORED, st.data())
def test_a_changed_byte_is_noticed_or_changes_nothing(
    stored: dict[str, tuple[bytes | None, int]], data: st.DataObject
) -> None:
    snapshot = saved(stored)
    content = bytearray(encode(snapshot))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(bytes(content), "file")
    except ConfigError:
        return
    assert found == snapshot, "only space between the tokens was changed"


@given(STORED, STORED, st.booleans())
def test_the_steps_lead_to_what_the_snapshot_has(
    stored: dict[str, tuple[bytes | None, int]], present: dict[str, tuple[bytes | None, int]], delete_extra: bool
) -> None:
    snapshot = saved(stored)
    now = {key: value for key, (value, _) in present.items() if value is not None}
    wanted = {entry.key: entry.value for entry in snapshot.entries}
    extra = {key: value for key, value in now.items() if key not in wanted}
    for step in steps(snapshot, entries(present)):
        assert step.expected_version == present.get(step.key, (None, 0))[1]
        if step.change is Change.EXTRA:
            assert step.value is None
            if delete_extra:
                del now[step.key]
        elif step.change is Change.KEEP:
            assert now[step.key] == step.value
        else:
            assert (step.key in now) == (step.change is Change.REPLACE)
            assert step.value is not None
            now[step.key] = step.value
    assert now == wanted | ({} if delete_extra else extra)


def test_a_key_that_was_deleted_is_written_over_its_last_version() -> None:
    (step,) = steps(saved({"k": (b"v", 1)}), [ConfigEntry("k", None, 7)])
    assert step == Step("k", Change.ADD, b"v", 7)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not a snapshot"),
        (b"\xff\xfe", "not a snapshot"),
        (b"[]", "not a snapshot"),
        (b'{"format": "slotreeve snapshot 1"}', "not a snapshot"),
        (encode(saved({})).replace(FORMAT.encode(), b"slotreeve snapshot 9"), "its format is 'slotreeve snapshot 9'"),
        (encode(saved({"k": (b"v", 1)})).replace(b'"version": 1', b'"version": 2'), "its digest does not fit"),
    ],
    ids=["empty", "no text", "another JSON", "half of it", "another format", "changed by hand"],
)
def test_a_file_that_is_no_snapshot_is_refused_by_name(content: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"^before\.json: {problem}"):
        decode(content, "before.json")
