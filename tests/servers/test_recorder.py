"""The flight recorder of a meta server: what it remembers of leaderships."""

from __future__ import annotations

from slotreeve.ports import Leadership
from slotreeve_protocol.meta_messages import LeaderChange
from slotreeve_servers.meta.members.recorder import KEPT_CHANGES, LeadershipRecorder

from tests.servers.recording_outbox import RecordingOutbox
from tests.servers.scripted_election import ScriptedElection


class Scene:
    """A recorder beside an election that the test sets."""

    def __init__(self) -> None:
        self.outbox = RecordingOutbox()
        self.election = ScriptedElection()
        self.recorder = LeadershipRecorder(self.outbox, "meta-1", self.election)

    def set(self, leader: str | None, term: int, cause: str, lease: float | None = None) -> None:
        until = 0.0 if lease is None else self.outbox.now() + lease
        self.election.current = Leadership(leader, term, lease is not None, until, cause)
        self.recorder.record(self.election.current)

    @property
    def changes(self) -> list[LeaderChange]:
        return self.recorder.history().changes


def test_every_change_is_kept_in_order_with_its_time_term_and_cause() -> None:
    scene = Scene()
    began = scene.outbox.wall_ms()
    scene.set("meta-2", 3, "elected")
    scene.outbox.advance(2.0)
    scene.set(None, 3, "connection lost")
    assert scene.recorder.history().node == "meta-1"
    assert scene.changes == [
        LeaderChange(began, "meta-2", 3, "elected"),
        LeaderChange(began + 2000, None, 3, "connection lost"),
    ]


def test_the_least_margin_of_this_servers_own_lease_is_kept() -> None:
    scene = Scene()
    scene.set("meta-1", 4, "elected", lease=0.5)
    scene.outbox.advance(0.35)  # sampled at 0.5, 0.4, 0.3 and 0.2 seconds before the end
    scene.election.current = Leadership("meta-1", 4, True, scene.outbox.now() + 0.5, "elected")
    scene.outbox.advance(0.2)
    scene.set(None, 4, "quorum lost")
    scene.outbox.advance(5.0)
    led, lost = scene.changes
    assert led.least_margin_seconds is not None
    assert abs(led.least_margin_seconds - 0.2) < 1e-6
    assert lost.least_margin_seconds is None


def test_a_server_that_needs_no_lease_has_no_margin() -> None:
    scene = Scene()
    scene.set("meta-1", 1, "elected", lease=float("inf"))
    scene.outbox.advance(1.0)
    assert scene.changes[0].least_margin_seconds is None


def test_the_oldest_changes_are_forgotten() -> None:
    scene = Scene()
    for term in range(KEPT_CHANGES + 10):
        scene.set("meta-2", term, "elected")
    assert [change.term for change in scene.changes] == list(range(10, KEPT_CHANGES + 10))


def test_a_closed_recorder_takes_no_more_samples() -> None:
    scene = Scene()
    scene.set("meta-1", 1, "elected", lease=10.0)
    scene.recorder.close()
    scene.outbox.advance(5.0)
    assert scene.changes[0].least_margin_seconds == 10.0
