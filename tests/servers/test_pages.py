"""Reading a large service page by page, while it changes and while others read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot
from slotreeve_protocol.client_messages import Datum
from slotreeve_protocol.slot_messages import Fetch, SlotWrite
from slotreeve_servers.data.announcing import pages
from slotreeve_servers.data.announcing.pages import KEPT_SECONDS, LONGEST_SECONDS, Pages
from slotreeve_servers.data.slots.slots import HeldSlot

from tests.servers.recording_outbox import RecordingOutbox


class Scene:
    """A slot with a service of 100 records, and a reader of it."""

    def __init__(self, part_bytes: int = 500) -> None:
        self.outbox = RecordingOutbox(part_bytes=part_bytes)
        self.pages = Pages(self.outbox)
        self.slot = HeldSlot(Slot(0, "data-1", 1, ()), True, serving=True, version=7)
        self.put(*range(100))

    def put(self, *numbers: int, service: str = "s") -> None:
        records = [Publisher(f"r{n}", service, 1, 1, "p@1", "", (b"x",)) for n in numbers]
        self.slot.apply(SlotWrite(0, 1, records, [], []), 0.0)

    def page(self, start: int = 0, version: int = 0, service: str = "s") -> Datum:
        return self.pages.answer(self.slot, Fetch(0, 1, service, start, version))


def test_a_small_service_is_one_page() -> None:
    datum = Scene(1_000_000).page()
    assert (len(datum.publishers), datum.total) == (100, 0)


@given(st.lists(st.integers(100, 400), max_size=30))
def test_all_pages_are_of_one_version_although_the_service_changes(news: list[int]) -> None:
    scene = Scene()
    first = scene.page()
    found = list(first.publishers)
    while len(found) < first.total:
        if news:
            scene.put(news.pop())
        datum = scene.page(len(found), first.version)
        assert (datum.version, datum.total) == (first.version, first.total)
        assert 0 < len(datum.publishers) < 15
        found += datum.publishers
    assert sorted(r.register_id for r in found) == sorted(f"r{n}" for n in range(100))


def test_a_reader_of_a_version_that_is_no_longer_kept_gets_the_first_page_of_the_present_one() -> None:
    scene = Scene()
    first = scene.page()
    scene.put(200)
    scene.outbox.advance(KEPT_SECONDS + 1)
    assert scene.page().version > first.version
    again = scene.page(len(first.publishers), first.version)
    assert again == scene.page()
    assert again.total == 101


def test_where_the_room_for_lists_is_taken_the_list_made_last_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "KEPT_RECORDS", 1_000)
    scene = Scene()
    first = scene.page()
    for number in range(10):
        scene.put(200 + number)
        last = scene.page()
    scene.put(300)
    assert scene.page(10, first.version).version == first.version
    assert scene.page(10, last.version).version > last.version


@pytest.mark.parametrize("readers", [1, 2, 3, 12])
def test_each_of_many_readers_of_a_service_that_changes_all_the_time_comes_to_its_end(
    readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "KEPT_RECORDS", 250)  # two lists
    scene = Scene()
    read: dict[int, list[Publisher]] = {reader: [] for reader in range(readers)}
    versions = dict.fromkeys(read, 0)
    rounds = 0
    while versions:
        rounds += 1
        for reader in list(versions):
            scene.put(200 + rounds % 2)
            scene.slot.apply(SlotWrite(0, 1, [], [], [("s", f"r{200 + rounds % 2}")]), 0.0)
            page = scene.page(len(read[reader]), versions[reader])
            if page.version != versions[reader]:
                versions[reader], read[reader] = page.version, []
            read[reader] += page.publishers
            if len(read[reader]) >= page.total:
                del versions[reader]
        scene.outbox.advance(0.01)
        assert rounds < 100, f"{len(versions)} readers have no end"
    assert all(sorted(r.register_id for r in found) == sorted(f"r{n}" for n in range(100)) for found in read.values())


def test_a_list_that_nobody_reads_any_more_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "KEPT_RECORDS", 250)
    scene = Scene()
    left = scene.page()
    scene.put(200)
    going_on = scene.page()
    scene.outbox.advance(KEPT_SECONDS - 1)
    scene.page(10, going_on.version)
    scene.outbox.advance(2)
    scene.put(201)
    newest = scene.page()
    scene.put(202)
    assert scene.page(10, left.version).version > newest.version
    assert scene.page(10, going_on.version).version == going_on.version
    assert scene.page(10, newest.version).version == newest.version


def test_who_reads_one_list_for_ever_does_not_keep_the_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "KEPT_RECORDS", 150)
    scene = Scene()
    first = scene.page()
    scene.put(200)
    while scene.outbox.time <= 100.0 + LONGEST_SECONDS:
        assert scene.page(10, first.version).version == first.version
        scene.page()
        scene.outbox.advance(5.0)
    other = scene.page()
    scene.put(202)
    assert scene.page(10, other.version).version == other.version
    assert scene.page(10, first.version).version > other.version


def test_a_list_that_one_of_two_readers_has_read_to_its_end_is_kept_for_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "KEPT_RECORDS", 150)
    scene = Scene()
    first = scene.page()
    assert scene.page() == first
    last = scene.page(95, first.version)
    assert len(last.publishers) == 5
    scene.put(200)
    scene.page()
    assert scene.page(10, first.version).version == first.version
    assert scene.page(95, first.version) == last
    other = scene.page()
    scene.put(201)
    assert scene.page(10, other.version).version == other.version
    assert scene.page(10, first.version).version > other.version


@pytest.mark.parametrize("readers", [1, 20])
def test_all_pages_of_many_readers_are_of_one_list_however_many_other_lists_are_read(
    readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "KEPT_RECORDS", 150)  # only the first one is kept
    scene = Scene()
    services = [f"s{number}" for number in range(readers)]
    for service in services:
        scene.put(*range(100), service=service)
    read: dict[str, list[str]] = {service: [] for service in services}
    versions = dict.fromkeys(services, 0)
    while any(len(read[service]) < 100 for service in services):
        for service in services:
            page = scene.page(len(read[service]), versions[service], service)
            assert versions[service] in {0, page.version}
            versions[service] = page.version
            read[service] += [record.register_id for record in page.publishers]
    assert all(found == [f"r{number}" for number in range(100)] for found in read.values())


def test_a_list_that_is_read_is_kept_while_newer_ones_that_nobody_reads_go() -> None:
    scene = Scene()
    first = scene.page()
    for number in range(16):
        scene.put(200 + number)
        scene.page()
        assert scene.page(10, first.version).version == first.version
