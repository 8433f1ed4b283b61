"""The way of a client's requests about leases to the slot leaders."""

from __future__ import annotations

import math

import pytest
from slotreeve.errors import Backpressure, ModelError, RegistrationError, RequestTimeout
from slotreeve.model.nodes import Role
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_client.leases import BYTES_PER_MESSAGE
from slotreeve_protocol.lease_messages import (
    MOST_TAKEN,
    EndLeases,
    KeepLeases,
    KeptLeases,
    LeaseIds,
    LeasesKept,
    LeasesKnown,
    LeaseTerms,
    RegisterLeases,
    RenewLeases,
)
from slotreeve_protocol.leases import LONGEST_LEASE_ID, MOST_LEASES
from slotreeve_protocol.slot_messages import Access
from slotreeve_servers.node.outbox import Peer, Request
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.records import lease_requests
from slotreeve_servers.session.records.leader_waits import LOOK_SECONDS
from slotreeve_servers.session.records.lease_requests import (
    MOST_IN_FLIGHT,
    LeaseRequest,
    LeaseRequests,
    weight_of,
)
from slotreeve_servers.session.records.reads import GIVE_UP_SECONDS
from slotreeve_servers.session.records.routes import Routes

from tests.servers.recording_outbox import RecordingOutbox, a_peer

CLIENT = a_peer("client-1", Role.CLIENT)
DATA_1, DATA_2 = a_peer("data-1", Role.DATA), a_peer("data-2", Role.DATA)


class Scene:
    """Services ``s0`` and ``s1`` are in slots 0 and 1, which data-1 and data-2 lead."""

    def __init__(self) -> None:
        self.outbox, self.routes = RecordingOutbox(), Routes()
        self.routes.apply(SlotTable(1, (Slot(0, "data-1", 1, ()), Slot(1, "data-2", 1, ()))))
        self.routes.opened(DATA_1)
        self.routes.opened(DATA_2)
        self.clients = {CLIENT: ConnectedClient(CLIENT, 0.0)}
        self.requests = LeaseRequests(self.outbox, self.routes, lambda name: int(name[-1]), self.clients)

    def ask(self, message: LeaseRequest, client: Peer = CLIENT) -> None:
        self.requests.answer(client, message, Request(client, 1))

    def kept(self, slot: int, access: Access = Access.ACCEPT, unknown: LeaseIds | None = None) -> KeepLeases:
        message = self.outbox.answer(LeasesKept([KeptLeases(slot, access, 1, unknown or {})]), kind=KeepLeases)
        assert isinstance(message, KeepLeases)
        return message

    @property
    def replies(self) -> list[object]:
        return list(self.outbox.messages(LeasesKnown, CLIENT))


def test_a_request_goes_to_each_leader_concerned_and_the_answers_come_back_as_one() -> None:
    scene = Scene()
    scene.ask(RenewLeases({"s0": ["a", "b"], "s1": ["c"]}))
    assert [effect.peer for effect in scene.outbox.effects] == [DATA_1, DATA_2]
    assert scene.kept(0, unknown={"s0": ["b"]}).batches[0].renewed == {"s0": ["a", "b"]}
    assert not scene.replies
    assert scene.kept(1, Access.MIGRATING, {"s1": ["c"]}).batches[0].renewed == {"s1": ["c"]}
    assert scene.replies == [LeasesKnown({"s0": ["b"], "s1": ["c"]}, {})]


def test_what_was_not_carried_out_is_asked_again_of_the_leader_of_that_moment() -> None:
    scene = Scene()
    scene.ask(EndLeases({"s0": ["a"]}))
    scene.kept(0, Access.MISMATCH)
    scene.routes.apply(SlotTable(2, (Slot(0, "data-2", 2, ()), Slot(1, "data-2", 1, ()))))
    scene.outbox.advance(LOOK_SECONDS)
    (request,) = scene.outbox.requests
    assert isinstance(request.message, KeepLeases)
    assert (request.peer, request.message.batches[0].leader_epoch) == (DATA_2, 2)
    scene.kept(0)
    assert scene.replies == [LeasesKnown({}, {})]


def test_after_four_seconds_the_answer_names_what_is_unanswered_and_why() -> None:
    scene = Scene()
    scene.ask(RegisterLeases([LeaseTerms("s0", "a", "", (), 5_000), LeaseTerms("s1", "b", "", (), 5_000)]))
    while scene.outbox.time < 104.2:
        for request in list(scene.outbox.requests):
            is_first = request.peer is DATA_1
            if is_first:
                scene.kept(0)
            else:
                scene.outbox.answer(None, RequestTimeout("data-2 is silent"), kind=KeepLeases)
        scene.outbox.advance(0.05)
    assert scene.replies == [LeasesKnown({}, {"s1": ["b"]}, "data-2 is silent")]


def test_a_slot_without_a_leader_is_waited_for() -> None:
    scene = Scene()
    scene.routes.closed(DATA_1)
    scene.ask(RenewLeases({"s0": ["a"]}))
    scene.outbox.advance(1.0)
    assert not scene.replies
    scene.routes.opened(DATA_1)
    scene.outbox.advance(0.05)
    scene.kept(0)
    assert scene.replies == [LeasesKnown({}, {})]


def test_a_lease_that_cannot_be_good_is_refused_before_anything_is_sent() -> None:
    scene = Scene()
    with pytest.raises(ModelError, match="time to live"):
        scene.ask(RegisterLeases([LeaseTerms("s0", "a", "", (), 5_000), LeaseTerms("s0", "b", "", (), 5)]))
    assert not scene.outbox.effects


@pytest.mark.parametrize("kind", [RenewLeases, EndLeases])
@pytest.mark.parametrize("lease_id", ["", "l" * (LONGEST_LEASE_ID + 1)])
def test_a_lease_id_that_no_lease_has_is_refused_before_anything_is_sent(
    kind: type[RenewLeases | EndLeases], lease_id: str
) -> None:
    scene = Scene()
    with pytest.raises(ModelError, match="lease id"):
        scene.ask(kind({"s0": ["a"], "s1": ["b", lease_id]}))
    assert not scene.outbox.effects
    scene.ask(kind({"s0": ["l" * LONGEST_LEASE_ID]}))
    assert len(scene.outbox.effects) == 1


def test_a_request_for_very_many_leases_is_refused_and_one_for_many_counts_as_many_requests() -> None:
    scene = Scene()
    ids = [f"lease-{number}" for number in range(MOST_TAKEN)]
    with pytest.raises(ModelError, match=f"a request for {MOST_TAKEN + 1} leases; send at most {MOST_TAKEN}"):
        scene.ask(RenewLeases({"s0": ids, "s1": ["one-more"]}))
    with pytest.raises(ModelError, match=f"a request for {MOST_TAKEN + 1} leases; send at most {MOST_TAKEN}"):
        scene.ask(EndLeases({f"s{number}": [] for number in range(MOST_TAKEN + 1)}))
    assert scene.outbox.effects == []
    scene.ask(RenewLeases({"s0": ids}))
    assert len(scene.outbox.effects) == 1
    terms = [LeaseTerms("s0", lease_id, "", (b"",), 30_000) for lease_id in ids[:100]]
    messages: list[LeaseRequest] = [RegisterLeases(terms), RenewLeases({"s0": ids[:100]}), EndLeases({"s1": ["a"]})]
    assert [weight_of(message) for message in messages] == [11, 11, 1]
    assert weight_of(RenewLeases({f"s{number}": [] for number in range(100)})) == 11


def test_as_many_leases_are_taken_as_the_client_of_the_first_release_sends_in_one_message() -> None:
    assert MOST_LEASES <= BYTES_PER_MESSAGE // 200 <= MOST_TAKEN


def test_an_empty_request_is_answered_at_once() -> None:
    scene = Scene()
    scene.ask(RenewLeases({}))
    assert scene.replies == [LeasesKnown({}, {})]


def test_too_many_open_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_requests, "MOST_OPEN", 1)
    scene = Scene()
    scene.ask(RenewLeases({"s0": ["a"]}))
    with pytest.raises(Backpressure):
        scene.ask(RenewLeases({"s0": ["b"]}))
    scene.kept(0)
    scene.ask(RenewLeases({"s0": ["c"]}))


def test_a_request_that_is_refused_is_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_requests, "MOST_OPEN", 1)
    scene = Scene()
    for _ in range(3):
        with pytest.raises(ModelError, match="time to live"):
            scene.ask(RegisterLeases([LeaseTerms("s0", "b", "", (), 5)]))
    scene.ask(RenewLeases({"s0": ["a"]}))
    scene.kept(0)
    assert len(scene.replies) == 1


def test_a_client_that_an_operator_switched_off_may_keep_no_leases() -> None:
    scene = Scene()
    scene.clients[CLIENT].is_off = True
    with pytest.raises(RegistrationError, match="switched client-1 off"):
        scene.ask(RenewLeases({"s0": ["a"]}))


def test_one_client_leaves_room_for_the_requests_of_others_about_slots_that_are_led(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_requests, "MOST_OPEN", 20)
    scene = Scene()
    scene.routes.closed(DATA_1)
    for _ in range(10):
        scene.ask(RenewLeases({"s0": ["l"]}))
    with pytest.raises(Backpressure, match="10 requests about leases are open, 10 of this client"):
        scene.ask(RenewLeases({"s0": ["l"]}))
    other = a_peer("client-2", Role.CLIENT)
    scene.requests.answer(other, RenewLeases({"s1": ["l"]}), Request(other, 1))
    scene.kept(1)
    assert scene.outbox.messages(LeasesKnown, other)
    scene.outbox.advance(GIVE_UP_SECONDS + 1)
    assert len(scene.replies) == 10
    scene.ask(RenewLeases({"s0": ["l"]}))


def test_a_client_that_has_gone_asks_no_more_because_it_may_have_asked_elsewhere_since() -> None:
    scene = Scene()
    scene.ask(RegisterLeases([LeaseTerms("s0", "a", "", (), 60_000)]))
    scene.kept(0, Access.MISMATCH)
    scene.outbox.silence[CLIENT] = math.inf
    scene.outbox.advance(10.0)
    assert scene.outbox.requests == []
    assert scene.requests._open == 0


def test_very_many_requests_that_a_leader_refuses_ask_it_one_at_a_time() -> None:
    scene = Scene()
    for number in range(500):
        scene.ask(RenewLeases({"s0": [f"l{number}"]}))
        scene.kept(0, Access.MOVED)
    scene.outbox.advance(LOOK_SECONDS)
    assert len(scene.outbox.requests) == 1
    scene.kept(0)
    scene.outbox.advance(LOOK_SECONDS)
    assert len(scene.outbox.requests) == 499
    for _ in range(499):
        scene.kept(0)
    assert scene.replies == [LeasesKnown({}, {})] * 500


def test_a_refusal_after_the_deadline_is_answered_once() -> None:
    scene = Scene()
    scene.ask(EndLeases({"s0": ["a"]}))
    scene.outbox.advance(GIVE_UP_SECONDS + 0.1)
    scene.kept(0, Access.MISMATCH)
    assert len(scene.replies) == 1
    assert (scene.requests._open, dict(scene.requests._open_of)) == (0, {})


def test_one_request_about_very_many_slots_that_are_refused_is_one_message_a_look() -> None:
    scene = Scene()
    rows = tuple(Slot(number, "data-1", 1, ()) for number in range(200))
    scene.routes.apply(SlotTable(2, rows))
    scene.requests._slot_of = int
    scene.ask(RenewLeases({str(number): ["l"] for number in range(200)}))
    for _ in range(20):
        (request,) = scene.outbox.requests
        assert isinstance(request.message, KeepLeases)
        kept = [KeptLeases(batch.slot, Access.MOVED, 0, {}) for batch in request.message.batches]
        assert len(kept) == 200
        scene.outbox.answer(LeasesKept(kept), kind=KeepLeases)
        scene.outbox.advance(LOOK_SECONDS)


def test_of_a_flood_of_leases_few_are_on_their_way_and_others_take_turns_with_it() -> None:
    scene, honest = Scene(), a_peer("client-2", Role.CLIENT)
    many = [f"lease-{number}" for number in range(MOST_IN_FLIGHT + 1)]
    for _ in range(5):
        scene.ask(RenewLeases({"s0": many}))
    scene.ask(RenewLeases({"s0": ["a"]}), honest)
    scene.ask(RenewLeases({"s1": ["b"]}), honest)
    assert [request.peer for request in scene.outbox.requests] == [DATA_1, DATA_2], "other leaders do not wait"
    scene.kept(0)
    scene.kept(1)
    assert len(scene.outbox.requests) == 1, "the flood has its turn"
    scene.kept(0)
    kept = [scene.kept(0).batches[0].renewed for _ in range(4)]
    assert kept[0] == {"s0": ["a"]}
    assert kept[1:] == [{"s0": many}] * 3
    assert not scene.outbox.requests
    assert len(scene.replies) == 5


def test_small_requests_about_leases_do_not_wait_for_each_other() -> None:
    scene = Scene()
    for number in range(100):
        scene.ask(RenewLeases({"s0": [f"lease-{number}"]}))
    assert len(scene.outbox.requests) == 100


def test_nothing_stays_open_of_a_client_that_has_gone_while_its_leases_waited() -> None:
    scene = Scene()
    for number in range(3):
        scene.ask(RegisterLeases([LeaseTerms("s0", f"{number}/{k}", "", (), 5_000) for k in range(MOST_IN_FLIGHT)]))
    scene.outbox.silence[CLIENT] = math.inf
    scene.kept(0)
    assert not scene.outbox.requests
    assert (scene.requests._open, scene.requests._open_of) == (0, {})


def test_a_request_of_a_client_that_has_gone_is_over_once_where_no_leader_takes_it() -> None:
    scene = Scene()
    scene.outbox.unreachable, scene.outbox.silence = {DATA_1, DATA_2}, {CLIENT: math.inf}
    for _ in range(2):
        scene.ask(RenewLeases({"s0": ["a"], "s1": ["b"]}))
    assert len(scene.replies) == 2
    assert scene.requests._open == 0
    assert not scene.requests._open_of
