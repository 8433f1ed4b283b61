"""Pushing one service to its subscribers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_events.log import MOST_CHANGES
from slotreeve_protocol.client_messages import Push, PushReceipt, Scope
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.push import (
    COST_FACTOR,
    HISTORY,
    IN_FLIGHT,
    MANY_SUBSCRIBERS,
)
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.push_scene import Mirror, Scene, record


def test_the_first_change_of_a_quiet_service_leaves_at_the_end_of_the_turn() -> None:
    scene = Scene()
    client = scene.subscribe("c")
    assert scene.pushes(client) == []
    scene.change(record("r1"), whole=True)
    (push,) = scene.pushes(client)
    assert (push.from_version, push.version) == (0, 1)
    assert [r.register_id for r in push.changed] == ["r1"]


def test_a_client_whose_connection_has_no_room_gets_the_newest_state_once_it_has_and_others_do_not_wait() -> None:
    scene = Scene()
    full, other = scene.subscribe("full"), scene.subscribe("other")
    scene.change(record("r1"), whole=True)
    assert len(scene.pushes(full)) == 1
    scene.outbox.crowded.add(full.peer)
    for number in range(2, 5):
        scene.outbox.advance(1.0)
        scene.change(record(f"r{number}"))
        assert len(scene.pushes(other)) == 1
    assert scene.pushes(full) == []
    scene.outbox.crowded.clear()
    scene.outbox.advance(1.0)
    (push,) = scene.pushes(full)
    assert (push.from_version, push.version) == (1, 4)
    assert [r.register_id for r in push.changed] == ["r2", "r3", "r4"]


def test_a_record_that_moves_to_another_zone_leaves_and_enters_the_views_of_zones_by_a_delta() -> None:
    scene = Scene(Scope.ZONE)
    client, mirror = scene.subscribe("c"), Mirror()
    scene.change(record("r1", zone="here"), record("r2", zone="there"), whole=True)
    for expected, moved in ((["r1"], ()), ([], (record("r1", zone="there"),)), (["r2"], (record("r2", zone="here"),))):
        scene.outbox.advance(1.0)
        if moved:
            scene.change(*moved)
        (push,) = scene.pushes(client)
        assert bool(push.from_version) is bool(moved)
        mirror.take(push)
        assert sorted(mirror.copy.records) == expected


def test_what_changes_in_another_zone_only_is_not_pushed_to_who_wants_this_one() -> None:
    scene = Scene(Scope.ZONE)
    client = scene.subscribe("c")
    scene.change(record("r1", zone="here"), record("r2", zone="there"), whole=True)
    assert len(scene.pushes(client)) == 1
    scene.outbox.advance(1.0)
    scene.change(record("r2", b"y", zone="there"), record("r3", zone="there"))
    assert scene.pushes(client) == []
    scene.change(removed=("r3",))
    assert scene.pushes(client) == []


def test_a_change_of_very_many_records_is_pushed_with_all_of_them() -> None:
    scene = Scene()
    client = scene.subscribe("c")
    scene.change(record("r"), whole=True)
    scene.pushes(client)
    scene.outbox.advance(1.0)
    many = [record(f"r{number}") for number in range(2 * MOST_CHANGES)]
    scene.change(*many)
    (push,) = scene.pushes(client)
    assert {one.register_id for one in push.changed} >= {one.register_id for one in many}


def test_an_empty_service_is_pushed_to_who_subscribed_before_it_was_known() -> None:
    scene = Scene()
    client = scene.subscribe("c")
    scene.change(whole=True)
    (push,) = scene.pushes(client)
    assert (push.changed, push.version) == ([], 1)


def test_changes_within_the_window_are_one_push() -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    client = scene.subscribe("c")
    assert len(scene.pushes(client)) == 1
    scene.outbox.advance(1.0)
    for number in range(5):
        scene.change(record(f"n{number}"))
    first = scene.pushes(client)
    for number in range(5):
        scene.change(record(f"m{number}"))
    assert scene.pushes(client) == []
    scene.outbox.advance(SessionSettings().push_window_seconds)
    (second,) = scene.pushes(client)
    assert [len(push.changed) for push in first] == [5]
    assert sorted(r.register_id for r in second.changed) == [f"m{n}" for n in range(5)]


def test_the_window_after_a_push_to_many_includes_the_time_in_which_its_frames_are_written() -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    client, *_ = [scene.subscribe(f"c{n}") for n in range(MANY_SUBSCRIBERS)]
    scene.pushes(client)
    scene.outbox.advance(1.0)
    scene.change(record("r2"))
    scene.outbox.end_one_turn()
    scene.outbox.time += 0.02
    assert len(scene.pushes(client)) == 1
    scene.change(record("r3"))
    scene.outbox.advance(COST_FACTOR * 0.02 - 0.01)
    assert scene.pushes(client) == []
    scene.outbox.advance(0.011)
    assert len(scene.pushes(client)) == 1


def test_a_frame_is_encoded_once_for_all_subscribers_at_the_same_version(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    clients = [scene.subscribe(f"c{n}") for n in range(3)]
    scene.outbox.advance(1.0)
    frames: list[bytes] = []

    def send_encoded(peer: Peer, frame: bytes, what: str) -> bool:
        frames.append(frame)
        return True

    monkeypatch.setattr(scene.outbox, "send_encoded", send_encoded)
    scene.change(record("r2"))
    scene.outbox.end_turn()
    assert len(frames) == len(clients)
    assert all(frame is frames[0] for frame in frames)


def test_a_subscriber_that_knows_the_content_gets_its_version_only() -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    (push,) = scene.pushes(scene.subscribe("c", version=7, digest=scene.copy.digest))
    assert (push.from_version, push.version, push.changed, push.removed) == (7, 1, [], [])


def test_a_subscriber_with_a_newer_copy_gets_the_next_state_although_other_changes_were_pushed_meanwhile() -> None:
    scene = Scene()
    scene.change(record("a"))
    client = scene.subscribe("a", version=3, digest=7)
    assert scene.pushes(client) == []
    scene.change(record("b"))  # pushed to the others; this subscriber waits on
    assert scene.pushes(client) == []
    scene.outbox.advance(1.0)
    scene.change()  # what there was in between has come and gone
    (push,) = scene.pushes(client)
    assert (push.from_version, push.version, len(push.changed)) == (0, 3, 2)


def test_a_subscriber_with_too_many_pushes_on_their_way_waits_and_then_gets_one_merged_delta() -> None:
    scene = Scene()
    scene.change(record("r"), whole=True)
    client = scene.subscribe("c")
    for number in range(IN_FLIGHT + 9):
        scene.outbox.advance(2.0)
        scene.change(record("r", str(number).encode()))
    sent = scene.pushes(client)
    assert len(sent) == IN_FLIGHT
    scene.receipt(client, sent[3].version)
    (merged,) = scene.pushes(client)
    assert (merged.from_version, merged.version) == (sent[-1].version, scene.version)


def test_a_subscriber_that_lags_beyond_the_history_gets_the_whole_service() -> None:
    scene = Scene()
    scene.change(record("r"), whole=True)
    client = scene.subscribe("c")
    for number in range(2 * IN_FLIGHT):
        scene.outbox.advance(2.0)
        scene.change(record("r", str(number).encode()))
    sent = scene.pushes(client)
    scene.receipt(client, sent[-1].version)
    (whole,) = scene.pushes(client)
    assert (whole.from_version, whole.version) == (0, scene.version)


@pytest.mark.parametrize(("republished", "is_whole"), [(99, False), (100, True)])
def test_the_history_holds_no_more_changes_than_the_service_has_records(republished: int, is_whole: bool) -> None:
    scene = Scene()
    scene.change(*[record(f"r{n}") for n in range(101)], whole=True)
    client = scene.subscribe("c")
    for number in range(IN_FLIGHT - 1):
        scene.outbox.advance(2.0)
        scene.change(record("r0", b"%d" % number))
    sent = scene.pushes(client)
    for changed in (2, republished):
        scene.outbox.advance(2.0)
        scene.change(*[record(f"r{n}", b"%d" % changed) for n in range(changed)])
    assert scene.pushes(client) == []
    scene.receipt(client, sent[-1].version)
    (push,) = scene.pushes(client)
    assert push.from_version == (0 if is_whole else sent[-1].version)
    assert len(push.changed) == (101 if is_whole else 99)
    assert push.version == scene.version


def test_the_history_of_a_large_service_has_no_more_steps_than_it_may_have() -> None:
    scene = Scene()
    client = scene.subscribe("c")
    scene.change(*[record(f"r{number}") for number in range(10 * HISTORY)], whole=True)
    for number in range(3 * HISTORY):
        scene.outbox.advance(1.0)
        scene.change(record(f"new{number}"))
        for push in scene.pushes(client):
            scene.receipt(client, push.version)
    assert scene.group._history is not None
    assert len(scene.group._history) == HISTORY


def test_a_change_of_more_than_is_left_of_a_service_is_pushed_as_the_whole_service() -> None:
    scene = Scene()
    scene.change(*[record(f"r{n}") for n in range(100)], whole=True)
    client, mirror = scene.subscribe("c"), Mirror()
    mirror.take(*scene.pushes(client))
    scene.outbox.advance(2.0)
    scene.change(removed=tuple([f"r{n}" for n in range(90)]))
    (push,) = scene.pushes(client)
    mirror.take(push)
    assert (push.from_version, len(push.changed), push.removed) == (0, 10, [])
    assert mirror.copy.records == scene.truth


def test_a_receipt_that_says_not_applied_brings_the_whole_service_once() -> None:
    scene = Scene()
    scene.change(record("r"), whole=True)
    client = scene.subscribe("c")
    scene.outbox.advance(2.0)
    scene.change(record("q"))
    first, second = scene.pushes(client)
    scene.receipt(client, second.version, 0)
    (whole,) = scene.pushes(client)
    assert (whole.from_version, len(whole.changed)) == (0, 2)
    scene.receipt(client, first.version, 0)
    assert scene.pushes(client) == []


def test_stopped_pushes_are_sent_when_the_orders_allow_them_again() -> None:
    scene = Scene()
    scene.change(record("r"), whole=True)
    scene.orders.take(ConfigEntry(ORDERS_KEY, Orders(push_stopped=True).encode(), 1))
    client = scene.subscribe("c")
    assert scene.pushes(client) == []
    scene.orders.take(ConfigEntry(ORDERS_KEY, Orders().encode(), 2))
    scene.rules.due.orders_changed()
    assert len(scene.pushes(client)) == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.sampled_from(["here", "there"])),
        st.tuples(st.just("remove"), st.sampled_from("abc"), st.just("")),
        st.tuples(st.just("whole"), st.just(""), st.just("")),
        st.tuples(st.just("subscribe"), st.just(""), st.just("")),
        st.tuples(st.just("pass"), st.sampled_from(["0", "0.001", "1"]), st.just("")),
        st.tuples(st.just("receipts"), st.just(""), st.just("")),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from(list(Scope)), st.sampled_from([1, 150, 1_000_000]))
def test_every_subscriber_ends_with_what_its_scope_covers(
    steps: list[tuple[str, str, str]], scope: Scope, part_bytes: int
) -> None:
    """The dumb twin is the leader's full copy, cut by zone."""
    scene = Scene(scope)
    scene.outbox.part_bytes = part_bytes
    mirrors: dict[ConnectedClient, Mirror] = {}
    received: dict[ConnectedClient, int] = {}

    def look() -> None:
        scene.outbox.end_turn()
        for effect in scene.outbox.take("sent"):
            client = next(c for c in mirrors if c.peer is effect.peer)
            assert isinstance(effect.what, Push)
            mirrors[client].take(effect.what)
            received[client] = effect.what.version

    def acknowledge() -> None:
        for client, version in list(received.items()):
            copy = mirrors[client].copy
            scene.receipt(client, version, copy.version, copy.parts)

    for number, (kind, what, zone) in enumerate(steps):
        if kind == "put":
            scene.change(record(what, str(number).encode(), zone), whole=scene.version == 0)
        elif kind == "remove":
            scene.change(removed=(what,) if what in scene.truth else (), whole=scene.version == 0)
        elif kind == "whole":
            scene.change(whole=True)
        elif kind == "subscribe":
            client = scene.subscribe(f"c{number}")
            mirrors[client] = Mirror()
        elif kind == "pass":
            scene.outbox.advance(float(what))
        else:
            acknowledge()
        look()
    scene.change(record("last", b"last", "here"), whole=scene.version == 0)
    for _ in range(30):
        scene.outbox.advance(2.0)
        look()
        acknowledge()
    look()
    expected = {k: r.data for k, r in scene.truth.items() if scope is Scope.DATA_CENTER or r.zone == "here"}
    for mirror in mirrors.values():
        assert {k: r.data for k, r in mirror.copy.records.items()} == expected


@pytest.mark.parametrize("scope", [Scope.ZONE, Scope.DATA_CENTER])
def test_a_client_whose_receipts_come_while_the_whole_service_is_waited_for_gets_the_rest(scope: Scope) -> None:
    scene, mirror = Scene(scope), Mirror()
    client = scene.subscribe("c")
    scene.change(record("mine", b"0", "here"), whole=True)
    for number in range(1, IN_FLIGHT + 10):
        scene.outbox.advance(1.5)
        scene.change(record("mine", b"%d" % number, "here"))
    scene.outbox.advance(1.5)
    for push in scene.pushes(client):
        mirror.take(push)
    assert mirror.copy.records["mine"] != scene.truth["mine"]
    scene.copy.forget_version()  # a gap: a change of something else was lost
    scene.group.acknowledged(client, PushReceipt("s", scope, mirror.copy.version, mirror.copy.version))
    scene.outbox.advance(0.1)
    scene.version += 1
    scene.change(whole=True)  # which makes no difference to what this server has
    scene.outbox.advance(60.0)
    for push in scene.pushes(client):
        mirror.take(push)
    assert mirror.copy.records["mine"] == scene.truth["mine"]


def test_who_subscribes_again_and_again_while_it_reads_nothing_leaves_nothing_behind() -> None:
    scene = Scene()
    client = scene.subscribe("slow")
    scene.change(record("r"), whole=True)
    scene.outbox.end_turn()
    scene.outbox.crowded.add(client.peer)
    for number in range(20):
        scene.group.subscribe(client, 0, 0)
        scene.outbox.end_turn()
        scene.change(record("r", b"%d" % number))
        scene.outbox.advance(1.1)
    scene.group.unsubscribe(client)
    scene.outbox.advance(100.0)
    scene.rules.delays.look(scene.outbox.now())
    assert (scene.rules.delays.overdue, scene.rules.due.crowded) == (0, 0)
