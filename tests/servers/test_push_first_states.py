"""The first state that a subscriber gets: after another session server, and of a large service in parts."""

from __future__ import annotations

import pytest
from slotreeve.model.datum import content_digest
from slotreeve_protocol.client_messages import Push, Scope
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.datum_copy import Fit
from slotreeve_servers.session.push.push import (
    PARTS_IN_FLIGHT,
)

from tests.servers.push_scene import Mirror, Scene, record

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


def test_who_subscribes_in_a_gap_gets_the_whole_service_although_it_makes_no_difference_here() -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    assert scene.pushes(scene.subscribe("a"))
    scene.outbox.advance(5.0)
    scene.copy.forget_version()
    client = scene.subscribe("b")
    assert scene.pushes(client) == []
    scene.change(whole=True)
    (push,) = scene.pushes(client)
    assert [one.register_id for one in push.changed] == ["r1"]


def test_clients_that_know_the_present_content_under_different_versions_are_each_confirmed_from_theirs() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.change(record(name), whole=name == "a")
    digest = content_digest(scene.truth.values())
    for version in (1, 2, 1):
        client = scene.subscribe(f"knows {version}", version, digest)
        assert [(push.from_version, push.version, push.changed) for push in scene.pushes(client)] == [(version, 3, [])]


def test_a_client_with_a_newer_state_is_brought_forward_although_there_was_a_gap_meanwhile() -> None:
    scene = Scene()
    scene.change(record("r1"), whole=True)
    other = scene.subscribe("a")
    assert scene.pushes(other)
    scene.outbox.advance(5.0)
    client = scene.subscribe("b", version=3, digest=999)
    assert scene.pushes(client) == []
    scene.change()
    scene.copy.forget_version()
    assert scene.pushes(client) == []
    scene.version = 5
    scene.change(whole=True)
    scene.outbox.advance(5.0)
    assert [push.version for push in scene.pushes(client)] == [6]


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


def test_a_receipt_for_parts_that_were_not_sent_counts_for_those_that_were() -> None:
    scene = Scene()
    large(scene, 1_000)
    client = scene.subscribe("c")
    (first, *_) = pushes = scene.pushes(client)
    assert len(pushes) == PARTS_IN_FLIGHT
    for _ in range(3):
        scene.receipt(client, first.version, 0, 10**9)
        assert len(scene.pushes(client)) == PARTS_IN_FLIGHT


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
