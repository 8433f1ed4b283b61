"""Cutting what travels whole: deltas, pages, push frames, and the parts in which a service is compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.codec import decode_frame, encode_message
from slotreeve_servers.node.deltas import delta_parts, page_of, size_of
from slotreeve_servers.node.digests import FANOUT, RunningDigests
from slotreeve_servers.session.push.push_frames import PushFrames

from tests.servers.sync_digest import sync_digest

SIZES = st.lists(st.integers(0, 400), max_size=30)


def records(sizes: list[int]) -> list[Publisher]:
    return [Publisher(f"r{n}", "s", 1, 1, "p@1", "", (b"x" * size, b"")) for n, size in enumerate(sizes)]


@given(SIZES, SIZES, st.integers(1, 2_000))
def test_the_parts_of_a_delta_are_bounded_and_together_all_of_it(
    changed: list[int], removed: list[int], limit: int
) -> None:
    ids = [f"gone{n}" for n in range(len(removed))]
    parts = list(delta_parts(records(changed), ids, limit))
    assert [r for part in parts for r in part.changed] == records(changed)
    assert [key for part in parts for key in part.removed] == ids
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert parts[0].is_whole is (len(parts) == 1)
    for part in parts:
        frame = encode_message(Push("s", Scope.ZONE, 0, 1, 0, part.changed, part.removed))
        assert len(frame) <= part.size + 40
        assert part.size <= limit + size_of(records([400])[0]) + 1


@given(SIZES, st.integers(1, 2_000))
def test_pages_one_after_the_other_are_the_list(sizes: list[int], limit: int) -> None:
    whole, read = records(sizes), list[Publisher]()
    while page := page_of(whole[len(read) :], limit):
        read += page
        assert sum(map(size_of, page[:-1])) < limit
    assert read == whole


def test_the_frames_of_a_push_are_encoded_when_they_are_needed_and_kept() -> None:
    frames = PushFrames(("s", Scope.ZONE), (3, 4), 99, records([100] * 10), ["gone"], 300)
    first = frames.frame(0)
    assert first is not None
    assert frames.is_parted
    assert frames.frame(0) is first
    pushes: list[Push] = []
    while (frame := frames.frame(len(pushes))) is not None:
        push = decode_frame(frame)[2]
        assert isinstance(push, Push)
        pushes.append(push)
    assert [r for push in pushes for r in push.changed] == records([100] * 10)
    assert {(push.from_version, push.version, push.digest) for push in pushes} == {(3, 4, 99)}
    assert [push.more for push in pushes] == [True] * (len(pushes) - 1) + [False]
    assert not PushFrames(("s", Scope.ZONE), (3, 4), 99, [], [], 300).is_parted


def test_a_service_gets_parts_when_it_is_large_and_loses_them_with_its_last_record() -> None:
    running = RunningDigests(1_000)
    held = {r.register_id: r for r in records([100] * 30)}
    running.count("s", held)
    parted = running.parted["s"]
    assert parted.count == FANOUT
    assert sum(parted.digests(None).values()) & ((1 << 64) - 1) == sync_digest(held.values()) == running.of(None)["s"]
    assert sorted(key for number in range(4) for key in parted.members(4, number)) == sorted(held)
    running.move("s", held, {})
    assert (running.parted, running.sizes, dict(running.of(None)), dict(running.of("p@1"))) == ({}, {}, {}, {})
