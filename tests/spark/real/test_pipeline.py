"""From event logs to marts: nothing twice, nothing lost, bad records put aside with a reason."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from slotreeve import Server, SlotLoad
from slotreeve.errors import ConfigError
from slotreeve_events.schema import Event, PushedVersion, RecordedLoad, SlotHolders, SlotMove
from slotreeve_events.segments import Segments
from slotreeve_spark.compare.keys import open_keys
from slotreeve_spark.compare.traces import MembershipChange
from slotreeve_spark.pipeline import marts
from slotreeve_spark.pipeline.history import difference, in_words, instant, recorded_trace, table_at
from slotreeve_spark.pipeline.ingest import Ingested, follow, ingest, wait
from slotreeve_spark.pipeline.records import CLEANED, RAW, parse
from slotreeve_spark.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
START_MS = 1_700_000_000_000


def record(number: int, kind: str, after_ms: int, **fields: object) -> str:
    known = {"v": 1, "id": f"n/{number}", "at_ms": START_MS + after_ms, "node": "session-1", "kind": kind}
    return json.dumps({**known, **fields})


def write(log: Path, name: str, lines: Iterable[str]) -> None:
    log.mkdir(exist_ok=True)
    (log / name).write_text("\n".join(lines))


GOOD = [
    record(1, "registered", 0, services=["a"], register_ids=["r1"], versions=[1]),
    record(2, "registered", 10, services=["a"], register_ids=["r2"], versions=[1]),
    record(3, "registered", 20, services=["a"], register_ids=["r2"], versions=[2]),
    record(4, "unregistered", 30, services=["a"], register_ids=["r1"], versions=[2]),
    record(
        5,
        "pushed",
        35,
        service="a",
        subscribers=2,
        changes=[{"register_id": "r1", "version": None}, {"register_id": "r2", "version": 2}],
    ),
    record(13, "pushed", 36, service="c", subscribers=1, changes=[]),
    record(
        6,
        "table",
        100,
        epoch=1,
        term=1,
        changed=[
            {"slot": 0, "leader": "data-1", "leader_epoch": 1, "followers": ["data-2"]},
            {"slot": 1, "leader": "data-2", "leader_epoch": 1, "followers": ["data-1"]},
        ],
        moves=[
            {
                "slot": s,
                "kind": "leader",
                "source": None,
                "target": f"data-{s + 1}",
                "reason": f"slot {s} lacks a leader",
            }
            for s in (0, 1)
        ],
    ),
    record(
        7,
        "table",
        500,
        epoch=2,
        term=1,
        changed=[{"slot": 1, "leader": "data-1", "leader_epoch": 2, "followers": []}],
        moves=[{"slot": 1, "kind": "leader", "source": "data-2", "target": "data-1", "reason": "data-2 left"}],
    ),
    record(8, "node_joined", 0, member="data-1", role="data", zone="z"),
    record(9, "node_joined", 90, member="data-2", role="data", a_field_of_the_future={"x": 1}),
    record(10, "node_left", 490, member="data-2", role="data", reason="lease expired"),
    record(11, "leader", 1, term=3, leader="meta-1"),
    record(12, "expired", 40, services=["b", "b"], register_ids=["r9", "r8"], versions=[1, 1]),
]


def test_good_records_are_stored_once_and_bad_ones_are_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    bad = [
        '{"v":2,"id":"x","at_ms":1,"node":"n","kind":"registered"}',
        '{"v":1,"id":"z","at_ms":3,"node":"n","kind":"nonsense"}',
        '{"v":1,"id":"z2","at_ms":3,"node":"n","kind":"registered"}',
        '{"v":1,"id":"z3","at_ms":3,"node":"n","kind":"expired","services":["a"],"register_ids":[],"versions":[1]}',
        '{"id":"z2"}',
        '{"v":1,"id":"torn","at_ms":170',
    ]
    write(tmp_path / "log", "a.jsonl", [*GOOD[:6], *bad])
    write(tmp_path / "log", "b.jsonl", [*GOOD[5:], GOOD[0]])
    write(tmp_path / "log", "c.jsonl.open", [record(99, "leader", 5, term=4)])
    store = Warehouse.open(tmp_path / "warehouse")
    assert ingest(spark, tmp_path / "log", store) == Ingested(21, len(GOOD) + 1, len(bad), 0)
    assert ingest(spark, tmp_path / "log", store) == Ingested(0, 0, 0, 0)
    stored = store.table(spark, "cleaned", CLEANED)
    rows = {row.id: row for row in stored.collect()}
    assert len(rows) == len(GOOD) + 1
    assert {name.partition("+")[0] for name in rows} == {json.loads(line)["id"] for line in GOOD}
    assert [(rows[name].service, rows[name].register_id) for name in ("n/12+0", "n/12+1")] == [("b", "r9"), ("b", "r8")]
    problems = {row.problem for row in spark.read.parquet(store.place("quarantine")).collect()}
    assert problems == {
        "schema version 2 is newer than 1: update slotreeve",
        "unknown kind nonsense",
        "registered without services",
        "services, register_ids, versions differ in length",
        "no schema version v",
        "not a JSON record (torn or damaged)",
    }
    write(tmp_path / "log", "d.jsonl", [record(20, "leader", 50, term=5), GOOD[1]])
    assert ingest(spark, tmp_path / "log", store) == Ingested(2, 1, 0, 0)


def load(slot: int, records: int, writes_per_second: float) -> dict[str, object]:
    return {"slot": slot, "records": records, "bytes": 10 * records, "writes_per_second": writes_per_second}


LOADS = [
    record(20, "loads", 30_000, loads=[load(0, 9, 9.0), load(1, 20, 0.0)]),
    record(21, "loads", 60_000, loads=[load(0, 30, 2.5)]),
]


def test_spark_reads_every_field_that_a_server_writes(spark: SparkSession) -> None:
    event = Event(
        v=1,
        id="n@1/1",
        at_ms=START_MS,
        node="n",
        kind="table",
        service="a",
        services=["a", "b"],
        register_ids=["r1", "r2"],
        versions=[1, 2**40],
        subscribers=3,
        changes=[PushedVersion("r1", 7), PushedVersion("r2", None)],
        epoch=2**40,
        term=2**40,
        reason="data-2 left",
        changed=[SlotHolders(0, "data-1", 2**40, ("data-2", "data-3")), SlotHolders(1, None, 0, ())],
        moves=[SlotMove(0, "leader", None, "data-1", "slot 0 lacks a leader")],
        member="data-1",
        role="data",
        zone="z",
        weight=1.5,
        leader="meta-1",
        loads=[RecordedLoad(3, 2**40, 2**41, 0.5)],
    )
    assert all(getattr(event, name) is not None for name in Event.__struct_fields__)
    line = msgspec.json.encode(event).decode()
    (row,) = parse(spark.createDataFrame([(line, "a.jsonl", None)], RAW)).collect()
    assert row.problem is None
    assert row.record.asDict(True) == {**json.loads(line), "corrupt": None}


def test_a_file_that_is_no_text_is_put_aside(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "log", "a.jsonl", GOOD[:2])
    (tmp_path / "log" / "b.jsonl").write_bytes(random.Random(1).randbytes(500) + b"\n" + b"\xff\xfe")
    done = ingest(spark, tmp_path / "log", Warehouse.open(tmp_path / "w"))
    assert done.cleaned == 2
    assert done.quarantined == done.lines - 2 > 0


def test_a_table_of_an_older_version_is_read_with_its_new_columns_empty(spark: SparkSession, tmp_path: Path) -> None:
    store = Warehouse.open(tmp_path / "w")
    spark.sql("select timestamp'2026-01-01' as at, 'n/1' as id, 'leader' as kind").write.parquet(store.place("cleaned"))
    (row,) = store.table(spark, "cleaned", CLEANED).collect()
    assert (row.id, row.kind, row.term, row.moves) == ("n/1", "leader", None, None)


def test_a_record_that_is_too_late_is_dropped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    store = Warehouse.open(tmp_path / "w")
    write(tmp_path / "log", "a.jsonl", [record(1, "leader", 10 * 3_600_000, term=1)])
    ingest(spark, tmp_path / "log", store, "1 hour")
    write(tmp_path / "log", "b.jsonl", [record(2, "leader", 0, term=1), record(3, "leader", 11 * 3_600_000, term=1)])
    assert ingest(spark, tmp_path / "log", store, "1 hour") == Ingested(2, 1, 0, 1)


def test_marts_are_empty_at_first_and_answer_their_questions_later(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    store = Warehouse.open(tmp_path / "w")
    assert ingest(spark, tmp_path / "log", store) == Ingested(0, 0, 0, 0)
    assert set(marts.build(spark, store).values()) == {0}
    with pytest.raises(ConfigError, match="no data server ever joined"):
        recorded_trace(spark, store)

    write(tmp_path / "log", "a.jsonl", GOOD)
    write(tmp_path / "log", "b.jsonl", LOADS)
    ingest(spark, tmp_path / "log", store)
    assert marts.build(spark, store)["moves"] == 3
    keys = open_keys(spark, f"events:{tmp_path / 'w'}").frame
    assert sorted(row.key for row in keys.collect()) == ["a", "b", "c"]

    def mart(name: str) -> list[dict[str, object]]:
        return [row.asDict(True) for row in spark.read.parquet(store.place(f"marts/{name}")).collect()]

    timeline = sorted(mart("service_timeline"), key=lambda row: str(row["at"]))
    assert [(row["register_id"], row["providers"]) for row in timeline] == [("r1", 1), ("r2", 2), ("r1", 1)]
    latencies = {row["service"]: row for row in mart("push_latency")}
    assert (latencies["a"]["pushes"], latencies["a"]["p50_ms"], latencies["a"]["longest_ms"]) == (1, 15, 15)
    assert (latencies["c"]["pushes"], latencies["c"]["measured"], latencies["c"]["p50_ms"]) == (1, 0, None)
    assert {(row["cause"], row["moves"]) for row in mart("moves_by_cause")} == {
        ("slot _ lacks a leader", 2),
        ("_ left", 1),
    }
    assert {(row["service"], row["stale_seconds"]) for row in mart("staleness")} == {
        ("a", 0.0),
        ("b", None),
        ("c", 0.0),
    }

    before, after = instant(str(START_MS + 200)), instant("2023-11-14T22:13:21Z")
    rows = {row.slot: row for row in table_at(spark, store, before).collect()}
    assert (rows[1].leader, rows[1].followers, rows[1].epoch) == ("data-2", ["data-1"], 1)
    assert table_at(spark, store, instant(str(START_MS + 99))).count() == 0
    (changed,) = difference(spark, store, before, after).collect()
    assert (changed.slot, changed.leader_before, changed.leader_after) == (1, "data-2", "data-1")
    trace = recorded_trace(spark, store)
    assert trace.servers == (Server("data-1", "z"), Server("data-2"))
    assert trace.changes == (MembershipChange(0.39, leaves=("data-2",)),)
    assert trace.loads == {0: SlotLoad(30, 300, 2.5), 1: SlotLoad(20, 200, 0.0)}


def test_what_is_not_there_is_a_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    store = Warehouse.open(tmp_path / "w")
    with pytest.raises(ConfigError, match="there is no such directory of event logs"):
        ingest(spark, tmp_path / "nowhere", store)
    with pytest.raises(ConfigError, match="run `slotreeve spark marts` first"):
        table_at(spark, store, instant("2026-01-01"))
    with pytest.raises(ConfigError, match="`slotreeve spark ingest` makes one"):
        Warehouse.existing(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is no moment"):
        instant("yesterday")
    (tmp_path / "log").mkdir()
    with pytest.raises(ConfigError, match="is no interval"):
        ingest(spark, tmp_path / "log", store, "a while")


def test_lines_of_moments_that_no_clock_shows_are_put_aside_and_stop_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Warehouse.open(tmp_path / "w")
    far = [2**63 - 1, 8_000_000_000_000_000, -1, 4_102_444_800_000]  # the last one: the year 2100
    odd = [record(40 + n, "leader", 0, term=1, at_ms=at) for n, at in enumerate(far)]
    holes = [
        record(30, "registered", 0, services=[], register_ids=[], versions=[]),
        record(31, "registered", 0, services=["a", None], register_ids=["r1", "r2"], versions=[1, 1]),
    ]
    write(tmp_path / "log", "a.jsonl", [*odd, *holes, GOOD[0]])
    assert ingest(spark, tmp_path / "log", store) == Ingested(7, 1, 6, 0)
    problems = sorted(row.problem for row in spark.read.parquet(store.place("quarantine")).collect())
    assert problems == sorted(
        [
            *["at_ms is no moment from 1970 to 9999"] * 3,
            "at_ms is over a day ahead of the clock of who took the line in",
            *["services is empty, or has a hole"] * 2,
        ]
    )
    write(tmp_path / "log", "b.jsonl", [GOOD[1]])
    assert ingest(spark, tmp_path / "log", store) == Ingested(1, 1, 0, 0)


def test_segments_are_read_however_old_their_files_are_and_whatever_their_server_is_called(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Warehouse.open(tmp_path / "w")
    for number, name in enumerate(("new", "old")):
        write(tmp_path / "log", f"{name}.jsonl", [GOOD[number]])
    os.utime(tmp_path / "log" / "old.jsonl", (1_000_000_000, 1_000_000_000))
    hidden = Segments(tmp_path / "log", "_data-1@1", 10_000)
    hidden.append(GOOD[2].encode() + b"\n")
    hidden.finish()
    assert ingest(spark, tmp_path / "log", store) == Ingested(3, 3, 0, 0)


def test_the_table_of_a_moment_has_one_row_for_each_slot_although_a_new_leaders_clock_is_behind(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Warehouse.open(tmp_path / "w")
    lines = []
    for n, at in ((4, 0), (5, 100_000), (6, 92_000), (7, 200_000)):
        held = {"slot": 0, "leader": f"d{n}", "leader_epoch": n, "followers": []}
        lines.append(record(n, "table", at, epoch=n, term=n, changed=[held], moves=[]))
    write(tmp_path / "log", "a.jsonl", lines)
    ingest(spark, tmp_path / "log", store)
    marts.build(spark, store, ["slot_history"])
    for seconds, leader in ((50, "d4"), (95, "d6"), (150, "d6"), (250, "d7")):
        moment = instant(str(START_MS + 1_000 * seconds))
        assert [row.leader for row in table_at(spark, store, moment).collect()] == [leader]
    (row,) = in_words(table_at(spark, store, instant(str(START_MS + 50_000))), "since").collect()
    assert row.since == "2023-11-14T22:13:20.000Z"


def test_what_happens_in_one_millisecond_never_makes_fewer_providers_than_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = Warehouse.open(tmp_path / "w")
    write(
        tmp_path / "log",
        "a.jsonl",
        [
            record(9, "registered", 5, services=["a"], register_ids=["r"], versions=[1]),
            record(10, "unregistered", 5, services=["a"], register_ids=["r"], versions=[2]),
        ],
    )
    ingest(spark, tmp_path / "log", store)
    marts.build(spark, store, ["service_timeline"])
    assert {row.providers for row in store.mart(spark, "service_timeline").collect()} == {0}


def test_a_mart_that_was_left_half_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    store = Warehouse.open(tmp_path / "w")
    (tmp_path / "w" / "marts" / "slot_history" / "_temporary").mkdir(parents=True)
    with pytest.raises(ConfigError, match="is not whole; run `slotreeve spark marts` again"):
        table_at(spark, store, instant("2026-01-01"))


def test_following_goes_on_until_a_query_stops(spark: SparkSession, tmp_path: Path) -> None:
    store = Warehouse.open(tmp_path / "w")
    write(tmp_path / "log", "a.jsonl", GOOD[:2])
    queries = follow(spark, tmp_path / "log", store)
    waiting = threading.Thread(target=wait, args=(spark,))
    waiting.start()
    try:
        waiting.join(3)
        assert waiting.is_alive()
        assert all(query.isActive for query in queries)
    finally:
        for query in queries:
            query.stop()
        waiting.join(60)
    assert not waiting.is_alive()


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-14:00", "67768040609740800000", "now", "-1"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no moment"):
        instant(text)
