"""Pushing one service to its subscribers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, PushReceipt, Scope
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.meta_messages import ConfigEntry
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.slot_messages import DatumChange
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.due_pushes import DuePushes
from slotreeve_servers.session.orders import OrdersInForce
from slotreeve_servers.session.push import (
    COST_FACTOR,
    IN_FLIGHT,
    MANY_SUBSCRIBERS,
    PARTS_IN_FLIGHT,
    PushGroup,
    PushRules,
)
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer


def record(register_id: str, data: bytes = b"x", zone: str = "") -> Publisher:
    return Publisher(register_id, "s", 1, 1, "session-1@1", zone, (data,))


class Scene:
    """One service on a session server of zone ``here``, and the slot's leader that announces its changes."""

    def __init__(self, scope: Scope = Scope.DATA_CENTER) -> None:
        self.outbox, self.orders, self.copy = RecordingOutbox(), OrdersInForce("session-1"), DatumCopy("here")
        self.rules = PushRules(self.outbox, SessionSettings(), "here", self.orders, None, DuePushes(self.outbox))
        self.group = PushGroup("s", scope, self.copy, self.rules)
        self.truth: dict[str, Publisher] = {}
        self.version = 0

    def change(self, *records: Publisher, removed: tuple[str, ...] = (), whole: bool = False) -> None:
        """The leader announces that these records came and went."""
        start, self.version = self.version, self.version + 1
        self.truth |= {r.register_id: r for r in records}
        for key in removed:
            self.truth.pop(key, None)
        changed = list(self.truth.values()) if whole else list(records)
        digest = content_digest(self.truth.values())
        delta = DatumChange("s", 0 if whole else start, self.version, digest, changed, [] if whole else [*removed])
        step = self.copy.apply(delta)
        assert step is not None
        self.group.note(step)

    def subscribe(self, name: str, version: int = 0, digest: int = 0) -> ConnectedClient:
        client = ConnectedClient(a_peer(name, Role.CLIENT))
        self.group.subscribe(client, version, digest)
        return client

    def pushes(self, client: ConnectedClient) -> list[Push]:
        self.outbox.end_turn()
        found = [m for m in self.outbox.messages(Push, client.peer) if isinstance(m, Push)]
        self.outbox.take()
        return found

    def receipt(self, client: ConnectedClient, received: int, version: int | None = None, parts: int = 0) -> None:
        at = received if version is None else version
        self.group.acknowledged(client, PushReceipt("s", Scope.DATA_CENTER, received, at, parts))


def test_the_first_change_of_a_quiet_service_leaves_at_the_end_of_the_turn() -> None:
    scene = Scene()
    client = scene.subscribe("c")
    assert scene.pushes(client) == []
    scene.change(record("r1"), whole=True)
    (push,) = scene.pushes(client)
    assert (push.from_version, push.version) == (0, 1)
    assert [r.register_id for r in push.changed] == ["r1"]


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
    scene.group.resume()
    assert len(scene.pushes(client)) == 1


class Mirror:
    """A subscriber: applies pushes as a client does."""

    def __init__(self) -> None:
        self.copy = DatumCopy()

    def take(self, push: Push) -> None:
        fit = self.copy.fit(push)
        if fit is Fit.NEXT:
            assert self.copy.apply(push) is not None
        elif fit is Fit.PART:
            self.copy.gather(push)
        else:
            assert fit is Fit.STALE, "a gap"


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


# --- clients that come from another session server ------------------------------------------------------------------


def test_a_client_with_a_newer_state_than_this_server_is_brought_forward_although_nothing_changes_here() -> None:
    """The server it comes from saw the records go and this one did not; here they never went."""
    scene = Scene()
    scene.change(record("a"), record("b"), whole=True)
    client = scene.subscribe("c", version=2, digest=content_digest([record("a")]))
    assert scene.pushes(client) == [], "this server's state would be old to the client"
    scene.version = 2
    scene.change()
    scene.outbox.advance(2.0)
    (push,) = scene.pushes(client)
    assert (push.from_version, push.version) == (0, 3)
    assert {one.register_id for one in push.changed} == {"a", "b"}


@pytest.mark.parametrize("behind", [True, False])
def test_a_client_that_was_brought_a_newer_state_by_its_former_server_is_brought_forward_from_there(
    behind: bool,
) -> None:
    scene = Scene()
    scene.change(record("a"), record("b"), whole=True)
    client = scene.subscribe("c")
    (push,) = scene.pushes(client)
    mirror = Mirror()
    mirror.take(push)
    mirror.take(Push("s", Scope.DATA_CENTER, 1, 2, content_digest([record("a")]), [], ["b"]))  # from the former one
    assert mirror.copy.version == 2
    if behind:
        scene.receipt(client, 1, mirror.copy.version)
        assert scene.pushes(client) == []
    scene.version = 2
    scene.change()
    if not behind:
        scene.receipt(client, 1, mirror.copy.version)
    for _ in range(3):
        scene.outbox.advance(2.0)
        for push in scene.pushes(client):
            if mirror.copy.fit(push) is Fit.NEXT:
                mirror.copy.apply(push)  # a wrong digest leaves version 0, which asks for the whole service
            scene.receipt(client, push.version, mirror.copy.version)
    assert mirror.copy.version == 3
    assert mirror.copy.records == scene.truth


# --- large services --------------------------------------------------------------------------------------------------


def large(scene: Scene, records: int = 100) -> None:
    """The service of the scene has about ``records`` / 8 parts."""
    scene.outbox.part_bytes = 500
    scene.change(*[record(f"r{n}") for n in range(records)], whole=True)


def test_a_large_service_is_pushed_in_parts_and_few_of_them_are_on_their_way() -> None:
    scene = Scene()
    large(scene)
    mirror, client = Mirror(), scene.subscribe("c")
    rounds = 0
    while mirror.copy.version == 0:
        pushes = scene.pushes(client)
        assert 0 < len(pushes) <= PARTS_IN_FLIGHT
        for push in pushes:
            assert len(encode_message(push)) < 1_000
            mirror.take(push)
            scene.receipt(client, push.version, mirror.copy.version, mirror.copy.parts)
        rounds += 1
    assert rounds > 4
    assert mirror.copy.records == scene.truth
    assert scene.pushes(client) == []


def test_a_thousand_subscribers_do_not_each_have_a_large_service_in_their_queue() -> None:
    scene = Scene()
    large(scene, 2_000)
    clients = [scene.subscribe(f"c{n}") for n in range(1_000)]
    scene.outbox.end_turn()
    whole = 2_000 * 60
    pushes = [effect.what for effect in scene.outbox.take("sent") if isinstance(effect.what, Push)]
    waiting = sum(len(encode_message(push)) for push in pushes)
    assert waiting < len(clients) * PARTS_IN_FLIGHT * 1_000 < len(clients) * whole / 10


def test_changes_of_a_large_service_do_not_wait_for_its_parts() -> None:
    scene = Scene()
    large(scene)
    mirror, client = Mirror(), scene.subscribe("c")
    deltas = 0
    while mirror.copy.version == 0:
        scene.outbox.advance(2.0)
        scene.change(record(f"new{deltas}"), removed=(f"r{deltas}",))
        deltas += 1
        for push in scene.pushes(client):
            mirror.take(push)
            scene.receipt(client, push.version, mirror.copy.version, mirror.copy.parts)
    assert mirror.copy.version == scene.version
    assert mirror.copy.records == scene.truth
    assert deltas > 4


@pytest.mark.parametrize("records", [12, 100])
def test_subscribers_that_come_one_after_the_other_share_the_frames_of_a_large_service(records: int) -> None:
    scene = Scene()
    large(scene, records)
    encoded = set[int]()
    for number in range(20):
        client, mirror = scene.subscribe(f"c{number}"), Mirror()
        while mirror.copy.version == 0:
            for push in scene.pushes(client):
                if push.from_version == 0:
                    encoded.add(push.version)
                mirror.take(push)
                scene.receipt(client, push.version, mirror.copy.version, mirror.copy.parts)
        assert mirror.copy.version == scene.version, "the first state that it sees is the present one"
        assert mirror.copy.records == scene.truth
        scene.outbox.advance(2.0)
        scene.change(record(f"new{number}"))
        scene.outbox.end_turn()
        scene.outbox.take()
    assert len(encoded) <= 3, "it is encoded again only after changes that fill a part"


def test_the_first_state_that_a_subscriber_sees_is_the_present_one_also_after_a_large_change() -> None:
    scene = Scene()
    large(scene, 12)
    scene.subscribe("first")
    scene.outbox.end_turn()
    scene.outbox.advance(2.0)
    scene.change(*[record(f"new{n}") for n in range(50)])
    scene.outbox.end_turn()
    scene.outbox.take()
    client, mirror = scene.subscribe("second"), Mirror()
    while mirror.copy.version == 0:
        for push in scene.pushes(client):
            mirror.take(push)
            scene.receipt(client, push.version, mirror.copy.version, mirror.copy.parts)
    assert mirror.copy.version == scene.version
    assert mirror.copy.records == scene.truth


def test_a_subscriber_whose_parts_did_not_fit_gets_the_whole_service_again() -> None:
    scene = Scene()
    large(scene)
    client = scene.subscribe("c")
    first = scene.pushes(client)
    scene.receipt(client, first[-1].version, 0, 0)
    again = scene.pushes(client)
    assert [len(push.changed) for push in again] == [len(push.changed) for push in first]


def test_who_subscribed_with_the_present_content_before_it_was_known_here_gets_its_version_only() -> None:
    """After a session server's death its subscribers come to one that does not watch their services yet."""
    scene = Scene()
    client, other = scene.subscribe("c", 7, content_digest([record("r1")])), scene.subscribe("d", 7, 12345)
    scene.version = 7
    scene.change(record("r1"), whole=True)
    scene.outbox.end_turn()
    (whole,) = [m for m in scene.outbox.messages(Push, other.peer) if isinstance(m, Push)]
    (push,) = scene.pushes(client)
    assert (push.from_version, push.version, push.changed, push.removed) == (7, 8, [], [])
    assert (whole.from_version, len(whole.changed)) == (0, 1)


def test_what_changed_before_a_gap_is_pushed_with_the_whole_service_that_closes_it() -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    client = scene.subscribe("c")
    assert len(scene.pushes(client)) == 1
    scene.outbox.advance(1.0)
    scene.change(record("r2"))
    scene.copy.forget_version()
    assert scene.pushes(client) == []
    scene.change(record("r3"), whole=True)
    (push,) = scene.pushes(client)
    assert (push.from_version, push.version) == (1, 3)
    assert [r.register_id for r in push.changed] == ["r2", "r3"]
