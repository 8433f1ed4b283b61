"""How late pushes are, and who lacks a change and why."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve_protocol.client_messages import PushReceipt, Scope
from slotreeve_protocol.orders import Orders
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.push.push_delays import LATE_AGAIN_SECONDS, PushDelays
from slotreeve_servers.session.push.subscriber import Subscriber

from tests.servers.push_scene import Scene, record
from tests.servers.recording_outbox import a_peer


def test_the_age_of_a_push_is_the_way_to_this_server_and_the_wait_here() -> None:
    scene = Scene()
    scene.change(record("a"))
    client = scene.subscribe("c")
    scene.pushes(client)
    scene.outbox.advance(5.0)
    born = scene.outbox.now() - 0.3
    scene.change(record("b"))
    scene.group.note({"b": (None, record("b"))}, born)
    scene.pushes(client)
    delays = scene.rules.delays
    assert sum(delays.ages.counts) == delays.objective.pushed == 1
    assert math.isclose(delays.ages.total_seconds, 0.3, abs_tol=0.01)
    assert scene.group.last is not None
    assert math.isclose(scene.group.last[1], 0.3, abs_tol=0.01)


def test_the_first_state_of_a_subscriber_is_no_late_change() -> None:
    scene = Scene()
    scene.group.subscribe(client := ConnectedClient(a_peer("c", Role.CLIENT)), 0, 0)
    scene.outbox.advance(60.0)
    scene.change(record("a"))
    scene.pushes(client)
    assert scene.rules.delays.objective.pushed == 0


def behind(scene: Scene) -> list[str]:
    scene.rules.delays.look(scene.outbox.now())
    return [one.group.why_behind(one) for one in scene.rules.delays.lagging()]


def test_a_subscriber_to_which_pushing_is_stopped_is_late_until_it_has_everything() -> None:
    scene = Scene()
    scene.change(record("a"))
    client = scene.subscribe("c")
    scene.pushes(client)
    scene.orders.orders = Orders(push_stopped=True)
    scene.change(record("b"))
    scene.pushes(client)
    assert behind(scene) == []
    scene.outbox.advance(0.6)
    assert behind(scene) == ["an order stops pushes to it"]
    objective = scene.rules.delays.objective
    late = objective.late
    assert late >= 1
    for _ in range(3):
        scene.outbox.advance(LATE_AGAIN_SECONDS)
        behind(scene)
    assert objective.late == late + 3, "once more in each interval"
    scene.orders.orders = Orders()
    scene.rules.due.orders_changed()
    assert len(scene.pushes(client)) == 1
    assert behind(scene) == []
    assert objective.late == late + 3, "what was counted is not counted again"
    assert scene.rules.delays.ages.longest_seconds > 30


def test_a_subscriber_that_does_not_read_or_acknowledge_is_named_with_the_reason() -> None:
    scene = Scene()
    scene.change(record("a"))
    slow, busy = scene.subscribe("slow"), scene.subscribe("busy")
    scene.pushes(slow)
    scene.group.subscribers[busy].in_flight = [1] * 64
    scene.outbox.crowded.add(slow.peer)
    scene.change(record("b"))
    scene.outbox.end_turn()
    scene.outbox.advance(0.01)
    scene.outbox.end_turn()
    scene.outbox.advance(1.0)
    assert sorted(behind(scene)) == [
        "it has not acknowledged 64 pushes",
        "its connection is full: it reads more slowly than its services change",
    ]
    scene.group.unsubscribe(slow)
    scene.group.unsubscribe(busy)
    assert behind(scene) == []


def test_the_time_to_a_receipt_is_without_the_time_for_which_the_client_kept_it() -> None:
    scene = Scene()
    scene.change(record("a"))
    client = scene.subscribe("c")
    scene.pushes(client)
    scene.outbox.advance(0.06)
    scene.change(record("a", b"y"))
    scene.pushes(client)
    scene.outbox.advance(0.06)
    receipts = scene.rules.delays.receipts
    scene.group.acknowledged(client, PushReceipt("s", Scope.DATA_CENTER, 2, 2), 0.05)
    assert math.isclose(receipts.total_seconds, 0.01, abs_tol=0.001)
    for kept in (None, math.nan, -9.0, 9.0):  # of an older client; and what no client should say
        scene.change(record("b", str(kept).encode()))
        scene.pushes(client)
        scene.outbox.advance(0.06)
        scene.group.acknowledged(client, PushReceipt("s", Scope.DATA_CENTER, scene.version, scene.version), kept)
    assert 0 <= receipts.total_seconds <= 0.01 + 3 * 0.07


@given(st.integers(0, 10_000), st.integers(1, 200))
def test_each_subscription_is_judged_as_a_twin_that_looks_at_all_of_them_would(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    delays, now = PushDelays(), 0.0
    group = Scene().group
    everybody = [Subscriber(ConnectedClient(a_peer(name, Role.CLIENT)), (0, 0), group) for name in "abcde"]
    since: dict[Subscriber, float] = {}
    told: set[Subscriber] = set()
    pushed = late = 0
    again_at = 0.0
    for _ in range(steps):
        now += rng.choice((0.1, 0.4, 3.0))
        one = rng.choice(everybody)
        match rng.choice(("behind", "behind", "caught up", "forget", "look", "look")):
            case "behind" if one not in since:
                since[one] = now
                delays.falls_behind(one, now)
            case "caught up" if one in since:
                if one not in told:
                    pushed += 1
                    late += now - since[one] > 0.5
                del since[one]
                told.discard(one)
                delays.caught_up(one, now)
            case "forget" if one in since:
                del since[one]
                told.discard(one)
                delays.forget(one)
            case "look":
                new = {one for one, at in since.items() if at < now - 0.5} - told
                told |= new
                found = len(told) if now >= again_at else len(new)
                again_at = now + LATE_AGAIN_SECONDS if now >= again_at else again_at
                pushed, late = pushed + found, late + found
                delays.look(now)
                assert set(delays.lagging()) == told
    assert (delays.objective.pushed, delays.objective.late) == (pushed, late)
