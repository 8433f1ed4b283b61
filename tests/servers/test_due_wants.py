"""Wants of clients that wait for the end of a turn: a herd of subscribers holds up nobody, and no order changes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.nodes import Role
from slotreeve_protocol.client_messages import NotPushed, Scope, Subscribe, Unsubscribe, Want
from slotreeve_servers.node.paced_work import AGAIN_SECONDS, PATIENT_SECONDS, TURN_SECONDS
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.limits import ClientLimits
from slotreeve_servers.session.push.due_wants import MOST_WAITING, WANTS_AT_ONCE, DueWants
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer

FOLLOW_SECONDS = PATIENT_SECONDS / 2


class Scene:
    """A queue of wants; each takes half of a busy turn's time. ``log``: what was carried out, client and service."""

    def __init__(self) -> None:
        self.outbox, self.log = RecordingOutbox(), list[tuple[str, str]]()
        self.due = DueWants(self.outbox, self.subscribe, self.unsubscribe, self.slot, ClientLimits(SessionSettings()))
        self.clients = [ConnectedClient(a_peer(name, Role.CLIENT)) for name in "abc"]

    def slot(self, data_info_id: str) -> int:
        if data_info_id == "bad":
            raise ModelError("'bad' is no data info id")
        return len(data_info_id)

    def subscribe(self, client: ConnectedClient, want: Want, slot: int) -> None:
        assert slot == len(want.data_info_id)
        self._follow(client, want.data_info_id)

    def unsubscribe(self, client: ConnectedClient, data_info_id: str, scopes: Iterable[Scope]) -> None:
        assert tuple(scopes) == (Scope.ZONE,)
        self._follow(client, f"not {data_info_id}")

    def _follow(self, client: ConnectedClient, name: str) -> None:
        self.outbox.time += FOLLOW_SECONDS
        self.log.append((client.peer.node, name))
        if name == "fails":
            raise OSError("the disk is full")

    def want(self, client: int, name: str) -> None:
        self.due.add(self.clients[client], Subscribe([Want(name, Scope.DATA_CENTER)]))

    def turns(self) -> int:
        """Turns of the event loop until nothing waits."""
        count = 0
        while self.outbox._turn:
            count += 1
            self.outbox.end_one_turn()
        return count


def test_a_single_want_is_carried_out_at_once() -> None:
    scene = Scene()
    scene.want(0, "s")
    assert scene.log == [("a", "s")]
    assert scene.turns() == 0


def test_a_want_too_many_is_refused_and_the_others_of_its_message_are_not() -> None:
    scene = Scene()
    client = scene.clients[0]
    client.watched["first"] = None
    scene.due = DueWants(
        *(scene.outbox, scene.subscribe, scene.unsubscribe, scene.slot),
        ClientLimits(SessionSettings(most_subscriptions=1)),
    )
    scene.due.add(client, Subscribe([Want(name, Scope.DATA_CENTER) for name in ("second", "first")]))
    assert scene.log == [("a", "first")]
    (refused,) = scene.outbox.messages(NotPushed, client.peer)
    assert isinstance(refused, NotPushed)
    assert refused.data_info_id == "second"


def test_while_more_is_unread_wants_wait_and_take_little_of_each_turn() -> None:
    scene = Scene()
    scene.outbox.has_unread = True
    for number in range(30):
        scene.want(number % 3, f"s{number}")
    assert scene.log == []
    began = scene.outbox.time
    scene.outbox.end_one_turn()
    assert scene.outbox.time - began <= PATIENT_SECONDS + 2 * FOLLOW_SECONDS
    assert 0 < len(scene.log) < 5
    scene.outbox.has_unread = False
    began = scene.outbox.time
    scene.outbox.end_one_turn()
    assert TURN_SECONDS <= scene.outbox.time - began <= TURN_SECONDS + 2 * FOLLOW_SECONDS
    scene.turns()
    assert len(scene.log) == 30


def test_a_client_that_sends_without_end_makes_nobody_wait_and_is_disconnected_before_its_messages_pile_up() -> None:
    scene = Scene()
    scene.outbox.has_unread = True
    wants = [Want(f"s{number}", Scope.DATA_CENTER) for number in range(MOST_WAITING // 2)]
    for _ in range(2):
        scene.due.add(scene.clients[0], Subscribe(wants))
    for _ in range(1_000):
        scene.due.add(scene.clients[0], Subscribe([]))
    assert (scene.log, scene.outbox.effects) == ([], [])
    scene.want(1, "other")
    for _ in range(2):
        scene.outbox.end_one_turn()
    assert ("b", "other") in scene.log
    for _ in range(len(scene.log)):
        scene.want(0, "more")
    (closed,) = scene.outbox.effects
    why = f"more than {MOST_WAITING} subscriptions wait; ask for fewer at a time"
    assert (closed.kind, closed.peer, closed.what) == ("closed", scene.clients[0].peer, why)
    scene.log.clear()
    scene.turns()
    assert scene.log == []


def test_a_client_may_end_more_subscriptions_one_after_the_other_than_may_wait() -> None:
    scene = Scene()
    scene.outbox.has_unread = True
    scene.want(1, "other")
    for number in range(MOST_WAITING + 10):
        scene.due.add(scene.clients[0], Unsubscribe(f"s{number}", Scope.ZONE))
    assert scene.outbox.effects == []
    assert len(scene.log) == MOST_WAITING + 10
    scene.want(0, "s1")
    scene.due.add(scene.clients[0], Unsubscribe("s1", Scope.ZONE))
    scene.outbox.end_one_turn()
    for number in range(2, WANTS_AT_ONCE):
        scene.due.add(scene.clients[0], Unsubscribe(f"s{number}", Scope.ZONE))
    assert scene.turns() < WANTS_AT_ONCE / 2, "ends that wait are carried out many in a step"
    assert [name for client, name in scene.log if client == "a"][-1] == f"not s{WANTS_AT_ONCE - 1}"
    scene.want(0, "s1")
    scene.due.add(scene.clients[0], Unsubscribe("s1", Scope.ZONE))
    scene.turns()
    assert [name for client, name in scene.log if client == "a"][-2:] == ["s1", "not s1"], "their order stays"


def test_a_message_with_very_many_wants_takes_no_long_turn_and_others_get_theirs_in_between() -> None:
    scene = Scene()
    names = [f"s{number}" for number in range(3 * WANTS_AT_ONCE + 1)]
    scene.due.add(scene.clients[0], Subscribe([Want(name, Scope.DATA_CENTER) for name in names]))
    assert scene.log == []
    scene.want(1, "other")
    scene.turns()
    assert scene.log.index(("b", "other")) == WANTS_AT_ONCE
    assert [name for client, name in scene.log if client == "a"] == names


def test_the_wants_of_a_client_that_has_gone_are_dropped() -> None:
    scene = Scene()
    scene.outbox.has_unread = True
    scene.want(0, "s")
    scene.want(1, "s")
    scene.due.forget(scene.clients[0])
    scene.turns()
    assert scene.log == [("b", "s")]


def test_a_want_that_fails_holds_up_no_other() -> None:
    scene = Scene()
    scene.outbox.has_unread = True
    for name in ("fails", "next"):
        scene.want(0, name)
    scene.want(1, "other")
    for _ in range(3):
        try:
            scene.outbox.end_one_turn()
        except OSError:
            scene.log.append(("", "failed"))
    scene.outbox.advance(AGAIN_SECONDS)
    assert scene.log == [("a", "fails"), ("", "failed"), ("b", "other"), ("a", "next")]


@settings(derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=300))
def test_the_wants_of_each_client_are_carried_out_once_and_in_their_order(
    steps: list[tuple[int, bool, bool]],
) -> None:
    scene, sent = Scene(), list[tuple[str, str]]()
    for number, (client, is_turns_end, has_unread) in enumerate(steps):
        scene.outbox.has_unread = has_unread
        if number % 5:
            scene.want(client, f"s{number}")
            sent.append(("abc"[client], f"s{number}"))
        else:
            scene.due.add(scene.clients[client], Unsubscribe(f"s{number}", Scope.ZONE))
            sent.append(("abc"[client], f"not s{number}"))
        if is_turns_end:
            scene.outbox.end_one_turn()
    scene.turns()
    for name in "abc":
        assert [entry for entry in scene.log if entry[0] == name] == [entry for entry in sent if entry[0] == name]


def test_a_name_that_no_service_can_have_is_reported_and_the_others_are_subscribed_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    wants = [Want(name, Scope.DATA_CENTER) for name in ("first", "bad", "last", "bad")]
    scene.due.add(scene.clients[0], Subscribe(wants))
    assert scene.log == [("a", "first"), ("a", "last")]
    told = [message for effect in scene.outbox.effects if isinstance(message := effect.what, NotPushed)]
    assert [(message.data_info_id, message.scope, message.code) for message in told] == [
        ("bad", Scope.DATA_CENTER, "SR120"),
        ("bad", Scope.DATA_CENTER, "SR120"),
    ]
    assert "'bad' is no data info id" in told[0].reason
    assert "2 subscriptions of a are refused; the first: 'bad' is no data info id" in caplog.text
    assert len(caplog.records) == 1


def test_of_a_client_whose_wants_have_waited_nothing_is_kept_once_it_has_gone() -> None:
    scene = Scene()
    client = ConnectedClient(a_peer("d", Role.CLIENT))
    scene.clients.append(client)
    scene.outbox.has_unread = True
    for number in range(3):
        scene.want(3, f"s{number}")
    scene.turns()
    scene.want(3, "last")
    scene.due.forget(client)
    scene.turns()
    assert len(scene.log) == 3
    assert not scene.due._numbers
