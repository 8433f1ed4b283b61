"""Traces and their replay, without Spark."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from slotreeve import Draft, Limits, Plan, Server, SlotLoad, SlotTable
from slotreeve.errors import ConfigError, ModelError
from slotreeve.offers import Port
from slotreeve.ports import Assigner, Balancer
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_spark.compare import traces
from slotreeve_spark.compare.replay import Replay, Replayed, least_changes
from slotreeve_spark.compare.traces import KINDS, MembershipChange, MembershipTrace, check, generate, read_traces
from slotreeve_spark.shipping import build


def replay(trace: MembershipTrace, name: str = "even", slots: int = 32, **options: object) -> Replayed:
    assigner, balancer = build(Port.ASSIGNER, name, slots), build(Port.BALANCER, name, slots, 0, options)
    assert isinstance(assigner, Assigner)
    assert isinstance(balancer, Balancer)
    return Replay(assigner, balancer, slots, 2).play(trace, seed=1)


def test_there_are_twenty_generated_traces() -> None:
    assert len(KINDS) == 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("servers", [2, 5, 20])
def test_generated_traces_are_in_order_and_leave_somebody(kind: str, servers: int) -> None:
    for seed in range(5):
        trace = generate(kind, servers, seed)
        check(trace, kind)
        assert trace == generate(kind, servers, seed)


def test_failures_come_as_often_as_their_mtbf_demands() -> None:
    changes = [generate("failures, MTBF 1 h", 20, seed).changes for seed in range(50)]
    failures = sum(bool(change.leaves) for trace in changes for change in trace) / 50
    assert failures == pytest.approx(traces.EXPECTED_FAILURES, rel=0.15)


def test_a_replay_tells_what_a_scale_out_costs() -> None:
    trace = MembershipTrace("t", traces.fleet(3), (MembershipChange(10.0, joins=(Server("data-4"),)),))
    seen = replay(trace)
    assert seen.changes == 1
    assert seen.violations == 0
    assert seen.slot_seconds_without_leader == 0
    assert seen.least_leader_moves == 8
    assert seen.least_copies == 16
    assert seen.copies >= 16
    assert seen.leader_spread == 0
    assert seen.timeline == [(10.0, seen.moves)]


def test_a_replay_measures_the_spread_of_the_recorded_loads_and_gives_them_to_plugins_that_look_at_them() -> None:
    loads = {slot: SlotLoad(100, 1_000, 60.0 if slot < 12 and slot % 3 == 0 else 1.0) for slot in range(32)}
    trace = MembershipTrace("t", traces.fleet(3), (), loads)
    table = EvenAssigner().assign(SlotTable.unassigned(32), traces.fleet(3), Limits(2))
    assert table is not None
    led = dict.fromkeys(("data-001", "data-002", "data-003"), 0.0)
    for slot in table.table.slots:
        led[slot.leader or ""] += loads[slot.id].writes_per_second
    without = replay(trace)
    assert without.load_spread == pytest.approx(max(led.values()) / (sum(led.values()) / 3))
    spread = replay(trace, loads="writes")
    assert spread.violations == 0
    assert spread.leader_spread == without.leader_spread
    assert spread.load_spread < without.load_spread
    assert replay(trace, loads="records").load_spread == without.load_spread
    assert replay(trace, slots=16).load_spread == replay(MembershipTrace("t", trace.servers, ()), slots=16).load_spread


def test_a_trace_in_a_file_may_have_loads(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text('{"name": "t", "servers": [["a"]], "changes": [], "loads": {"3": [5, 50, 0.5]}}\n')
    assert read_traces(file)[0].loads == {3: SlotLoad(5, 50, 0.5)}
    file.write_text('{"name": "t", "servers": [["a"]], "changes": [], "loads": {"3": [-5]}}\n')
    with pytest.raises(ModelError, match=r"slot 3 has the load .*; no number may be negative"):
        read_traces(file)


class Circling:
    """It makes the first follower of slot 0 its leader, again and again."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        draft = Draft(table, servers)
        draft.lead(0, draft.followers(0)[0], "made up")
        return draft.plan()


class Restless:
    """It drops a follower of slot 0, which is no valid table."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        draft = Draft(table, servers)
        draft.unfollow(0, draft.followers(0)[0], "made up")
        return draft.plan()


class Hungry:
    """It needs more memory than there is."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        raise MemoryError


def replay_of(balancer: Balancer) -> Replayed:
    assigner = build(Port.ASSIGNER, "even", 8)
    assert isinstance(assigner, Assigner)
    trace = MembershipTrace("t", traces.fleet(3), (MembershipChange(10.0, joins=(Server("data-4"),)),))
    return Replay(assigner, balancer, 8, 2).play(trace, seed=1)


@pytest.mark.parametrize(
    ("balancer", "violation"),
    [
        (Circling(), "balancer: moves in circles: after "),
        (Restless(), "balancer: invalid table: slot 0 has 0 followers"),
    ],
)
def test_a_balancer_that_breaks_a_rule_is_seen_and_named(balancer: Balancer, violation: str) -> None:
    seen = replay_of(balancer)
    assert seen.violations == 2
    assert str(seen.first_violation).startswith(violation)
    assert not seen.ended


def test_a_balancer_that_runs_out_of_memory_ends_the_replay() -> None:
    with pytest.raises(MemoryError):
        replay_of(Hungry())


def test_the_built_in_balancers_end_every_trace_without_a_violation() -> None:
    for kind in KINDS:
        for name, farthest in (("even", 0.15), ("default", 1.0)):
            seen = replay(generate(kind, 6, 1), name)
            assert (seen.violations, seen.ended) == (0, True), (kind, name, seen.first_violation)
            assert seen.uneven_share <= farthest, (kind, name)


def test_slots_of_a_lost_server_have_no_leader_for_a_round() -> None:
    trace = MembershipTrace("t", traces.fleet(4), (MembershipChange(10.0, leaves=("data-001",)),))
    seen = replay(trace)
    assert seen.slot_seconds_without_leader == 8
    assert seen.least_leader_moves == 8


def test_a_change_that_comes_too_soon_interrupts_the_balancer() -> None:
    soon = MembershipTrace(
        "t",
        traces.fleet(4),
        (MembershipChange(10.0, leaves=("data-001",)), MembershipChange(11.0, joins=(Server("data-9"),))),
    )
    assert replay(soon, "default", 256).interrupted >= 1


def test_replays_are_the_same_every_time() -> None:
    trace = generate("rolling restart, 15 s down", 4, 3)
    first, second = replay(trace), replay(trace)
    first.decision_ms = second.decision_ms = first.slowest_decision_ms = second.slowest_decision_ms = 0
    assert first == second


def test_the_least_changes_are_those_of_a_search() -> None:
    servers = [Server(name) for name in "abc"]
    for counts in itertools.product(range(6), repeat=3):
        for total in range(sum(counts), 10):
            low, high = total // 3, -(-total // 3)
            targets = [t for t in itertools.product((low, high), repeat=3) if sum(t) == total]
            best = min(sum(max(0, t - c) for t, c in zip(target, counts, strict=True)) for target in targets)
            found = least_changes(Counter(dict(zip("abc", counts, strict=True))), servers, total)
            assert found == best, (counts, total)


def test_traces_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text('{"name":"t","servers":[["a"],["b","zone-2",2.0]],"changes":[{"at_seconds":1,"leaves":["a"]}]}\n\n')
    (trace,) = read_traces(file)
    assert trace.servers[1] == Server("b", "zone-2", 2.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "line 1: .*a trace is an object"),
        ('{"name":"t","servers":[["a"]],"changes":[{"at_seconds":1,"leaves":["b"]}]}', "b leaves at 1 s, but is not"),
        ('{"name":"t","servers":[["a"]],"changes":[{"at_seconds":1,"leaves":["a"]}]}', "no server is left at 1 s"),
        ('{"name":"t","servers":[],"changes":[]}', "no server is there"),
        ('{"name":"t","servers":[["a"]],"changes":[{"at_seconds":2},{"at_seconds":1}]}', "1 s follows one at 2 s"),
    ],
)
def test_a_line_that_is_no_trace_is_a_clear_error(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "traces.jsonl"
    file.write_text(line)
    with pytest.raises(ModelError, match=message):
        replay(check(read_traces(file)[0], "t"))


def test_an_empty_file_of_traces_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "none").write_text("")
    with pytest.raises(ConfigError, match="there is no trace in it"):
        read_traces(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_traces(tmp_path / "nowhere")


def test_traces_that_no_cluster_can_have_are_refused(tmp_path: Path) -> None:
    for servers, changes in (
        ('[["a", "", 0.0]]', "[]"),
        ('[["a", "", 1e308]]', "[]"),
        ('[["a", "", -1.0]]', "[]"),
        ('[["a"], ["b"]]', '[{"at_seconds": 1, "leaves": ["a", "a"]}]'),
        ("[" * 100_000, "[]"),
    ):
        file = tmp_path / "t.jsonl"
        file.write_text(f'{{"name": "t", "servers": {servers}, "changes": {changes}}}')
        with pytest.raises(ModelError, match="line 1"):
            read_traces(file)
    with pytest.raises(ModelError, match="at least 2"):
        generate("flapping every 2 s", 1, 0)


def test_a_name_may_hold_what_ends_a_line_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text('{"name": "one\u2028two", "servers": [["a"], ["b"]], "changes": []}\n', encoding="utf-8")
    assert [trace.name for trace in read_traces(file)] == ["one\u2028two"]


def test_a_plugin_gets_loads_to_read_and_its_errors_can_be_written_down() -> None:
    class Clears(EvenAssigner):
        def with_loads(self, loads: dict[int, SlotLoad]) -> Clears:
            loads.clear()
            return self

        def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
            raise ValueError("\ud83d")

    balancer = build(Port.BALANCER, "even", 8)
    assert isinstance(balancer, Balancer)
    found = Replay(Clears(), balancer, 8, 2).play(generate("flapping every 2 s", 3, 0), seed=1)
    assert found.violations > 0
    assert found.first_violation is not None
    assert found.first_violation.encode()
    assert found.first_violation.startswith("assigner: raised")
