"""Servers tell each other the revision of their views, and whoever is behind asks the sender."""

from __future__ import annotations

from slotreeve.model.nodes import Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import GetNewerView, View
from slotreeve_protocol.slot_messages import Access, Answers, Confirm, SlotAnswer, SlotEpoch
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.newer_view import ANSWER_SECONDS
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.isolation import LOOK_SECONDS

from tests.servers.core_scenes import META, SessionScene, node
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver

BOTH = SlotTable(2, (Slot(0, "data-2", 2, ()),))
NEWER = View(1, 2, BOTH, [node("data-1"), node("data-2")], [node("session-2")])


def questions(outbox: RecordingOutbox, kind: type[Message]) -> list[tuple[str, Message]]:
    """What was asked and not answered yet."""
    return [(request.peer.node, request.message) for request in outbox.requests if isinstance(request.message, kind)]


def answer(scene: SessionScene, revision: int) -> None:
    """The data server that was asked first has a view of this revision."""
    scene.outbox.answer(Answers([SlotAnswer(0, Access.ACCEPT, 1)], revision), kind=Confirm)


def asking() -> SessionScene:
    scene = SessionScene()
    scene.outbox.advance(LOOK_SECONDS)
    return scene


def test_a_data_server_that_refuses_because_its_table_is_newer_is_asked_for_it() -> None:
    scene = asking()
    scene.outbox.answer(Answers([SlotAnswer(0, Access.MOVED, 0)], 2), kind=Confirm)
    assert [message for _, message in questions(scene.outbox, GetNewerView)] == [GetNewerView(1)]


def test_a_session_server_tells_every_data_server_the_revision_of_its_view() -> None:
    scene = asking()
    assert questions(scene.outbox, Confirm) == [("data-1", Confirm([SlotEpoch(0, 1)], 0, 1))]
    scene.core.leaders.opened(a_peer("data-2", Role.DATA))
    scene.outbox.advance(LOOK_SECONDS)
    assert questions(scene.outbox, Confirm)[1:] == [("data-2", Confirm([], 0, 1))]


def test_a_session_server_that_is_behind_asks_the_data_server_and_goes_on_by_its_table() -> None:
    scene = asking()
    answer(scene, revision=1)
    assert questions(scene.outbox, GetNewerView) == []
    scene.outbox.advance(LOOK_SECONDS)
    answer(scene, revision=2)
    assert questions(scene.outbox, GetNewerView) == [("data-1", GetNewerView(1))]
    scene.outbox.answer(NEWER, kind=GetNewerView)
    assert scene.core.membership.view == NEWER
    scene.core.leaders.opened(a_peer("data-2", Role.DATA))
    assert [scene.core.routes.leader_of(0)] == [(scene.core.routes.linked["data-2"], 2)]


def test_one_member_is_asked_at_a_time_and_the_next_one_where_it_does_not_answer() -> None:
    scene = asking()
    scene.core.leaders.opened(a_peer("data-2", Role.DATA))
    answer(scene, revision=2)
    scene.outbox.advance(LOOK_SECONDS)
    assert [name for name, _ in questions(scene.outbox, Confirm)] == ["data-1", "data-2"]
    answer(scene, revision=2)
    answer(scene, revision=2)
    assert [name for name, _ in questions(scene.outbox, GetNewerView)] == ["data-1"]
    scene.outbox.answer(None, TimeoutError(f"no answer in {ANSWER_SECONDS} s"), kind=GetNewerView)
    scene.outbox.advance(LOOK_SECONDS)
    answer(scene, revision=1)
    answer(scene, revision=2)
    assert [name for name, _ in questions(scene.outbox, GetNewerView)] == ["data-2"]


def test_a_data_server_that_is_behind_asks_the_session_server() -> None:
    outbox, peer = RecordingOutbox(), Peer("session-1", Role.SESSION, "session-1@1")
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    assert deliver(outbox, core.handlers, peer, Confirm([SlotEpoch(0, 2)], 0, 2)) == Answers(
        [SlotAnswer(0, Access.MOVED, 0)]
    )
    assert questions(outbox, GetNewerView) == [("session-1", GetNewerView(0))]
    outbox.answer(NEWER, kind=GetNewerView)
    assert core.membership.view == NEWER
    assert deliver(outbox, core.handlers, peer, Confirm([], 0, 1)) == Answers([], 2)


def test_a_data_server_that_is_behind_asks_the_leader_that_it_follows() -> None:
    outbox, leader = RecordingOutbox(), a_peer("data-2", Role.DATA)
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    deliver(outbox, core.leaders.handlers, leader, Confirm([SlotEpoch(0, 2)], 2, 2))
    assert questions(outbox, GetNewerView) == [("data-2", GetNewerView(0))]


def test_a_session_server_that_has_a_newer_view_gives_it_to_a_data_server() -> None:
    scene = asking()
    scene.core.membership.learn(NEWER)
    assert deliver(scene.outbox, scene.core.leaders.handlers, scene.data, GetNewerView(1)) == NEWER


def test_an_older_view_or_one_of_a_lower_term_changes_nothing_and_nobody_is_followed_by_one() -> None:
    scene = asking()
    mine = scene.core.membership.view
    scene.core.membership.handlers.messages[View](META, View(5, 3, mine.table, mine.data, mine.sessions))
    held = scene.core.membership.view
    for view in (View(5, 3, BOTH, [], []), View(4, 9, BOTH, [], [])):
        scene.core.membership.learn(view)
        assert scene.core.membership.view == held
    scene.core.membership.learn(View(6, 9, BOTH, [node("data-2")], []))
    assert scene.core.membership.view.revision == 9
    scene.core.membership.handlers.messages[View](a_peer("meta-2", Role.META), View(6, 10, BOTH, [node("data-2")], []))
    assert scene.core.membership.view.revision == 10


def test_a_data_server_answers_with_its_view_only_where_it_is_newer() -> None:
    outbox, peer = RecordingOutbox(), Peer("session-1", Role.SESSION, "session-1@1")
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    core.membership.handlers.messages[View](META, NEWER)
    assert deliver(outbox, core.handlers, peer, GetNewerView(1)) == NEWER
    assert deliver(outbox, core.handlers, peer, GetNewerView(2)) == Done()


def test_a_data_server_answers_the_leader_that_it_follows_too() -> None:
    outbox = RecordingOutbox()
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    core.membership.handlers.messages[View](META, NEWER)
    assert deliver(outbox, core.leaders.handlers, a_peer("data-2", Role.DATA), GetNewerView(1)) == NEWER
