"""The interests of session servers in services of a slot leader, and the changes that it announces."""

from __future__ import annotations

import pytest
from slotreeve.errors import ConnectionLost, RequestTimeout
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.slot_messages import (
    Access,
    Changed,
    Confirm,
    DeclareInterest,
    Known,
    SlotInterest,
    SlotWrite,
)
from slotreeve_servers.data.announcing.changes import MOST_TRANSFERS
from slotreeve_servers.session.push.interests import parts_of

from tests.servers.data_scene import SESSION_1, SESSION_2, Scene, record


def test_an_interest_in_a_compared_slot_is_answered_with_the_whole_service_and_then_with_deltas() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.slot.compared.add(SESSION_1.process_id)
    answer = scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    assert answer.access is Access.ACCEPT
    assert scene.changed() == [("session-1", 0, ["r1"], [])]
    before = scene.slot.tracked["s"].version
    scene.put(record("r2"))
    scene.store(scene.slot, SlotWrite(0, 1, [], [], [("s", "r1")]))
    assert scene.changed() == [("session-1", before, ["r2"], ["r1"])]


def compared_scene() -> tuple[Scene, int]:
    """session-1 was compared with; and the digest of the service s, which has one record."""
    scene = Scene()
    scene.put(record("r1"))
    scene.slot.compared.add(SESSION_1.process_id)
    scene.slot.track("s")
    return scene, scene.slot.hashed("s").digest


def test_a_session_server_that_knows_the_content_gets_only_its_version() -> None:
    scene, digest = compared_scene()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 5, digest)], []))
    assert scene.changed() == [("session-1", 5, [], [])]
    version = scene.slot.tracked["s"].version
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", version, digest)], []))
    assert scene.changed() == []


def test_what_a_session_server_said_last_of_its_copy_counts() -> None:
    scene, digest = compared_scene()
    scene.outbox.turn_steps = 1
    for known in (Known("t", 0, 0), Known("s", 5, digest), Known("s", 0, 0)):
        scene.interests.declare(SESSION_1, SlotInterest(0, 1, [known], []))
    assert ("session-1", 0, ["r1"], []) in scene.changed(), "its copy was lost meanwhile"


def test_an_interest_waits_until_its_session_server_was_compared_with() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.put(record("r2"))
    assert scene.changed() == []
    scene.interests.announce(scene.slot, {SESSION_1.process_id})
    assert scene.changed() == [("session-1", 0, ["r1", "r2"], [])]


def test_ended_interests_are_forgotten() -> None:
    scene = Scene()
    scene.slot.compared |= {SESSION_1.process_id, SESSION_2.process_id}
    for peer in (SESSION_1, SESSION_2):
        scene.interests.declare(peer, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.changed()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [], ["s"]))
    scene.put(record("r1"))
    assert [to for to, *_ in scene.changed()] == ["session-2"]
    scene.interests.closed(SESSION_2)
    assert scene.slot.tracked == {}


def test_an_interest_under_another_epoch_or_in_another_servers_slot_is_refused() -> None:
    scene = Scene()
    assert scene.interests.declare(SESSION_1, SlotInterest(0, 2, [Known("s", 0, 0)], [])).access is Access.MISMATCH
    assert scene.interests.declare(SESSION_1, SlotInterest(7, 1, [Known("s", 0, 0)], [])).access is Access.MOVED
    assert scene.slot.tracked == {}


def test_changes_are_cut_into_messages_of_bounded_bytes() -> None:
    scene = Scene()
    scene.outbox.part_bytes = 2_000
    scene.slot.compared.add(SESSION_1.process_id)
    for number in range(5):
        scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(f"s{number}", 0, 0)], []))
    scene.changed()
    scene.put(*[record(f"r0-{i}", service="s0") for i in range(100)])
    for number in range(1, 5):
        scene.put(record(f"r{number}", service=f"s{number}"))
    scene.outbox.end_turn()
    messages = [effect.what for effect in scene.outbox.take("sent") if isinstance(effect.what, Changed)]
    assert all(len(encode_message(message)) < 2_500 for message in messages)
    copies = {f"s{number}": DatumCopy() for number in range(5)}
    for change in [change for message in messages for change in message.changes]:
        copy = copies[change.data_info_id]
        copy.version = max(copy.version, change.from_version)
        if change.more:
            copy.gather(change)
        else:
            assert copy.apply(change) is not None
    assert [len(copy.records) for copy in copies.values()] == [100, 1, 1, 1, 1]
    assert len(messages) > 3
    assert scene.changes.sent == 1 + len(messages)


@pytest.mark.parametrize(("services", "records"), [(300, 1), (40, 30)], ids=["small services", "large services"])
def test_very_many_whole_services_do_not_fill_the_queue_of_a_session_server(
    monkeypatch: pytest.MonkeyPatch, services: int, records: int
) -> None:
    monkeypatch.setattr("slotreeve_servers.data.announcing.changes.WHOLE_BYTES", 1_000)
    monkeypatch.setattr("slotreeve_servers.data.announcing.changes.MOST_TRANSFERS", 3)
    scene = Scene()
    scene.outbox.part_bytes = 1_000
    scene.slot.compared.add(SESSION_1.process_id)
    names = [f"s{number}" for number in range(services)]
    scene.put(*[record(f"{name}-{n}", service=name) for name in names for n in range(records)])
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(name, 0, 0) for name in names], []))
    copies = {name: DatumCopy() for name in names}
    for round_ in range(1_000):
        scene.outbox.end_turn()
        changed = names[round_ % services]
        scene.put(record(f"{changed}-new{round_}", service=changed))
        scene.outbox.end_turn()
        sent = [effect.what for effect in scene.outbox.take("sent", "asked") if isinstance(effect.what, Changed)]
        assert sum(len(encode_message(message)) for message in sent) < 9_000
        for change in [change for message in sent for change in message.changes]:
            copy = copies[change.data_info_id]
            fit = copy.fit(change)
            assert fit is not Fit.GAP
            if fit is Fit.PART:
                copy.gather(change)
            elif fit is Fit.NEXT:
                assert copy.apply(change) is not None
        if not scene.outbox.requests:
            break
        request = scene.outbox.requests.pop(0)
        request.answered(Done(), None)
    assert not scene.outbox.requests
    assert all(copy.records == scene.slot.store.services[name] for name, copy in copies.items())


class Receiver:
    """A session server that applies what the leader sends, and answers each part when the test says so."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.copy, self.gaps = scene, DatumCopy(), 0

    def take(self) -> None:
        """Apply all that was sent, in order."""
        for effect in self.scene.outbox.take("sent", "asked"):
            if isinstance(effect.what, Confirm):
                continue
            assert isinstance(effect.what, Changed)
            for change in effect.what.changes:
                fit = self.copy.fit(change)
                if fit is Fit.PART:
                    self.copy.gather(change)
                elif fit is Fit.NEXT:
                    self.copy.apply(change)
                elif fit is Fit.GAP:
                    self.gaps += 1

    def holds_all(self) -> bool:
        return self.copy.records == self.scene.slot.store.services["s"]


def large_service(scene: Scene) -> None:
    """A service of about ten parts, with an interest in it."""
    scene.outbox.part_bytes = 1_000
    scene.slot.compared.add(SESSION_1.process_id)
    scene.put(*[record(f"r{i}") for i in range(130)])
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.outbox.end_turn()


def test_a_large_service_goes_to_a_session_server_part_by_part_and_its_changes_at_once() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    rounds = 0
    while scene.outbox.requests:
        assert all(len(encode_message(request.message)) < 1_500 for request in scene.outbox.requests)
        receiver.take()
        scene.put(record(f"new{rounds}"), record(f"r{rounds}", 2).tombstone())
        scene.outbox.end_turn()
        receiver.take()
        scene.outbox.answer(Done())
        rounds += 1
    receiver.take()
    assert rounds > 5
    assert receiver.holds_all()
    assert receiver.gaps == 0


def test_a_session_server_that_declares_again_while_the_parts_arrive_gets_them_once() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    receiver.take()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.outbox.end_turn()
    assert len(scene.outbox.requests) == 1
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    receiver.take()
    assert receiver.holds_all()
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.outbox.end_turn()
    assert len(scene.outbox.requests) == 1


def test_a_part_that_is_not_answered_or_not_taken_is_not_the_end() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    scene.outbox.answer(None, RequestTimeout("late"))
    scene.outbox.unreachable.add(SESSION_1)
    scene.outbox.answer(Done())
    assert scene.outbox.requests == []
    scene.outbox.unreachable.clear()
    scene.outbox.advance(1.0)
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    receiver.take()
    assert receiver.holds_all()


def test_the_parts_end_with_the_connection() -> None:
    scene = Scene()
    large_service(scene)
    scene.changes.forget(SESSION_1)
    scene.outbox.answer(None, ConnectionLost("gone"))
    scene.outbox.advance(10.0)
    assert scene.outbox.requests == []


def test_nothing_is_announced_to_a_session_server_whose_connection_has_ended() -> None:
    scene = Scene()
    scene.slot.compared.add(SESSION_1.process_id)
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.changes.forget(SESSION_1)
    assert scene.changed() == []


@pytest.mark.parametrize("letter", ["x", "\U0001f310"])
def test_interests_in_very_long_names_go_out_in_messages_of_bounded_size(letter: str) -> None:
    names = [f"{number:04}{letter * 1_900}" for number in range(300)]
    whole = [
        SlotInterest(0, 3, [Known(name, 0, 0) for name in names[:200]], names[200:]),
        SlotInterest(1, 4, [], ["a"]),
    ]
    parts = list(parts_of(whole, 100_000))
    assert len(parts) > 10
    assert max(len(encode_message(DeclareInterest(part))) for part in parts) < 120_000
    assert [known.data_info_id for part in parts for one in part for known in one.wanted] == names[:200]
    assert [name for part in parts for one in part for name in one.unwanted] == [*names[200:], "a"]
    assert {(one.slot, one.leader_epoch) for part in parts for one in part} == {(0, 3), (1, 4)}


def test_changes_of_one_turn_are_as_old_as_the_oldest_of_them() -> None:
    scene = Scene()
    scene.slot.compared.add(SESSION_1.process_id)
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    scene.changed()
    for register_id, waited_us in (("r1", 2_000_000), ("r2", 10_000)):
        touched = scene.slot.apply(SlotWrite(0, 1, [record(register_id)], [], []), scene.outbox.now())
        scene.changes.changed(scene.slot, touched, waited_us)
    scene.outbox.end_turn()
    sent = [effect.what for effect in scene.outbox.take("sent") if isinstance(effect.what, Changed)]
    assert [change.waited_us for message in sent for change in message.changes] == [2_000_000]


def test_nothing_of_a_slot_that_does_not_serve_is_sent_although_the_session_server_was_compared() -> None:
    scene = Scene()
    scene.put(record("r1"))
    scene.slot.compared.add(SESSION_1.process_id)
    scene.slot.serving = False
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    assert scene.changed() == []
    scene.slot.serve()
    scene.interests.announce(scene.slot, {SESSION_1.process_id})
    assert scene.changed() == [("session-1", 0, ["r1"], [])]


def test_what_a_slot_holds_that_ceases_to_serve_in_this_turn_is_not_announced() -> None:
    scene = Scene()
    scene.slot.compared.add(SESSION_1.process_id)
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known("s", 0, 0)], []))
    assert scene.changed() == [("session-1", 0, [], [])]
    scene.put(record("r1"))
    scene.slot.serving = False
    assert scene.changed() == []


def test_large_services_of_which_more_are_wanted_than_are_sent_at_once_all_come() -> None:
    scene = Scene()
    scene.outbox.part_bytes = 1_000
    scene.slot.compared.add(SESSION_1.process_id)
    names = [f"s{number}" for number in range(MOST_TRANSFERS + 4)]
    scene.put(*[record(f"{name}-{n}", service=name) for name in names for n in range(30)])
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(name, 0, 0) for name in names], []))
    copies = {name: DatumCopy() for name in names}
    scene.outbox.end_turn()
    while scene.outbox.requests:
        for message in [effect.what for effect in scene.outbox.take("sent", "asked")]:
            for change in message.changes if isinstance(message, Changed) else ():
                copy = copies[change.data_info_id]
                if copy.fit(change) is Fit.PART:
                    copy.gather(change)
                else:
                    assert copy.apply(change) is not None
        scene.outbox.requests.pop(0).answered(Done(), None)
        scene.outbox.end_turn()
    assert [name for name, copy in copies.items() if copy.records != scene.slot.store.services[name]] == []


def test_after_each_proof_there_is_room_for_as_many_services_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotreeve_servers.data.announcing.changes.WHOLE_BYTES", 2_000)
    scene = Scene()
    scene.slot.compared.add(SESSION_1.process_id)
    names = [f"s{number:03}" for number in range(200)]
    scene.put(*[record(f"{name}-1", service=name) for name in names])
    scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(name, 0, 0) for name in names], []))
    rounds = list[int]()
    while sum(rounds) < len(names):
        scene.outbox.end_turn()
        sent = [effect.what for effect in scene.outbox.take("sent") if isinstance(effect.what, Changed)]
        rounds.append(sum(len(message.changes) for message in sent))
        assert rounds[-1], "something is left, and there is room"
        if any(isinstance(request.message, Confirm) for request in scene.outbox.requests):
            scene.outbox.answer(Done(), kind=Confirm)
    assert len(rounds) > 2
    assert 2 * min(rounds[:-1]) > max(rounds[:-1]), "about as many after each proof"


def test_a_session_server_whose_subscribers_change_for_ever_leaves_nothing_behind() -> None:
    scene = Scene()
    scene.slot.compared.add(SESSION_1.process_id)
    for number in range(100):
        scene.interests.declare(SESSION_1, SlotInterest(0, 1, [Known(f"s{number}", 0, 0)], []))
        scene.changed()
        scene.interests.declare(SESSION_1, SlotInterest(0, 1, [], [f"s{number}"]))
    assert scene.slot.tracked == {}
    assert not scene.slot.watched.get(SESSION_1)


def test_a_large_service_is_sent_anew_where_its_slot_is_led_anew_while_its_parts_are_on_their_way() -> None:
    scene = Scene()
    receiver = Receiver(scene)
    large_service(scene)
    receiver.take()
    scene.slots.apply(SlotTable(2, (Slot(0, "data-1", 2, ("data-2",)),)))
    scene.put(record("found by a comparison"))
    scene.slot.serve()
    scene.slot.compared.add(SESSION_1.process_id)
    scene.interests.declare(SESSION_1, SlotInterest(0, 2, [Known("s", 0, 0)], []))
    scene.outbox.end_turn()
    while scene.outbox.requests:
        scene.outbox.answer(Done())
    receiver.take()
    assert receiver.holds_all()
    assert receiver.copy.version == scene.slot.tracked["s"].version
