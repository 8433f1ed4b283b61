"""The membership of a server: heartbeats, leaders, views."""

from __future__ import annotations

import pytest
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_protocol.live_settings import SETTINGS_KEY
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    Heartbeat,
    LeaderIs,
    LeaseGranted,
    Stopping,
    View,
)
from slotreeve_servers.node.membership import Holdings, Membership
from slotreeve_servers.node.outbox import Peer

from tests.servers.recording_outbox import RecordingOutbox, a_peer


class Member:
    """A core that writes down its views and grants."""

    def __init__(self) -> None:
        self.revisions: list[tuple[int, int]] = []
        self.grants: list[LeaseGranted] = []

    def view_changed(self, old: View, view: View) -> None:
        self.revisions.append((old.revision, view.revision))

    def holdings(self) -> Holdings:
        return Holdings([7])

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        self.grants.append(granted)


class MemberScene:
    """A member with two meta servers."""

    def __init__(self) -> None:
        self.outbox, self.member = RecordingOutbox(), Member()
        node = Node("data-1", Role.DATA, "data-1:1", "data-1@1")
        self.membership = Membership(self.outbox, node, 1.0, self.member)
        self.meta = {name: a_peer(name, Role.META) for name in ("meta-1", "meta-2")}
        self.membership.start()
        for peer in self.meta.values():
            self.membership.opened(peer)
        self.outbox.end_turn()

    def heartbeats(self) -> list[str]:
        """To which meta servers heartbeats are on their way; they are dropped."""
        asked = [r.peer.node for r in self.outbox.requests if isinstance(r.message, Heartbeat)]
        self.outbox.requests.clear()
        return asked

    def take(self, name: str, message: Message) -> None:
        self.membership.handlers.messages[type(message)](self.meta[name], message)
        self.outbox.end_turn()


def test_without_a_known_leader_every_meta_server_gets_a_heartbeat_then_only_the_leader() -> None:
    scene = MemberScene()
    heartbeat = scene.outbox.requests[0].message
    assert isinstance(heartbeat, Heartbeat)
    assert (heartbeat.unsettled, heartbeat.stopping) == ([7], Stopping.NO)
    scene.outbox.answer(LeaderIs(3, "meta-2", None))
    scene.heartbeats()
    scene.outbox.advance(1.0)
    assert scene.heartbeats() == ["meta-2"]
    scene.outbox.advance(3.0)
    assert scene.heartbeats() == ["meta-2"] * 3


def test_the_leader_is_looked_for_where_another_meta_server_names_it_and_an_older_name_changes_nothing() -> None:
    class Places:
        def __init__(self) -> None:
            self.found_at: list[tuple[str, str | None]] = []

        def found(self, name: str, moved_to: str | None) -> None:
            self.found_at.append((name, moved_to))

    scene = MemberScene()
    places = scene.membership.places = Places()
    scene.take("meta-1", LeaderIs(5, "meta-2", "b:9", is_moved=True))
    scene.take("meta-1", LeaderIs(4, "meta-1", "a:9", is_moved=True))
    scene.take("meta-1", LeaderIs(5, None, None))
    scene.take("meta-1", LeaderIs(5, "meta-2", "b:1"))
    assert places.found_at == [("meta-2", "b:9"), ("meta-2", None)]


def test_a_leader_of_a_lower_term_is_not_followed() -> None:
    scene = MemberScene()
    scene.take("meta-1", LeaderIs(5, "meta-2", None))
    scene.take("meta-1", LeaderIs(4, "meta-1", None))
    scene.heartbeats()
    scene.outbox.advance(1.0)
    assert scene.heartbeats() == ["meta-2"]


def test_whoever_has_committed_a_newer_view_is_followed_although_terms_began_anew() -> None:
    scene = MemberScene()
    scene.take("meta-1", View(5, 9, SlotTable(), [], []))
    scene.take("meta-2", View(1, 9, SlotTable(), [], []))
    assert scene.membership.leader is scene.meta["meta-1"]
    scene.take("meta-2", View(1, 10, SlotTable(), [], []))
    assert scene.membership.leader is scene.meta["meta-2"]
    assert scene.member.revisions == [(0, 9), (9, 10)]
    scene.take("meta-1", LeaderIs(2, "meta-1", None))
    assert scene.membership.leader is scene.meta["meta-1"]


def test_only_newer_views_are_taken_and_each_is_confirmed_by_a_heartbeat() -> None:
    scene = MemberScene()
    scene.heartbeats()
    for revision in (2, 1, 2, 3):
        scene.take("meta-1", View(1, revision, SlotTable(), [], []))
    assert scene.member.revisions == [(0, 2), (2, 3)]
    assert scene.heartbeats() == ["meta-1"] * 2


def test_a_leader_that_does_not_answer_or_is_lost_is_followed_no_more() -> None:
    scene = MemberScene()
    scene.take("meta-1", LeaderIs(1, "meta-1", None))
    scene.outbox.requests.clear()
    scene.outbox.advance(1.0)
    scene.outbox.answer(None, TimeoutError())
    assert scene.membership.leader is None
    scene.outbox.advance(1.0)
    assert scene.heartbeats() == ["meta-1", "meta-2"]
    scene.take("meta-1", LeaderIs(2, "meta-1", None))
    scene.membership.closed(scene.meta["meta-1"], "lost")
    scene.outbox.end_turn()
    assert scene.heartbeats()[-1] == "meta-2"


def test_a_grant_carries_the_view_the_right_to_leave_and_reaches_the_core() -> None:
    scene = MemberScene()
    scene.membership.announce_stop(Stopping.FOR_GOOD)
    scene.outbox.end_turn()
    granted = LeaseGranted(4, 5.0, View(4, 9, SlotTable(), [], []), 0, True)
    sent_at = scene.outbox.now()
    scene.outbox.requests = [r for r in scene.outbox.requests if r.peer.node == "meta-2"]
    scene.outbox.time += 0.4
    scene.outbox.answer(granted)
    assert scene.membership.may_leave
    assert scene.membership.granted_at == sent_at
    assert scene.membership.leader is scene.meta["meta-2"]
    assert scene.member.revisions == [(0, 9)]
    assert scene.member.grants == [granted]


def test_the_leader_says_how_often_heartbeats_are_sent_and_by_that_its_lease_is_reckoned() -> None:
    scene = MemberScene()
    scene.outbox.answer(LeaderIs(3, "meta-2", None))
    scene.heartbeats()
    scene.outbox.advance(1.0)
    scene.outbox.answer(LeaseGranted(3, 2.0, None, heartbeat_seconds=0.25), kind=Heartbeat)
    assert scene.membership.lease_seconds == pytest.approx(0.75)
    scene.heartbeats()
    scene.outbox.advance(0.7)
    assert (len(scene.heartbeats()), scene.membership.has_lease) == (2, True)
    scene.outbox.advance(0.1)
    assert not scene.membership.has_lease
    scene.outbox.advance(0.2)
    scene.outbox.answer(LeaseGranted(3, 60.0, None, heartbeat_seconds=20.0), kind=Heartbeat)
    scene.heartbeats()
    scene.outbox.advance(19.0)
    assert (scene.heartbeats(), scene.membership.has_lease) == ([], True)
    scene.outbox.advance(1.0)
    scene.outbox.answer(LeaseGranted(3, 60.0, None), kind=Heartbeat)
    assert scene.membership.lease_seconds == pytest.approx(60.0), "an older leader does not say it"


def test_a_server_that_leaves_sends_no_heartbeat_behind_that() -> None:
    scene = MemberScene()
    scene.outbox.answer(LeaderIs(3, "meta-2", None))
    scene.heartbeats()
    scene.membership.leave()
    scene.take("meta-2", View(3, 8, SlotTable(), [], []))
    scene.outbox.advance(5.0)
    assert (scene.heartbeats(), scene.member.revisions) == ([], [(0, 8)])


def test_the_late_end_of_an_older_connection_to_a_meta_server_does_not_end_the_newer_one() -> None:
    scene = MemberScene()
    scene.take("meta-1", LeaderIs(1, "meta-1", None))
    newer = a_peer("meta-1", Role.META)
    scene.membership.opened(newer)
    scene.membership.closed(scene.meta["meta-1"], "lost")
    scene.outbox.end_turn()
    scene.heartbeats()
    scene.outbox.advance(1.0)
    assert "meta-1" in scene.heartbeats()


class LiveTable:
    """Writes down the tables that it is given."""

    def __init__(self) -> None:
        self.version = 0
        self.taken: list[tuple[bytes | None, int]] = []

    def take(self, value: bytes | None, version: int) -> None:
        self.version = version
        self.taken.append((value, version))


def test_live_settings_are_read_where_the_leader_names_another_version_and_kept_where_it_names_none() -> None:
    scene = MemberScene()
    table = scene.membership.settings = LiveTable()

    def granted(version: int | None) -> bool:
        """Whether the table is asked for after this grant."""
        scene.outbox.advance(1.0)
        scene.outbox.answer(LeaseGranted(3, 5.0, None, settings=version), kind=Heartbeat)
        scene.outbox.requests = [r for r in scene.outbox.requests if not isinstance(r.message, Heartbeat)]
        return any(isinstance(r.message, GetConfigs) for r in scene.outbox.requests)

    assert not granted(None)
    assert not granted(0)
    assert granted(4)
    scene.outbox.answer(LeaderIs(4, "meta-2", None), kind=GetConfigs)
    assert granted(4)
    entries = [ConfigEntry(SETTINGS_KEY, b"{}", 4), ConfigEntry(f"{SETTINGS_KEY}.x", b"no", 9)]
    scene.outbox.answer(Configs(entries), kind=GetConfigs)
    assert table.taken == [(b"{}", 4)]
    assert not granted(4)
    assert not granted(None)
    assert granted(0)  # the meta state was lost
    scene.outbox.answer(Configs([]), kind=GetConfigs)
    assert table.taken[1:] == [(None, 0)]
