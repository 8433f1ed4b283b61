"""Copies of a slot at three data servers while tables, connections, repairs and writes come in any order: who is called
ready has everything, and when it is quiet all holders have the same."""

from __future__ import annotations

import copy
import random
from collections import deque

import pytest
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_protocol.meta_messages import View
from slotreeve_protocol.slot_messages import Replicate, SlotWrite
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.slots.slots import HeldSlot
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.records import SlotStore

from tests.servers.world import World, node_of

NAMES = ("data-1", "data-2", "data-3")
OTHER_ROWS = tuple(
    Slot(n, leader, 1, tuple(each for each in NAMES if each != leader)) for n, leader in enumerate(NAMES, 1)
)
"""With these every two of them stay connected, whatever becomes of slot 0."""
ANSWER_BYTES = 1_500


def tombstones_of(store: SlotStore) -> set[tuple[str, Publisher]]:
    return {(register_id, tombstone) for register_id, (tombstone, _) in store.tombstones.items()}


class AnyOrder:
    """Three data servers, and the meta leader's tables of slot 0, which each has when it is given them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        for name in NAMES:
            self.world._data(name)
            self.world._outboxes[name].part_bytes = ANSWER_BYTES
            self.core(name).slots._part_bytes = ANSWER_BYTES
        self.revision = self.version = 0
        self.tables: dict[str, deque[View]] = {name: deque() for name in NAMES}
        self.commit(Slot(0, "data-1", 1, ("data-2",), ("data-3",)))
        for name in NAMES:
            self.give(name)
        self.deliver(1_000)

    def core(self, name: str) -> DataCore:
        core = self.world._cores[name]
        assert isinstance(core, DataCore)
        return core

    def led(self) -> HeldSlot | None:
        """The slot at its leader, where that has the leader's table."""
        slot = self.core(str(self.row.leader)).slots.get(0)
        is_led = slot is not None and slot.leads and slot.slot.leader_epoch == self.row.leader_epoch
        return slot if is_led else None

    def commit(self, row: Slot) -> None:
        self.row = row
        self.revision += 1
        view = View(1, self.revision, SlotTable(self.revision, (row, *OTHER_ROWS)), [node_of(n) for n in NAMES], [])
        for name in NAMES:
            self.tables[name].append(view)

    def give(self, name: str) -> None:
        """A server gets its next table, or misses some and gets a later one."""
        waiting = self.tables[name]
        if not waiting:
            return
        view = waiting.popleft()
        while waiting and self.rng.random() < 0.3:
            view = waiting.popleft()
        self.core(name).membership.handlers.messages[View](self.world._meta, view)
        self.world._outboxes[name].end_turn()
        self.world._make_links()

    def deliver(self, most: int) -> None:
        """So many messages arrive; those of one connection in their order."""
        for _ in range(most):
            ends = list({id(parcel.end): parcel.end for parcel in self.world._queue}.values())
            if not ends:
                return
            end = self.rng.choice(ends)
            parcel = next(each for each in self.world._queue if each.end is end)
            self.world._queue.remove(parcel)
            self.world._take(parcel)
            self.world._outboxes[end.owner].end_turn()
            self.check_ready()

    def store(self) -> None:
        """The leader stores something."""
        slot, leader = self.led(), str(self.row.leader)
        for _ in range(self.rng.choice([1, 1, 3, 10]) if slot is not None else 0):
            assert slot is not None
            self.version += 1
            number, what = self.rng.randrange(60), self.rng.random()
            record = Publisher(f"r{number}", f"s{number % 12}", self.version, 1, "x@1", "", (b"x" * 60,))
            live = slot.store.find(record)
            write = SlotWrite(0, slot.slot.leader_epoch, [record], [], [])
            if live is not None and what < 0.15:
                write = SlotWrite(0, slot.slot.leader_epoch, [], [live.tombstone()], [])
            elif live is not None and what < 0.3:
                write = SlotWrite(0, slot.slot.leader_epoch, [], [], [(record.data_info_id, record.register_id)])
            self.core(leader).store(slot, write)
        self.world._outboxes[leader].end_turn()

    def change_table(self) -> None:
        """The meta leader changes the row as it may: only who is ready follows."""
        row, rng = self.row, self.rng
        followers, learners = list(row.followers), list(row.learners)
        outside = [name for name in NAMES if name not in row.holders]
        ready = list[str]()
        leader = self.core(str(row.leader))
        if self.led() is not None and leader.membership.view.revision == self.revision:
            reports = [report for report in leader.in_sync.reports() if report.slot == 0]
            ready = [name for report in reports for name in report.ready if name in learners]
        may = ["promote"] * 3 * bool(ready) + ["learn"] * 2 * bool(outside) + ["drop"] * bool(followers or learners)
        may += ["leave"] * bool(followers) + ["hand over"] * bool(followers and not any(self.tables.values()))
        match rng.choice(may or ["nothing"]):
            case "promote":
                learners.remove(name := rng.choice(ready))
                followers.append(name)
            case "learn":
                learners.append(rng.choice(outside))
            case "drop":
                name = rng.choice(followers + learners)
                (followers if name in followers else learners).remove(name)
            case "leave":
                followers.remove(name := rng.choice(followers))
                learners.append(name)
            case "hand over":
                followers.remove(name := rng.choice(followers))
                kept = (*followers, str(row.leader))
                return self.commit(Slot(0, name, row.leader_epoch + 1, kept, tuple(learners)))
            case _:
                return None
        return self.commit(Slot(0, row.leader, row.leader_epoch, tuple(followers), tuple(learners)))

    def step(self) -> None:
        rng, what = self.rng, self.rng.random()
        if what < 0.3:
            self.store()
        elif what < 0.4:
            self.change_table()
        elif what < 0.65:
            self.give(rng.choice(NAMES))
        elif what < 0.69:
            self.world.disconnect(rng.choice([end.peer for end in self.world._ends.values()]))
            self.world._make_links()
        elif what < 0.74:
            self.world._outboxes[rng.choice(NAMES)].advance(rng.choice([0.02, 0.1]))
        elif what < 0.78:
            name = rng.choice(NAMES)
            self.core(name).leaders.compare([0])
            self.world._outboxes[name].end_turn()
        else:
            self.deliver(rng.randrange(8))
        self.check_ready()

    def check_ready(self) -> None:
        """Whoever is called ready under the newest table has what the leader has, with what is on its way."""
        slot, leader = self.led(), self.core(str(self.row.leader))
        copies = leader.in_sync._copies.get(0)
        if slot is None or copies is None or leader.membership.view.revision != self.revision:
            return
        for peer in copies.ready & slot.streams.keys():
            follower = self.core(peer.node)
            held = follower.slots.get(0)
            if held is None or held.leads or follower.membership.view.revision != self.revision:
                continue
            if held.slot.leader_epoch != slot.slot.leader_epoch or held.since != slot.streams[peer]:
                continue  # it begins anew, and its question is on its way
            will_have = HeldSlot(held.slot, leads=False, store=copy.deepcopy(held.store))
            for write in self.on_the_way(peer, slot):
                will_have.apply(write, 0.0)
            assert will_have.store.services == slot.store.services, f"{peer.node} is called ready and lacks records"
            assert tombstones_of(will_have.store) >= tombstones_of(slot.store), f"{peer.node} lacks tombstones"

    def on_the_way(self, peer: Peer, slot: HeldSlot) -> list[SlotWrite]:
        leader = self.core(str(self.row.leader))
        sent = [
            write
            for parcel in self.world._queue
            if parcel.end.owner == peer.node and parcel.end.peer.node == self.row.leader
            if isinstance(parcel.message, Replicate)
            for write in parcel.message.batches
        ]
        waiting = [write for message in leader._streams._tombstones.get(peer, ()) for write in message]
        writes = [*sent, *leader._streams._waiting.get(peer, ()), *waiting]
        return [write for write in writes if (write.slot, write.leader_epoch) == (0, slot.slot.leader_epoch)]

    def calm_down(self) -> None:
        """All that waits is given and delivered, and some time passes."""
        for name in NAMES:
            while self.tables[name]:
                self.give(name)
        for _ in range(30):
            self.deliver(1_000)
            for name in NAMES:
                self.world._outboxes[name].advance(0.02)


@pytest.mark.parametrize("seed", [*range(120), 145, 217, 219, 233, 667])
def test_who_is_called_ready_has_everything_and_in_the_end_all_holders_have_the_same(seed: int) -> None:
    scene = AnyOrder(seed)
    for _ in range(150):
        scene.step()
    scene.calm_down()
    slot = scene.led()
    assert slot is not None
    assert sorted(peer.node for peer in slot.streams) == sorted(scene.row.holders[1:])
    for name in scene.row.holders[1:]:
        held = scene.core(name).slots.get(0)
        assert held is not None
        assert held.synced
        assert held.store.services == slot.store.services
        assert tombstones_of(held.store) >= tombstones_of(slot.store)
