"""A copy of a service against a dumb twin that keeps every version of the service as a whole snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.model.datum import NO_VERSION, content_digest
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.datum_copy import DatumCopy, Fit, Step
from slotreeve_protocol.slot_messages import DatumChange

A = "a#@#i#@#g"
Content = dict[str, tuple[bytes, str]]
CONTENTS = st.dictionaries(
    st.sampled_from("pqrst"), st.tuples(st.sampled_from([b"1", b"2"]), st.sampled_from(["", "east"])), max_size=5
)


def records(content: Content, version: int) -> dict[str, Publisher]:
    return {key: Publisher(key, A, version, 1, "s@1", zone, (data,)) for key, (data, zone) in content.items()}


class Service:
    """The twin: all snapshots of a service, from which it makes the delta between any two versions."""

    def __init__(self, contents: list[Content]) -> None:
        self.snapshots = {number: records(content, number) for number, content in enumerate(contents, start=1)}

    def delta(self, start: int, end: int) -> DatumChange:
        """The step from ``start`` (0: none, the whole service) to ``end``.

        It holds every record that changed at some version in between, as a leader's log of changes would.
        """
        after = self.snapshots[end]
        digest = content_digest(after.values())
        if start == NO_VERSION:
            return DatumChange(A, start, end, digest, list(after.values()), [])
        touched = set()
        for number in range(start + 1, end + 1):
            old, new = self.snapshots[number - 1], self.snapshots[number]
            touched |= {key for key in old.keys() | new.keys() if seen(old.get(key)) != seen(new.get(key))}
        changed = [after[key] for key in sorted(touched & after.keys())]
        return DatumChange(A, start, end, digest, changed, sorted(touched - after.keys()))


def seen(record: Publisher | None) -> tuple[object, object] | None:
    """What a subscriber sees of a record."""
    return None if record is None else (record.data, record.zone)


def view(snapshot: dict[str, Publisher]) -> dict[str, tuple[object, object] | None]:
    return {key: seen(record) for key, record in snapshot.items()}


def played_back(before: dict[str, Publisher], step: Step) -> dict[str, Publisher]:
    after = dict(before)
    for key, (old, new) in step.items():
        assert after.get(key) == old
        if new is None:
            del after[key]
        else:
            after[key] = new
    return after


@settings(derandomize=True, max_examples=300)
@given(st.lists(CONTENTS, min_size=2, max_size=7), st.data())
def test_a_copy_equals_the_snapshot_of_its_version_whatever_deltas_arrive(
    contents: list[Content], data: st.DataObject
) -> None:
    service, copy = Service(contents), DatumCopy()
    versions = st.integers(1, len(contents))
    for _ in range(12):
        end = data.draw(versions)
        delta = service.delta(data.draw(st.integers(0, end - 1)), end)
        version, before = copy.version, dict(copy.records)
        fit = copy.fit(delta)
        if delta.version <= version:
            assert fit is Fit.STALE
        elif delta.from_version == NO_VERSION or NO_VERSION < delta.from_version <= version:
            assert fit is Fit.NEXT
            step = copy.apply(delta)
            assert step is not None
            assert played_back(before, step) == copy.records
            assert copy.version == delta.version
        else:
            assert fit is Fit.GAP
        if copy.version != NO_VERSION:
            assert view(copy.records) == view(service.snapshots[copy.version])
            assert copy.digest == content_digest(copy.records.values())


@settings(derandomize=True)
@given(CONTENTS, CONTENTS, st.sampled_from("pqrst"))
def test_a_delta_with_a_wrong_digest_makes_the_copy_wait_for_the_whole_service(
    first: Content, second: Content, extra: str
) -> None:
    service, copy = Service([first, second]), DatumCopy()
    copy.apply(service.delta(0, 1))
    right = service.delta(1, 2)
    wrong = DatumChange(A, 1, 2, right.digest ^ 1, right.changed, right.removed)
    assert copy.apply(wrong) is None
    assert copy.version == NO_VERSION
    assert copy.digest == content_digest(copy.records.values())
    assert copy.fit(right) is Fit.GAP
    whole = service.delta(0, 2)
    assert copy.fit(whole) is Fit.NEXT
    assert copy.apply(whole) is not None
    assert view(copy.records) == view(service.snapshots[2])


def test_the_steps_of_a_whole_service_name_only_what_differs() -> None:
    service, copy = Service([{"p": (b"1", ""), "q": (b"1", "")}, {"q": (b"1", ""), "r": (b"1", "")}]), DatumCopy()
    copy.apply(service.delta(0, 1))
    step = copy.apply(service.delta(0, 2))
    assert step is not None
    assert {key: (old is not None, new is not None) for key, (old, new) in step.items()} == {
        "p": (True, False),
        "r": (False, True),
    }


def test_records_stay_readable_after_the_version_was_forgotten() -> None:
    service, copy = Service([{"p": (b"1", "")}, {}]), DatumCopy()
    copy.apply(service.delta(0, 1))
    copy.forget_version()
    assert (copy.version, list(copy.records)) == (NO_VERSION, ["p"])
    assert copy.fit(service.delta(1, 2)) is Fit.GAP


@pytest.mark.parametrize("removed", [["unknown"], ["p", "unknown"]])
def test_the_removal_of_an_unknown_record_changes_nothing(removed: list[str]) -> None:
    service, copy = Service([{"p": (b"1", "")}]), DatumCopy()
    copy.apply(service.delta(0, 1))
    left = {} if "p" in removed else copy.records
    step = copy.apply(DatumChange(A, 1, 2, content_digest(left.values()), [], removed))
    assert step is not None
    assert "unknown" not in step


def parts_of(delta: DatumChange, size: int) -> list[DatumChange]:
    """``delta`` cut into parts of ``size`` records or register ids."""
    items: list[Publisher | str] = [*delta.changed, *delta.removed]
    cuts = [items[at : at + size] for at in range(0, len(items), size)] or [[]]
    return [
        DatumChange(
            A,
            delta.from_version,
            delta.version,
            delta.digest,
            [item for item in cut if isinstance(item, Publisher)],
            [item for item in cut if isinstance(item, str)],
            more=number < len(cuts),
        )
        for number, cut in enumerate(cuts, start=1)
    ]


def arrives(copy: DatumCopy, delta: DatumChange) -> Fit:
    """What every receiver does with a delta."""
    fit = copy.fit(delta)
    if fit is Fit.NEXT:
        copy.apply(delta)
    elif fit is Fit.PART:
        copy.gather(delta)
    elif fit is Fit.GAP:
        copy.forget_version()
    return fit


@settings(derandomize=True, max_examples=300)
@given(st.lists(CONTENTS, min_size=2, max_size=7), st.integers(1, 3), st.data())
def test_a_service_in_parts_ends_like_the_whole_whatever_deltas_come_in_between(
    contents: list[Content], size: int, data: st.DataObject
) -> None:
    """The sender sends every delta in order on one connection; deltas after a whole service go on from its version."""
    service, copy = Service(contents), DatumCopy()
    known = data.draw(st.integers(0, len(contents) - 1))
    if known:
        copy.apply(service.delta(0, known))
    at = data.draw(st.integers(known + 1, len(contents)))
    whole = data.draw(st.sampled_from([True, False]))
    parts = parts_of(service.delta(NO_VERSION if whole else known, at), size)
    later = list(range(at + 1, len(contents) + 1))
    sent = [parts.pop(0)]
    while parts or later:
        if parts and (not later or data.draw(st.sampled_from([True, False]))):
            sent.append(parts.pop(0))
        else:
            step = parts_of(service.delta(at, later[0]), data.draw(st.integers(1, 5)))
            at = later.pop(0)
            while step:
                first = parts and data.draw(st.sampled_from([True, False]))
                sent.append(parts.pop(0) if first else step.pop(0))
    for delta in sent:
        before = copy.version
        assert arrives(copy, delta) is not Fit.GAP
        assert copy.version in (before, delta.version, len(contents)) or copy.version > before
        if copy.version != NO_VERSION:
            assert view(copy.records) == view(service.snapshots[copy.version])
    assert copy.version == len(contents)
    assert copy.digest == content_digest(copy.records.values())
    assert copy.parts == 0


CONTENT: Content = dict.fromkeys("pqrst", (b"1", ""))


def test_parts_of_another_delta_take_the_place_of_the_gathered_ones() -> None:
    service, copy = Service([CONTENT, {"p": (b"2", "")}]), DatumCopy()
    first, second = parts_of(service.delta(0, 1), 2), parts_of(service.delta(0, 2), 1)
    assert [arrives(copy, delta) for delta in (first[0], first[1])] == [Fit.PART, Fit.PART]
    assert copy.parts == 2
    assert [arrives(copy, delta) for delta in second] == [Fit.NEXT]
    assert (copy.version, copy.parts) == (2, 0)
    assert arrives(copy, first[2]) is Fit.STALE


def test_a_delta_whose_first_part_is_missing_makes_the_copy_wait_for_the_whole_service() -> None:
    service, copy = Service([CONTENT]), DatumCopy()
    for delta in parts_of(service.delta(0, 1), 2)[1:]:
        arrives(copy, delta)
    assert (copy.version, copy.records, copy.parts) == (NO_VERSION, {}, 0)
    for delta in parts_of(service.delta(0, 1), 2):
        arrives(copy, delta)
    assert copy.version == 1


def test_a_last_part_whose_other_parts_were_dropped_touches_no_record() -> None:
    """Seen with 300,000 instances: their removal and its undoing stopped a session server for two seconds."""
    before: Content = {f"r{number}": (b"1", "") for number in range(50)}
    service = Service([before, dict.fromkeys(before, (b"2", ""))])
    copy = DatumCopy()
    assert copy.apply(service.delta(NO_VERSION, 1))
    held = list(copy.records.items())
    *others, last = parts_of(service.delta(NO_VERSION, 2), 7)
    for part in others:
        assert arrives(copy, part) is Fit.PART
    copy.forget_version()
    assert copy.apply(last) is None
    assert list(copy.records.items()) == held, "neither another record nor another order"
    assert copy.version == NO_VERSION
    assert copy.apply(service.delta(NO_VERSION, 2)) is not None
    assert copy.records == service.snapshots[2]


def test_a_delta_that_ends_before_the_gathered_one_is_not_a_gap() -> None:
    service, copy = Service([{}, CONTENT, CONTENT]), DatumCopy()
    parts = parts_of(service.delta(0, 3), 2)
    arrives(copy, parts[0])
    assert arrives(copy, service.delta(2, 3)) is Fit.STALE
    assert arrives(copy, service.delta(1, 2)) is Fit.STALE
    for delta in parts[1:]:
        arrives(copy, delta)
    assert copy.version == 3
