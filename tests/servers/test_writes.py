"""The way of records from clients to slot leaders: batching, acknowledging, trying again."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.client_messages import Published
from slotreeve_protocol.slot_messages import Access, Answers, SlotAnswer, Write
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.records.writes import (
    ACKNOWLEDGE_SECONDS,
    IN_FLIGHT,
    LIGHT_RECORDS,
    RETRY_SECONDS,
    WEIGHT_PER_MESSAGE,
    AfterBatches,
    WriteBatch,
    Writes,
)

from tests.servers.recording_outbox import RecordingOutbox, a_peer


def record(number: int, version: int = 1) -> Publisher:
    return Publisher(f"r{number}", f"s{number}", version, 1, "session-1@1", "", (b"x",))


class Scene:
    """Writes to two data servers: data-1 leads slots 0 and 1, data-2 leads slot 2."""

    def __init__(self) -> None:
        self.outbox = RecordingOutbox()
        self.data = {name: a_peer(name, Role.DATA) for name in ("data-1", "data-2")}
        self.routes = Routes()
        rows = [Slot(0, "data-1", 1, ()), Slot(1, "data-1", 1, ()), Slot(2, "data-2", 1, ())]
        self.routes.apply(SlotTable(1, tuple(rows)))
        for peer in self.data.values():
            self.routes.opened(peer)
        self.writes = Writes(self.outbox, self.routes)
        self.client = ConnectedClient(a_peer("client", Role.CLIENT))
        self.client.is_replaying = False

    def submit(self, slot: int, *numbers: int) -> None:
        for number in numbers:
            self.writes.submit(slot, record(number), 1, self.client, number)
        self.outbox.end_turn()

    def open_writes(self, name: str) -> list[Write]:
        peer = self.data[name]
        return [r.message for r in self.outbox.requests if r.peer is peer and isinstance(r.message, Write)]

    def answer(self, access: Access = Access.ACCEPT) -> Write:
        request = self.outbox.requests[0]
        assert isinstance(request.message, Write)
        answers = [SlotAnswer(batch.slot, access, batch.leader_epoch) for batch in request.message.batches]
        self.outbox.answer(Answers(answers))
        return request.message

    def acknowledged(self) -> list[int]:
        sequences: list[int] = []
        for message in self.outbox.messages(Published, self.client.peer):
            assert isinstance(message, Published)
            sequences += message.sequences
        return sequences


def test_the_records_of_one_turn_go_to_each_leader_in_one_message() -> None:
    scene = Scene()
    for number, slot in enumerate((0, 1, 2, 0)):
        scene.writes.submit(slot, record(number), 1, scene.client, number)
    scene.outbox.end_turn()
    (to_first,), (to_second,) = scene.open_writes("data-1"), scene.open_writes("data-2")
    assert {batch.slot: len(batch.records) for batch in to_first.batches} == {0: 2, 1: 1}
    assert [batch.slot for batch in to_second.batches] == [2]


def test_a_record_is_acknowledged_once_its_leader_has_stored_it() -> None:
    scene = Scene()
    scene.submit(0, 7)
    assert scene.acknowledged() == []
    assert scene.writes.waiting == 1
    scene.answer(Access.MIGRATING)
    assert scene.acknowledged() == [7]
    assert (scene.writes.waiting, scene.client.waiting) == (0, 0)


def test_what_a_leader_refused_is_sent_again_after_a_pause() -> None:
    scene = Scene()
    scene.submit(0, 7)
    scene.answer(Access.MOVED)
    assert scene.acknowledged() == []
    assert scene.open_writes("data-1") == []
    scene.outbox.advance(0.1)
    scene.answer()
    assert scene.acknowledged() == [7]
    assert scene.writes.retries == 1


def test_what_a_leader_refused_goes_to_another_leader_at_once() -> None:
    scene = Scene()
    scene.submit(0, 7)
    scene.answer(Access.MOVED)
    scene.routes.apply(SlotTable(2, (Slot(0, "data-2", 2, ()), *scene.routes.slots[1:])))
    scene.writes.routes_changed()
    scene.outbox.end_turn()
    (write,) = scene.open_writes("data-2")
    assert [(batch.slot, batch.leader_epoch) for batch in write.batches] == [(0, 2)]


def test_what_was_refused_goes_in_front_of_what_came_later() -> None:
    scene = Scene()
    scene.submit(0, 1)
    scene.writes.submit(0, record(2), 1, scene.client, 2)
    scene.answer(Access.MISMATCH)
    scene.outbox.advance(0.1)
    while scene.outbox.requests:
        scene.answer()
    assert scene.acknowledged() == [1, 2]


def test_without_a_link_records_wait_and_then_go_out() -> None:
    scene = Scene()
    scene.routes.closed(scene.data["data-1"])
    scene.submit(0, 1)
    assert scene.outbox.requests == []
    scene.routes.opened(scene.data["data-1"])
    scene.writes.routes_changed()
    scene.outbox.end_turn()
    assert len(scene.open_writes("data-1")) == 1


def test_a_leader_that_takes_nothing_gets_it_after_a_pause() -> None:
    scene = Scene()
    scene.outbox.unreachable.add(scene.data["data-1"])
    scene.submit(0, 1)
    scene.outbox.unreachable.clear()
    scene.outbox.advance(0.1)
    assert len(scene.open_writes("data-1")) == 1


def test_a_leader_that_takes_nothing_gets_all_of_a_large_batch_after_a_pause() -> None:
    scene, count = Scene(), 3 * WEIGHT_PER_MESSAGE
    scene.outbox.unreachable.add(scene.data["data-1"])
    scene.submit(0, *range(count))
    assert scene.outbox.requests == []
    scene.outbox.unreachable.clear()
    scene.outbox.advance(0.1)
    while scene.outbox.requests:
        scene.answer()
        scene.outbox.end_turn()
    scene.outbox.advance(ACKNOWLEDGE_SECONDS)
    assert sorted(scene.acknowledged()) == list(range(count))


def test_a_message_for_several_slots_and_lanes_is_bounded() -> None:
    scene = Scene()
    scene.client.is_replaying = True
    for slot in (0, 1):
        for number in range(WEIGHT_PER_MESSAGE):
            light = ConnectedClient(a_peer(f"light-{number}", Role.CLIENT))
            light.is_replaying = False
            scene.writes.submit(slot, record(-number), 1, light, number)
            scene.writes.submit(slot, record(number), 1, scene.client, number)
    scene.outbox.end_turn()
    weights: list[int] = []
    while scene.outbox.requests:
        weights.append(sum(len(batch.records) for batch in scene.answer().batches))
        scene.outbox.end_turn()
    assert sum(weights) >= 4 * WEIGHT_PER_MESSAGE - 2
    assert max(weights) < 2 * WEIGHT_PER_MESSAGE


def test_each_replay_goes_out_however_much_others_have_on_their_way() -> None:
    scene = Scene()
    light = ConnectedClient(a_peer("light", Role.CLIENT))
    light.is_replaying, scene.client.is_replaying = False, True
    for replay in range(3):
        for number in range(2 * IN_FLIGHT):
            scene.writes.submit(1, record(-number), 1, light, number)
            scene.outbox.end_turn()
        scene.submit(0, replay)
        sent = [batch.slot for message in scene.open_writes("data-1") for batch in message.batches]
        assert 0 in sent, f"replay {replay}"
        while any(0 in {b.slot for b in message.batches} for message in scene.open_writes("data-1")):
            scene.answer()


def test_few_messages_are_in_flight_and_other_clients_overtake_a_replay() -> None:
    scene = Scene()
    scene.client.is_replaying = True
    scene.submit(2, *range(LIGHT_RECORDS))
    for _ in range(IN_FLIGHT + 2):
        scene.submit(0, *range(2 * WEIGHT_PER_MESSAGE))
    assert len(scene.open_writes("data-1")) == IN_FLIGHT
    light = ConnectedClient(a_peer("light", Role.CLIENT))
    light.is_replaying = False
    scene.writes.submit(1, record(-1), 1, light, 0)
    scene.outbox.end_turn()
    *_, last = scene.open_writes("data-1")
    assert [batch.slot for batch in last.batches] == [1]


def test_a_delivery_waits_for_what_is_on_its_way_and_for_what_waits_but_not_for_what_comes_later() -> None:
    scene = Scene()
    stored: list[str] = []
    scene.submit(0, 1)
    scene.submit(0, 2)
    scene.writes.when_stored([0], lambda: stored.append("all"))
    scene.submit(0, 3)
    scene.answer()
    assert stored == []
    while scene.outbox.requests and not stored:
        scene.answer()
    assert stored == ["all"]
    assert scene.acknowledged()[:2] == [1, 2]


def test_the_departures_of_a_large_client_go_out_in_bounded_messages() -> None:
    scene = Scene()
    for number in range(3 * WEIGHT_PER_MESSAGE):
        scene.writes.submit_gone(0, record(number).tombstone())
        scene.writes.submit_lost(0, record(number))
    scene.outbox.end_turn()
    gone, lost = 0, 0
    while scene.outbox.requests:
        (batch,) = scene.answer().batches
        assert len(batch.gone) + len(batch.lost) <= WEIGHT_PER_MESSAGE
        gone, lost = gone + len(batch.gone), lost + len(batch.lost)
        scene.outbox.end_turn()
    assert (gone, lost, scene.writes.waiting) == (3 * WEIGHT_PER_MESSAGE, 3 * WEIGHT_PER_MESSAGE, 0)


def test_a_delivery_of_nothing_is_answered_at_once() -> None:
    scene = Scene()
    stored: list[str] = []
    scene.writes.when_stored([0, 1], lambda: stored.append("all"))
    assert stored == ["all"]


def test_a_delivery_waits_for_both_parts_of_a_batch_that_is_split() -> None:
    stored: list[str] = []
    count = WEIGHT_PER_MESSAGE + 1
    client = ConnectedClient(a_peer("client", Role.CLIENT))
    delivery = AfterBatches(1, lambda: stored.append("both"))
    rest = WriteBatch([record(1)] * count, [], OrderedDict(), [client] * count, list(range(count)), count)
    rest.after[delivery] = rest.ahead
    first = rest.split(0.0)
    assert (len(first.records), len(rest.records)) == (WEIGHT_PER_MESSAGE, 1)
    assert (len(first.clients), len(rest.clients)) == (WEIGHT_PER_MESSAGE, 1)
    for waiting in rest.after:
        waiting.one_stored()
    assert stored == []
    for waiting in first.after:
        waiting.one_stored()
    assert stored == ["both"]


@pytest.mark.parametrize("is_replaying", [False, True])
@pytest.mark.parametrize("is_sent", [False, True])
def test_a_client_is_reported_lost_only_after_what_it_published_is_stored(is_replaying: bool, is_sent: bool) -> None:
    scene = Scene()
    scene.client.is_replaying = is_replaying
    scene.writes.submit(0, record(1), 1, scene.client, 1)
    if is_sent:
        scene.outbox.end_turn()
    scene.writes.submit_lost(0, record(1))
    scene.outbox.end_turn()
    orders: list[list[int]] = []
    for access in (Access.MOVED, Access.MOVED, Access.ACCEPT, Access.ACCEPT):
        (batch,) = scene.answer(access).batches
        orders.append([len(batch.records), len(batch.lost)])
        scene.outbox.end_turn()
        scene.outbox.advance(RETRY_SECONDS)
        scene.outbox.end_turn()
    assert orders == [[1, 0], [1, 0], [1, 0], [0, 1]]
    assert (scene.outbox.requests, scene.writes.waiting) == ([], 0)


def test_a_lost_client_does_not_wait_for_what_others_published_later() -> None:
    scene = Scene()
    scene.submit(0, 1)
    scene.writes.submit_lost(0, record(1))
    scene.outbox.end_turn()
    for number in range(2, 9):
        scene.submit(0, number)
        if any(batch.lost for batch in scene.answer().batches):
            break
    assert number == 4  # it goes out behind the answer to the first message


def test_the_loss_of_a_client_goes_out_with_its_record_until_it_is_taken() -> None:
    scene = Scene()
    scene.submit(0, 1)
    scene.writes.submit_lost(0, record(1))
    scene.outbox.end_turn()
    assert scene.writes.departing == 1, "also while it waits for the record"
    scene.answer()
    for access in (Access.MOVED, Access.ACCEPT):
        assert scene.writes.departing == 1
        scene.outbox.end_turn()
        (batch,) = scene.answer(access).batches
        assert batch.lost == [record(1)]
        scene.outbox.advance(RETRY_SECONDS)
    assert (scene.writes.departing, scene.outbox.requests) == (0, [])


def test_reports_of_a_flapping_link_are_gathered_while_one_waits_for_what_was_published() -> None:
    scene = Scene()
    scene.submit(0, 1)
    for _ in range(9):
        for number in (1, 2):
            scene.writes.submit_lost(0, record(number))
        scene.outbox.end_turn()
    assert scene.writes.departing == 2, "one report waits, another one is gathered"
    scene.submit(0, 3)
    lost: list[list[str]] = []
    while scene.outbox.requests:
        lost.append([one.register_id for batch in scene.answer().batches for one in batch.lost])
        scene.outbox.end_turn()
    assert [each for each in lost if each] == 2 * [[record(1).register_id, record(2).register_id]]
    assert scene.writes.departing == 0


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_waits_for_a_large_batch_waits_once_however_often_it_is_refused(is_lost: bool) -> None:
    scene, stored = Scene(), list[str]()
    scene.submit(0, *range(3 * WEIGHT_PER_MESSAGE))
    if is_lost:
        scene.writes.submit_lost(0, record(1))
        scene.outbox.end_turn()
    else:
        scene.writes.when_stored([0], lambda: stored.append("all"))
    for _ in range(12):
        while scene.outbox.requests:
            scene.answer(Access.MOVED)
        scene.outbox.advance(RETRY_SECONDS)
        scene.outbox.end_turn()
        assert sum(len(batch.after) for batch in scene.writes._batches(0)) <= 3
    lost: list[Publisher] = []
    while scene.outbox.requests:
        lost += [one for batch in scene.answer().batches for one in batch.lost]
        scene.outbox.end_turn()
    assert (stored, lost) == ([], [record(1)]) if is_lost else (["all"], [])


@pytest.mark.parametrize("clients", [1, 500])
def test_departures_and_a_delivery_do_not_wait_for_what_is_published_without_end(clients: int) -> None:
    scene, stored = Scene(), list[str]()
    peers = [ConnectedClient(a_peer(f"client-{number}", Role.CLIENT)) for number in range(clients)]
    for peer in peers:
        peer.is_replaying = False

    def submit(numbers: range) -> None:
        for number in numbers:
            scene.writes.submit(0, record(number), 1, peers[number % clients], number)
        scene.outbox.end_turn()

    queue = 10 * WEIGHT_PER_MESSAGE
    submit(range(queue))
    scene.writes.submit_lost(0, record(1))
    scene.writes.submit_gone(0, record(2).tombstone())
    scene.writes.when_stored([0], lambda: stored.append("all"))
    scene.outbox.end_turn()
    number, departed = queue, list[Publisher]()
    while number < 4 * queue and not (len(departed) == 2 and stored):
        batches = scene.answer().batches
        departed += [one for batch in batches for one in (*batch.gone, *batch.lost)]
        count = sum(len(batch.records) for batch in batches)
        submit(range(number, number + count))
        number += count
    assert (stored, departed) == (["all"], [record(2).tombstone(), record(1)])
    assert number <= 2.5 * queue


@pytest.mark.parametrize("is_refused", [False, True])
def test_of_two_losses_of_one_registration_the_next_leader_is_told_the_later_one(is_refused: bool) -> None:
    scene = Scene()
    for version in (1, 2):
        scene.writes.submit_lost(0, record(1, version))
        scene.outbox.end_turn()
    if is_refused:
        scene.answer(Access.MOVED)
        scene.answer(Access.MOVED)
        scene.outbox.advance(RETRY_SECONDS)
    else:
        scene.routes.apply(SlotTable(2, tuple([Slot(number, "data-2", 2, ()) for number in range(3)])))
        scene.writes.routes_changed()
    scene.outbox.end_turn()
    (write,) = scene.open_writes("data-1" if is_refused else "data-2")
    assert [batch.lost for batch in write.batches] == [[record(1, 2)]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=8), st.integers(0, 8))
def test_what_is_reported_lost_again_while_it_waits_goes_out_once_and_weighs_once(
    reports: list[tuple[int, int]], cut: int
) -> None:
    batch, later = WriteBatch(), WriteBatch()
    for index, (number, version) in enumerate(reports):
        (batch if index < cut else later).add_lost(record(number, version))
    batch.extend(later)
    newest = {number: record(number, version) for number, version in sorted(reports)}
    assert batch.lost == {(one.data_info_id, one.register_id): one for one in newest.values()}
    assert batch.weight == sum(one.weight for one in newest.values())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 2), st.integers(1, 700)),
        st.tuples(st.just("answer"), st.sampled_from([Access.ACCEPT, Access.MIGRATING, Access.MOVED]), st.just(0)),
        st.tuples(st.just("time-out"), st.just(0), st.just(0)),
        st.tuples(st.just("link"), st.sampled_from(["data-1", "data-2"]), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_every_record_is_acknowledged_exactly_once_and_only_after_a_leader_stored_it(
    steps: list[tuple[str, object, int]],
) -> None:
    """The dumb twin is the set of sequences that some leader accepted, and the slot and time of each."""
    scene = Scene()
    submitted: list[int] = []
    came: list[tuple[int, float]] = []
    stored: set[int] = set()
    sequence_of: dict[str, int] = {}

    def answer(access: Access) -> None:
        write = scene.answer(access)
        if access is not Access.MOVED:
            stored.update(sequence_of[r.register_id] for batch in write.batches for r in batch.records)

    for kind, what, count in steps:
        if kind == "submit":
            assert isinstance(what, int)
            for _ in range(count):
                number = len(submitted)
                sequence_of[f"r{number}"] = number
                submitted.append(number)
                came.append((what, scene.outbox.time))
                scene.writes.submit(what, record(number), 1, scene.client, number)
            scene.outbox.end_turn()
        elif kind == "answer" and scene.outbox.requests:
            assert isinstance(what, Access)
            answer(what)
        elif kind == "time-out" and scene.outbox.requests:
            scene.outbox.answer(None, TimeoutError())
        elif kind == "link":
            peer: Peer = scene.data[str(what)]
            if peer.node in scene.routes.linked:
                scene.routes.closed(peer)
                scene.writes.closed(peer)
            else:
                scene.routes.opened(peer)
                scene.writes.routes_changed()
        elif kind == "pass":
            scene.outbox.advance(0.1)
        assert set(scene.acknowledged()) <= stored
        for slot in range(3):
            waits = [scene.outbox.time - at for n, (to, at) in enumerate(came) if to == slot and n not in stored]
            assert scene.writes.waited_us(slot) >= round(1_000_000 * max(waits, default=0.0))
    for peer in scene.data.values():
        scene.routes.opened(peer)
    scene.writes.routes_changed()
    for _ in range(1_000):
        scene.outbox.advance(0.1)
        if not scene.outbox.requests:
            break
        while scene.outbox.requests:
            answer(Access.ACCEPT)
    assert sorted(scene.acknowledged()) == submitted
    assert scene.writes.waiting == 0


def more(batch: WriteBatch, messages: int) -> WriteBatch:
    """As much more in this batch as so many messages take."""
    client = ConnectedClient(a_peer("client", Role.CLIENT))
    for _ in range(messages * WEIGHT_PER_MESSAGE):
        batch.records.append(record(1))
        batch.clients.append(client)
        batch.sequences.append(1)
        batch.weight += 1
    return batch


def test_the_rest_of_a_batch_is_as_old_as_the_oldest_that_may_be_in_it() -> None:
    batch = more(WriteBatch(since=0.0), 3)
    assert [batch.split(1.0).since, batch.since] == [0.0, 0.0]
    more(batch, 1)
    assert [batch.split(2.0).since, batch.since] == [0.0, 0.0]
    assert [batch.split(3.0).since, batch.since] == [0.0, 1.0], "all that was here at the first cut has gone"
    assert [batch.split(4.0).since, batch.since] == [1.0, 3.0]


def test_what_comes_back_is_as_old_as_it_was_and_what_came_later_is_not() -> None:
    rest = more(WriteBatch(since=2.0), 2)
    batch = rest.split(3.0)
    batch.extend(rest)
    more(batch, 1)
    assert [batch.split(5.0).since, batch.since] == [2.0, 2.0]
    assert [batch.split(6.0).since, batch.since] == [2.0, 3.0]


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_waits_is_not_told_to_be_older_and_older_where_more_comes_all_the_time(is_refused: bool) -> None:
    scene = Scene()
    each, waits = WEIGHT_PER_MESSAGE, 4
    for step in range(200):
        scene.submit(0, *range(each))
        if is_refused and step % 20 == 10:
            scene.answer(Access.MOVED)
            scene.outbox.advance(RETRY_SECONDS)
        if step >= waits:
            scene.answer()
        scene.outbox.advance(0.1)
        assert scene.writes.waited_us(0) <= 3 * 100_000 * (scene.writes.waiting / each + 1)
    assert scene.writes.waiting > 0


# --- acknowledging a replay ------------------------------------------------------------------------------------------


def test_a_client_that_sends_everything_again_gets_its_acknowledgements_in_one_message() -> None:
    scene = Scene()
    scene.client.is_replaying = True
    scene.submit(0, 1, 2)
    scene.submit(2, 3)
    scene.answer()
    assert scene.acknowledged() == []
    scene.answer()
    assert scene.outbox.messages(Published, scene.client.peer) == [Published([1, 2, 3])]
    scene.outbox.advance(ACKNOWLEDGE_SECONDS)
    assert scene.acknowledged() == [1, 2, 3]


def test_an_acknowledgement_does_not_wait_long_for_others_of_the_same_replay() -> None:
    scene = Scene()
    scene.client.is_replaying = True
    scene.submit(0, 1)
    scene.submit(2, 2)
    scene.answer()
    scene.outbox.advance(ACKNOWLEDGE_SECONDS)
    assert scene.acknowledged() == [1]
    scene.answer()
    assert scene.acknowledged() == [1, 2]


def test_nothing_is_counted_for_links_that_are_down() -> None:
    scene = Scene()
    for life in range(2, 6):
        peer = scene.data["data-1"]
        scene.submit(0, life)
        scene.answer()
        scene.writes.closed(peer)
        scene.routes.closed(peer)
        scene.data["data-1"] = a_peer("data-1", Role.DATA, life)
        scene.routes.opened(scene.data["data-1"])
        scene.writes.routes_changed()
    assert not [each for each in (scene.writes._in_flight, scene.writes._replays_in_flight) if each]


def test_what_two_messages_brought_to_a_former_leader_has_waited_since_the_first_of_them() -> None:
    scene = Scene()
    scene.submit(0, 1)
    scene.outbox.advance(1.0)
    scene.submit(0, 2)
    scene.outbox.advance(1.0)
    assert len(scene.open_writes("data-1")) == 2
    scene.routes.apply(SlotTable(2, (Slot(0, "data-2", 2, ()), Slot(1, "data-1", 1, ()), Slot(2, "data-2", 1, ()))))
    scene.writes.routes_changed()
    scene.outbox.end_turn()
    (sent,) = scene.open_writes("data-2")
    assert sorted(record.register_id for record in sent.batches[0].records) == ["r1", "r2"]
    assert sent.batches[0].waited_us == scene.writes.waited_us(0) == 2_000_000
