"""A session server without a lease learns newer views from data servers."""

from __future__ import annotations

from slotreeve.model.nodes import Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import GetNewerView, Heartbeat, LeaseGranted, View
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.newer_view import ANSWER_SECONDS
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.view_of_others import TURN_SECONDS

from tests.servers.core_scenes import META, SessionScene, node
from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver

BOTH = SlotTable(2, (Slot(0, "data-2", 2, ()),))
NEWER = View(1, 2, BOTH, [node("data-1"), node("data-2")], [node("session-2")])


def asked(scene: SessionScene) -> list[tuple[str, int]]:
    """The data servers that were asked and have not answered, and the revision that each was told."""
    found = [(request.peer, request.message) for request in scene.outbox.requests]
    return [(peer.node, message.revision) for peer, message in found if isinstance(message, GetNewerView)]


def without_a_lease() -> SessionScene:
    scene = SessionScene()
    scene.outbox.advance(TURN_SECONDS)
    return scene


def test_a_server_without_a_lease_takes_a_newer_view_and_goes_on_by_its_table() -> None:
    scene = without_a_lease()
    assert asked(scene) == [("data-1", 1)]
    scene.outbox.answer(NEWER, kind=GetNewerView)
    assert scene.core.membership.view == NEWER
    scene.core.leaders.opened(a_peer("data-2", Role.DATA))
    assert [scene.core.routes.leader_of(0)] == [(scene.core.routes.linked["data-2"], 2)]
    scene.outbox.advance(TURN_SECONDS)
    assert asked(scene) == [("data-2", 2)]


def test_the_data_servers_are_asked_in_turn_and_one_at_a_time() -> None:
    scene = without_a_lease()
    scene.core.leaders.opened(a_peer("data-2", Role.DATA))
    scene.outbox.advance(TURN_SECONDS)
    assert asked(scene) == [("data-1", 1)]
    scene.outbox.answer(None, TimeoutError(f"no answer in {ANSWER_SECONDS} s"), kind=GetNewerView)
    scene.outbox.advance(TURN_SECONDS)
    assert asked(scene) == [("data-2", 1)]
    scene.outbox.answer(Done(), kind=GetNewerView)
    scene.outbox.advance(TURN_SECONDS)
    assert asked(scene) == [("data-1", 1)]


def test_a_server_with_a_lease_asks_nobody() -> None:
    scene = SessionScene()
    scene.core.membership.opened(META)
    scene.outbox.end_turn()
    scene.outbox.answer(LeaseGranted(1, 3.0, None), kind=Heartbeat)
    scene.outbox.advance(TURN_SECONDS)
    assert asked(scene) == []


def test_an_older_view_or_one_of_a_lower_term_changes_nothing_and_nobody_is_followed_by_one() -> None:
    scene = without_a_lease()
    mine = scene.core.membership.view
    scene.core.membership.desk.messages[View](META, View(5, 3, mine.table, mine.data, mine.sessions))
    held = scene.core.membership.view
    for view in (View(5, 3, BOTH, [], []), View(4, 9, BOTH, [], [])):
        scene.core.membership.learn(view)
        assert scene.core.membership.view == held
    scene.core.membership.learn(View(6, 9, BOTH, [node("data-2")], []))
    assert scene.core.membership.view.revision == 9
    scene.core.membership.desk.messages[View](a_peer("meta-2", Role.META), View(6, 10, BOTH, [node("data-2")], []))
    assert scene.core.membership.view.revision == 10


def test_a_data_server_answers_with_its_view_only_where_it_is_newer() -> None:
    outbox, peer = RecordingOutbox(), Peer("session-1", Role.SESSION, "session-1@1")
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    core.membership.desk.messages[View](META, NEWER)
    assert deliver(outbox, core.desk, peer, GetNewerView(1)) == NEWER
    assert deliver(outbox, core.desk, peer, GetNewerView(2)) == Done()


def test_a_data_server_answers_the_leader_that_it_follows_too() -> None:
    outbox = RecordingOutbox()
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    core.membership.desk.messages[View](META, NEWER)
    assert deliver(outbox, core.leaders.desk, a_peer("data-2", Role.DATA), GetNewerView(1)) == NEWER
