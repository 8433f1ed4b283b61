"""What a meta leader knows of the loads of the slots, and when it gives that to plugins and observers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotreeve import Draft, Limits, Plan, Server, Slot, SlotLoad, SlotTable
from slotreeve.model.nodes import Node, Role
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_protocol.meta_messages import MOST_LOADS, Heartbeat, LeaseGranted, View
from slotreeve_servers.meta.arranging.arranger import Arranger, CopyReports, Leaving
from slotreeve_servers.meta.arranging.copy_steps import CopyReport
from slotreeve_servers.meta.arranging.loads import MOST_REPORTED, PAUSE_SECONDS, KnownLoads, Loads
from slotreeve_servers.meta.arranging.next_table import Situation

from tests.servers.meta_scene import Scene
from tests.servers.recording_outbox import deliver

HOT, COLD = SlotLoad(100, 1_000, 50.0), SlotLoad(1, 10, 0.0)


def heartbeat(name: str, loads: dict[int, SlotLoad]) -> Heartbeat:
    return Heartbeat(Node(name, Role.DATA, f"{name}:1", f"{name}@1"), 1, 1, [], loads=loads)


def table(*leaders: str) -> SlotTable:
    return SlotTable(1, tuple([Slot(number, name, 1, ()) for number, name in enumerate(leaders)]))


def known(slots: int = 2) -> tuple[KnownLoads, SlotTable]:
    loads = KnownLoads()
    loads.clear(0.0)
    return loads, table(*["data-1"] * slots)


def test_only_the_leader_of_a_slot_tells_its_load() -> None:
    loads, _ = known()
    rows = table("data-1", "data-2")
    loads.take(heartbeat("data-1", {0: HOT, 1: HOT, 7: HOT, -1: HOT}), rows)
    assert loads.look(PAUSE_SECONDS).by_slot == {0: HOT}


def test_plugins_get_another_picture_after_a_pause_and_only_for_a_noticeable_change() -> None:
    loads, rows = known()
    loads.take(heartbeat("data-1", {0: HOT}), rows)
    assert loads.look(PAUSE_SECONDS - 1).by_slot == {}
    first = loads.look(PAUSE_SECONDS)
    assert first.by_slot == {0: HOT}
    loads.take(heartbeat("data-1", {0: SlotLoad(105, 1_050, 51.0), 1: SlotLoad(2)}), rows)
    assert loads.look(10 * PAUSE_SECONDS) is first
    loads.take(heartbeat("data-1", {1: HOT}), rows)
    second = loads.look(10 * PAUSE_SECONDS)
    assert second.version > first.version
    assert second.by_slot == {0: SlotLoad(105, 1_050, 51.0), 1: HOT}
    assert first.by_slot == {0: HOT}
    loads.take(heartbeat("data-1", {1: COLD}), rows)
    assert loads.look(11 * PAUSE_SECONDS - 1) is second


def test_there_is_no_picture_while_a_server_has_more_to_tell() -> None:
    loads, rows = known(MOST_LOADS + 1)
    loads.take(heartbeat("data-1", dict.fromkeys(range(MOST_LOADS), HOT)), rows)
    assert loads.look(2 * PAUSE_SECONDS).by_slot == {}
    loads.take(heartbeat("data-1", {MOST_LOADS: HOT}), rows)
    assert len(loads.look(2 * PAUSE_SECONDS).by_slot) == MOST_LOADS + 1


def test_a_server_that_has_left_has_nothing_more_to_tell() -> None:
    loads, rows = known(MOST_LOADS)
    loads.take(heartbeat("data-1", dict.fromkeys(range(MOST_LOADS), HOT)), rows)
    loads.forget("data-1")
    assert len(loads.look(2 * PAUSE_SECONDS).by_slot) == MOST_LOADS


def test_observers_get_every_load_in_bounded_parts() -> None:
    loads, rows = known(slots := MOST_REPORTED + 10)
    for start in range(0, slots, 100):
        loads.take(heartbeat("data-1", dict.fromkeys(range(start, min(slots, start + 100)), HOT)), rows)
    parts = [loads.to_report(number * PAUSE_SECONDS) for number in (0.5, 1, 1.5, 2, 3)]
    assert [len(part) for part in parts] == [0, MOST_REPORTED, 0, 10, 0]
    assert {**parts[1], **parts[3]} == dict.fromkeys(range(slots), HOT)


class ToTheLeastLoaded:
    """A load-aware balancer: slot 0 is led by ``a`` if it is hot, else by ``b``. It counts what it is asked."""

    def __init__(self, loads: Mapping[int, SlotLoad] | None = None, asked: list[int] | None = None) -> None:
        self.loads, self.asked = loads or {}, asked if asked is not None else []

    def with_loads(self, loads: Mapping[int, SlotLoad]) -> ToTheLeastLoaded:
        return ToTheLeastLoaded(loads, self.asked)

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        self.asked.append(len(self.loads))
        draft = Draft(table, servers)
        names = sorted(draft.servers)
        wanted = names[0] if self.loads.get(0, COLD).writes_per_second else names[-1]
        if draft.leader(0) != wanted:
            draft.lead(0, wanted, "the load of slot 0")
        return draft.plan()


class NotReallyAware(ToTheLeastLoaded):
    """One that raises when it is given loads."""

    def with_loads(self, loads: Mapping[int, SlotLoad]) -> ToTheLeastLoaded:
        raise ZeroDivisionError("made up by this test")


def arranged(judge: Arranger, before: SlotTable, loads: Loads) -> SlotTable:
    """The table after all steps."""
    live, target = [Server("a"), Server("b")], None
    for _ in range(10):
        ready = {slot.id: CopyReport(frozenset(slot.learners)) for slot in before.slots}
        found = judge.arrange(before, live, CopyReports(ready, {"a": set(), "b": set()}), loads=loads, target=target)
        if found.plan is None:
            return before
        before, target = found.plan.table, found.target
    raise AssertionError("it does not end")


def test_a_balancer_that_follows_loads_back_and_forth_is_not_stopped() -> None:
    judge = Arranger(2, 2, EvenAssigner(), ToTheLeastLoaded())
    assert judge.uses_loads
    rows = arranged(judge, SlotTable(), Loads(0, {}))
    for version in range(1, 9):
        load, leader = (HOT, "a") if version % 2 else (COLD, "b")
        rows = arranged(judge, rows, Loads(version, {0: load}))
        assert rows.slots[0].leader == leader
    assert judge.balancer_fault is None
    assert judge.rejected == 0


def test_a_plugin_that_raises_when_it_is_given_loads_is_counted_and_the_table_stays() -> None:
    judge = Arranger(2, 2, EvenAssigner(), NotReallyAware())
    arranged(judge, SlotTable(), Loads(1, {0: HOT}))
    assert judge.rejected == 2, "asked with the table that makes all slots whole, and after it"


def test_two_pictures_of_the_loads_are_two_situations() -> None:
    view = View(1, 1, table("a", "b"), [], [])
    reports, leaving = CopyReports(), Leaving()
    first, again, second = (
        Situation(view, [], [], reports, 1, leaving, True, Loads(version, {})) for version in (1, 1, 2)
    )
    assert first.key == again.key != second.key


def tell(scene: Scene, name: str, loads: dict[int, SlotLoad]) -> None:
    view = scene.core.view.read()
    message = Heartbeat(scene.node(name), view.revision, view.table.epoch, [], loads=loads)
    assert isinstance(deliver(scene.outbox, scene.core.handlers, scene.peers[name], message), LeaseGranted)


def test_a_meta_leader_gives_the_loads_to_its_plugins_and_asks_nothing_while_they_are_steady() -> None:
    scene, balancer = Scene(), ToTheLeastLoaded()
    scene.core._arranger = Arranger(4, 2, EvenAssigner(), balancer)
    names = ("data-a", "data-b")
    view = scene.cluster(*names)
    led = {name: [slot.id for slot in view.table.slots if slot.leader == name] for name in names}
    balancer.asked.clear()
    for _ in range(3):
        for name in names:
            tell(scene, name, {slot: COLD for slot in led[name] if slot})
            tell(scene, name, {})
        scene.settle(names, PAUSE_SECONDS)
    assert balancer.asked == []
    for name in names:
        tell(scene, name, dict.fromkeys(led[name], HOT))
    scene.settle(names, 1.2 * PAUSE_SECONDS)
    assert balancer.asked == [4, 4], "one step, and no more"
    assert [effect.kind for effect in scene.outbox.effects if effect.what == "slotreeve_loads_changed"]


def test_a_meta_leader_whose_plugins_do_not_look_at_loads_plans_nothing_for_them() -> None:
    scene = Scene()
    names = ("data-1", "data-2")
    view = scene.cluster(*names)
    for name in names:
        tell(scene, name, {slot.id: HOT for slot in view.table.slots if slot.leader == name})
    before = scene.core._settled
    scene.settle(names, 2 * PAUSE_SECONDS)
    assert scene.core._settled is before, "no other situation was planned"


def test_the_busiest_slots_come_first_and_idle_ones_are_left_out() -> None:
    loads, rows = known(5)
    full, warm = SlotLoad(900, 1_000, 0.0), SlotLoad(2, 20, 1.0)
    loads.take(heartbeat("data-1", {0: COLD, 1: HOT, 2: SlotLoad(), 3: warm, 4: full}), rows)
    assert [*loads.busiest(10).items()] == [(1, HOT), (3, warm), (4, full), (0, COLD)]
    assert [*loads.busiest(2)] == [1, 3]
    loads.clear(1.0)
    assert loads.busiest(2) == {}
