"""What a data server tells of the loads of the slots that it leads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import RequestTimeout
from slotreeve.model.loads import SlotLoad
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.meta_messages import MOST_LOADS, Heartbeat, LeaderIs, LeaseGranted, View
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.data.slots.loads import WINDOW_SECONDS, LedLoads
from slotreeve_servers.data.slots.slots import HeldSlots
from slotreeve_servers.node.membership import LedTerm
from slotreeve_servers.node.outbox import Answered

from tests.servers.core_scenes import META, node, record
from tests.servers.recording_outbox import RecordingOutbox

META_1 = LedTerm("meta-1@1", 1)


class LoadScene:
    """data-1 leads every slot but those that it is told to lose."""

    def __init__(self, slots: int = 3) -> None:
        self.outbox, self.epoch = RecordingOutbox(), 0
        self.slots = HeldSlots("data-1")
        self.loads = LedLoads(self.outbox, self.slots)
        self.table(*["data-1"] * slots)
        self.numbers = iter(range(1_000_000))

    def table(self, *leaders: str) -> None:
        self.epoch += 1
        known = [self.slots.get(number) for number in range(len(leaders))]
        rows = [
            Slot(number, name, slot.slot.leader_epoch if slot and slot.slot.leader == name else self.epoch, ("data-1",))
            for number, (name, slot) in enumerate(zip(leaders, known, strict=True))
        ]
        led, _ = self.slots.apply(SlotTable(self.epoch, tuple(rows)))
        self.loads.led(led)

    def write(self, number: int, count: int = 1, size: int = 1) -> None:
        slot = self.slots.held[number]
        for _ in range(count):
            published = Publisher(f"r{next(self.numbers)}", "s", 1, 1, "p", "", (b"x" * size,))
            self.loads.written(slot)
            slot.apply(SlotWrite(number, 1, [published], [], []), self.outbox.now())

    def told(self, seconds: float = 0.0) -> dict[int, SlotLoad]:
        """What the heartbeat tells after that time."""
        self.outbox.advance(seconds)
        return self.loads.next_part(META_1)


def test_the_load_of_a_slot_that_is_newly_led_is_told_once_a_window_of_writes_is_over() -> None:
    scene = LoadScene()
    scene.write(1, 50, size=10)
    assert scene.told(WINDOW_SECONDS / 2) == {}
    assert scene.told(WINDOW_SECONDS / 2) == {0: SlotLoad(), 1: SlotLoad(50, 500, 5.0), 2: SlotLoad()}
    assert scene.told() == {}


def test_a_load_is_told_again_only_once_it_differs_noticeably() -> None:
    scene = LoadScene(1)
    scene.write(0, 1_000)
    (before,) = scene.told(WINDOW_SECONDS).values()
    for _ in range(300):
        scene.write(0)
        for load in scene.told(1.0).values():
            assert not load.is_near(before)
            before = load
    assert before == SlotLoad(before.records, before.bytes, before.writes_per_second)
    assert abs(before.records - 1_300) <= 130
    assert abs(before.writes_per_second - 1) < 0.3


def test_writes_that_have_ended_are_forgotten_and_then_the_slot_is_not_looked_at_any_more() -> None:
    scene = LoadScene(1)
    scene.write(0, 1_000)
    told = [load for _ in range(400) for load in scene.told(1.0).values()]
    rates = [load.writes_per_second for load in told]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 100
    assert told[-1].is_near(SlotLoad(1_000, 1_000, 0.0))
    assert not scene.loads._windows


def test_another_meta_leader_or_the_same_in_another_term_is_told_all_again_in_parts_of_bounded_size() -> None:
    scene = LoadScene(slots := 2 * MOST_LOADS + 10)
    parts = [scene.told(WINDOW_SECONDS), scene.told(), scene.told(), scene.told()]
    assert [len(part) for part in parts] == [MOST_LOADS, MOST_LOADS, 10, 0]
    again = [scene.loads.next_part(LedTerm("meta-1@1", 2)) for _ in range(4)]
    assert [len(part) for part in again] == [MOST_LOADS, MOST_LOADS, 10, 0]
    assert len({number for part in again for number in part}) == slots


def test_a_slot_that_this_server_follows_now_is_not_told_and_under_a_new_leader_epoch_all_is_told_anew() -> None:
    scene = LoadScene(1)
    scene.write(0, 5)
    assert scene.told(WINDOW_SECONDS + 1.0)[0].records == 5
    scene.write(0, 5)
    scene.outbox.advance(WINDOW_SECONDS + 1.0)
    scene.table("data-2")
    assert scene.slots.held[0].slot.followers == ("data-1",)
    assert scene.told(WINDOW_SECONDS + 1.0) == {}
    scene.table("data-1")
    assert scene.told(WINDOW_SECONDS + 1.0)[0].records == 10


def test_what_was_not_taken_of_a_slot_that_is_lost_is_not_told_again() -> None:
    scene = LoadScene(1)
    scene.write(0, 5)
    part = scene.told(WINDOW_SECONDS + 1.0)
    scene.table("data-2")
    scene.loads.not_taken(part)
    assert scene.told() == {}
    scene.table("data-1")
    assert scene.told() == {}, "what was then; it is measured anew"


def test_a_slot_that_another_server_leads_now_is_not_told() -> None:
    scene = LoadScene(2)
    scene.write(0, 10)
    scene.table("data-2", "data-1")
    assert scene.told(WINDOW_SECONDS).keys() == {1}
    scene.table("data-1", "data-1")
    assert scene.told(WINDOW_SECONDS / 2) == {}
    assert scene.told(WINDOW_SECONDS / 2).keys() == {0}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 2)),
            st.tuples(st.sampled_from(["told", "lost", "leader"]), st.integers(0, 20)),
            st.tuples(st.just("table"), st.integers(0, 7)),
        ),
        max_size=40,
    )
)
def test_whatever_is_lost_the_meta_leader_knows_the_records_of_every_slot_in_the_end(
    events: list[tuple[str, int]],
) -> None:
    """The dumb twin counts all records. ``lost``: a heartbeat that the leader did not grant."""
    scene, meta, known = LoadScene(), META_1, dict[int, SlotLoad]()
    for kind, number in events:
        if kind == "write" and scene.slots.held[number].leads:
            scene.write(number, 7)
        elif kind == "told":
            scene.outbox.advance(number)
            known |= scene.loads.next_part(meta)
        elif kind == "lost":
            scene.outbox.advance(number)
            scene.loads.not_taken(scene.loads.next_part(meta))
        elif kind == "leader":
            meta, known = LedTerm(meta.process_id, meta.term + 1), {}
        elif kind == "table":
            scene.table(*["data-1" if number >> slot & 1 else "data-2" for slot in range(3)])
    for _ in range(2):
        scene.outbox.advance(WINDOW_SECONDS)
        known |= scene.loads.next_part(meta)
    for slot in scene.slots.led():
        records = sum(len(service) for service in slot.store.services.values())
        assert abs(known[slot.slot.id].records - records) <= max(4, records / 10)


def test_a_data_server_tells_its_loads_to_the_meta_leader_until_a_heartbeat_is_granted() -> None:
    outbox = RecordingOutbox()
    core = DataCore(outbox, node("data-1"), DataSettings(), 1.0)
    core.start()
    core.membership.start()
    core.membership.opened(META)
    rows = (Slot(0, "data-1", 1, ()),)
    core.membership.handlers.messages[View](META, View(1, 1, SlotTable(1, rows), [node("data-1")], []))
    core.store(core.slots.held[0], SlotWrite(0, 1, [record()], [], []))

    def told(seconds: float) -> list[tuple[int, Answered]]:
        """The records of slot 0 in the heartbeats of that time, and how to answer each."""
        outbox.requests.clear()
        outbox.advance(seconds)
        sent = [(r.message, r.answered) for r in outbox.requests if isinstance(r.message, Heartbeat)]
        return [(heartbeat.loads[0].records, answered) for heartbeat, answered in sent if heartbeat.loads]

    for reply in (LeaderIs(1, "meta-1", None), None, LeaseGranted(1, 5.0, None)):
        ((records, answered),) = told(WINDOW_SECONDS + 1.5)
        assert records == 1
        answered(reply, None if reply is not None else RequestTimeout("no answer"))
        core.membership.handlers.messages[LeaderIs](META, LeaderIs(1, "meta-1", None))
    assert not told(30.0)


def test_a_load_that_one_meta_leader_was_not_told_any_more_is_told_to_the_next_one_as_it_is_now() -> None:
    scene = LoadScene(2 * MOST_LOADS + 1)
    last = 2 * MOST_LOADS
    scene.told(WINDOW_SECONDS)
    for _ in range(2):
        scene.told()
    scene.loads.next_part(LedTerm("meta-2@1", 2))  # it is told all of them in three parts
    scene.write(last, 5_000)
    scene.outbox.advance(WINDOW_SECONDS)
    assert last not in scene.loads.next_part(LedTerm("meta-2@1", 2))
    told = dict[int, SlotLoad]()
    for _ in range(3):
        told |= scene.loads.next_part(LedTerm("meta-3@1", 3))
    assert told[last].records == 5_000
