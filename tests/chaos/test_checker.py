"""The judge of chaos runs must find what is planted in a history, and nothing in a good one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from slotreeve.errors import ConfigError
from slotreeve_chaos.checker import Checker, HistoryVerdict
from slotreeve_chaos.history import HistoryRecorder, merge, read
from slotreeve_chaos.report import as_html

Record = dict[str, Any]


def published(t: float, register_id: str, sequence: int = 1, service: str = "s") -> Record:
    return {"t": t, "kind": "published", "register_id": register_id, "service": service, "sequence": sequence}


def seen(t: float, version: int, instances: dict[str, int], service: str = "s") -> Record:
    return {"t": t, "kind": "seen", "subscriber": "x", "service": service, "version": version, "instances": instances}


def judge(*records: Record) -> HistoryVerdict:
    return Checker().check(records)


GOOD = [
    published(0.0, "a"),
    published(0.1, "b"),
    seen(0.2, 1, {"a": 1}),
    seen(0.3, 2, {"a": 1, "b": 1}),
    published(1.0, "a", 2),
    seen(1.1, 3, {"a": 2, "b": 1}),
    {"t": 1.5, "kind": "fault", "what": "kill data", "target": "data-1", "phase": "begin"},
    {"t": 2.0, "kind": "ended", "register_id": "b", "service": "s"},
    seen(2.1, 4, {"a": 2}),
    {"t": 2.2, "kind": "fault", "what": "kill data", "target": "data-1", "phase": "end"},
    {"t": 2.5, "kind": "leader", "asked": "meta-1", "leader": "meta-2", "term": 1},
    {"t": 2.6, "kind": "view", "term": 1, "epoch": 1, "revision": 3},
    {"t": 3.0, "kind": "final", "expected": {"s": {"a": 2}}},
]


def invariants(*more: Record) -> list[str]:
    return [violation.invariant for violation in judge(*GOOD[:-1], *more).violations]


def test_nothing_is_wrong_with_a_good_history() -> None:
    verdict = judge(*GOOD)
    assert verdict.violations == []
    assert (verdict.published, verdict.callbacks, verdict.missing, verdict.stale) == (3, 4, 0, 0)
    assert verdict.faults == {"kill data": 1}


@pytest.mark.parametrize(
    ("invariant", "record"),
    [
        ("I14", seen(2.3, 5, {})),
        ("I11", seen(2.3, 4, {"a": 2})),
        ("I11", seen(2.3, 3, {"a": 2})),
        ("I11", seen(2.3, 5, {"a": 1})),
        ("I1", {"t": 2.7, "kind": "leader", "asked": "meta-3", "leader": "meta-3", "term": 1}),
        ("I4", {"t": 2.7, "kind": "view", "term": 1, "epoch": 0, "revision": 4}),
        ("I4", {"t": 2.7, "kind": "view", "term": 0, "epoch": 2, "revision": 4}),
        ("I8", {"t": 3.0, "kind": "final", "expected": {"s": {"a": 2, "c": 1}}}),
        ("I8", {"t": 3.0, "kind": "final", "expected": {"s": {"a": 3}}}),
        ("I9", {"t": 3.0, "kind": "final", "expected": {"s": {}}}),
    ],
)
def test_a_planted_violation_is_found(invariant: str, record: Record) -> None:
    if invariant == "I4":
        assert invariants({"t": 2.65, "kind": "view", "term": 1, "epoch": 1, "revision": 3}, record) == [invariant]
    else:
        assert invariant in invariants(record)


def test_the_dead_may_not_be_seen_for_long() -> None:
    died = {"t": 2.3, "kind": "died", "register_ids": ["a"]}
    quick, slow = judge(*GOOD[:-1], died, seen(2.8, 5, {})), judge(*GOOD[:-1], died, seen(22.0, 5, {}))
    assert quick.violations == []
    assert quick.gone_after_seconds == [pytest.approx(0.5)]
    assert [violation.invariant for violation in slow.violations] == ["I9"]


def test_time_in_which_the_run_got_no_processor_is_not_held_against_the_registry() -> None:
    died = {"t": 2.3, "kind": "died", "register_ids": ["a"]}
    late = {"t": 19.0, "kind": "late", "seconds": 5.0}
    assert judge(*GOOD[:-1], died, late, seen(22.0, 5, {})).violations == []
    assert len(judge(*GOOD[:-1], died, late, seen(22.4, 5, {})).violations) == 1


def test_a_subscriber_that_never_saw_its_service_is_found() -> None:
    subscribed = {"t": 0.05, "kind": "subscribed", "subscriber": "blind", "service": "s"}
    violations = judge(subscribed, *GOOD).violations
    assert [violation.what for violation in violations] == ["blind does not see a of s"]


def test_no_fault_excuses_a_registration_that_disappears() -> None:
    fault = {"t": 2.25, "kind": "fault", "what": "busy loops", "target": "8 for 9 s", "phase": "begin"}
    assert invariants(fault, seen(2.3, 5, {})) == ["I14"]


def test_an_answer_of_a_server_that_lags_behind_is_no_violation() -> None:
    assert invariants({"t": 2.7, "kind": "view", "term": 0, "epoch": 0, "revision": 1}) == []


def test_an_exception_in_the_log_of_a_server_is_a_violation() -> None:
    violations = judge(*GOOD, {"t": 9.0, "kind": "raised", "server": "data-1", "what": "KeyError: 'x'"}).violations
    assert [(v.invariant, v.what) for v in violations] == [("health", "data-1 logged an exception: KeyError: 'x'")]


def test_a_history_is_written_and_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    with HistoryRecorder(file) as recorder:
        recorder.append("published", register_id="a", service="s", sequence=1)
    assert [record["kind"] for record in read(file)] == ["published"]


def test_histories_of_one_run_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    for name, times in (("a", (1, 4, 5)), ("b", (2, 3, 6))):
        (tmp_path / name).write_text("".join(f'{{"t":{t},"kind":"{name}"}}\n' for t in times))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert [record["t"] for record in read(tmp_path / "merged")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("line", ["{", "[]", '{"kind": "seen"}', "3"])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('{"t": 0, "kind": "x"}\n' + line + "\n")
    with pytest.raises(ConfigError, match=r"history\.jsonl, line 2"):
        list(read(file))


def test_the_report_shows_faults_figures_and_violations() -> None:
    records = [*GOOD[:-1], seen(2.3, 5, {})]
    page = as_html(judge(*records), records, 7)
    assert "1 violations" in page
    assert "kill data: data-1 at 1.5 s" in page
    assert "no longer sees a, which never ended" in page
    assert as_html(judge(*GOOD), GOOD, None).count("Every invariant held") == 1
