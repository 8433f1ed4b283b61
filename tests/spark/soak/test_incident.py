"""An incident on its way from the event log to the simulator: read from the warehouse, and, from a chaos run on real
processes, replayed to the same symptom and shrunk."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from slotreeve.errors import ConfigError
from slotreeve.model.data_info import short_name
from slotreeve_chaos.history import read
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.plan import plan
from slotreeve_simulator.scenario import Scenario, load_scenario
from slotreeve_spark.pipeline.history import instant
from slotreeve_spark.pipeline.ingest import ingest
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.seed.collect import recorded_incident
from slotreeve_spark.seed.facts import SeedLimits

from tests.spark.conftest import QUICK
from tests.spark.real.test_pipeline import START_MS, record, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPAN = instant(str(START_MS)), instant(str(START_MS + 60_000))


def registered(number: int, kind: str, after_ms: int, *ids: str, version: int = 1, service: str = "a") -> str:
    lists = {"services": [service] * len(ids), "register_ids": list(ids), "versions": [version] * len(ids)}
    return record(number, kind, after_ms, **lists)


def table(number: int, after_ms: int, epoch: int, slots: dict[int, list[str]]) -> str:
    """A table in which data-1 leads these slots, with these followers."""
    holders = [{"slot": s, "leader": "data-1", "leader_epoch": 1, "followers": names} for s, names in slots.items()]
    return record(number, "table", after_ms, node="meta-1", epoch=epoch, changed=holders)


LOG = [
    record(1, "node_joined", -9_000, member="session-1", role="session"),
    record(2, "leader", -9_000, node="meta-1", term=1, leader="meta-1"),
    table(3, -8_000, 1, {slot: ["data-2"] for slot in range(4)}),
    registered(4, "registered", -7_000, "old-1", "old-2", "gone-1"),
    registered(5, "expired", -6_000, "gone-1"),
    registered(6, "registered", -5_000, "quiet-1", service="z"),
    registered(7, "registered", 1_000, "old-1", version=2),
    registered(8, "registered", 2_000, "new-1", "new-2", service="b"),
    registered(9, "registered", 3_000, "old-1", version=2),
    registered(10, "unregistered", 4_000, "new-2", version=2, service="b"),
    record(11, "node_left", 9_000, member="session-1", role="session", reason="connection lost"),
    registered(12, "expired", 10_000, "old-1", "old-2", version=2),
    # Slots on their way to another follower have three copies until the new one is complete.
    table(14, 20_000, 2, {slot: ["data-3", "data-2"] for slot in (0, 1, 2)}),
    table(15, 21_000, 3, {slot: ["data-3"] for slot in (0, 1, 2)}),
    table(16, 30_000, 4, {slot: [] for slot in (0, 1)}),
    table(17, 31_000, 5, {3: ["data-3", "data-2"]}),
    registered(13, "registered", 60_000, "late-1"),
]


def ingested_incident(spark: SparkSession, directory: Path) -> Warehouse:
    """The log of the incident above, read into a warehouse."""
    write(directory / "log", "x.jsonl", LOG)
    warehouse = Warehouse.open(directory / "warehouse")
    assert ingest(spark, directory / "log", warehouse).quarantined == 0
    return warehouse


@pytest.fixture(scope="module")
def store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return ingested_incident(spark, tmp_path_factory.mktemp("incident"))


def test_only_so_much_is_read_as_the_limits_say_and_the_service_asked_for_is_among_it(
    spark: SparkSession, store: Warehouse
) -> None:
    found = recorded_incident(spark, store, SPAN, SeedLimits(services=1, clients=1), "z")
    assert [each.service for each in found.services] == ["z"]
    assert (found.all_services, found.clients, found.all_clients) == (3, ("quiet",), 1)


def test_where_nothing_was_recorded_there_is_a_clear_error(
    spark: SparkSession, store: Warehouse, tmp_path: Path
) -> None:
    later = instant(str(START_MS + 3_600_000)), instant(str(START_MS + 3_700_000))
    with pytest.raises(ConfigError, match=r"nothing was recorded between 2023-11-14T23:13:20.* the warehouse has ev"):
        recorded_incident(spark, store, later, SeedLimits())
    with pytest.raises(ConfigError, match="the warehouse has no events"):
        recorded_incident(spark, Warehouse.open(tmp_path / "empty"), SPAN, SeedLimits())
    with pytest.raises(ConfigError, match="--service nobody: nothing of it was recorded"):
        recorded_incident(spark, store, SPAN, SeedLimits(), "nobody")


# --- from a chaos run to the shortest simulation ---------------------------------------------------------------------

BEFORE, AFTER = timedelta(seconds=1), timedelta(seconds=5)
LONG_ENOUGH = timedelta(seconds=8)
"""A fault takes at most six seconds or so: there was another one before."""


def slotreeve(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slotreeve_cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=300)


@dataclass(frozen=True)
class Death:
    """A provider that was killed in a chaos run.

    Attributes:
        service: one that it published.
        register_id: of its registration.
        saw: subscribers that saw the instance before the death, and then a state without it.
        expired_at: when the event log says that the registration expired.
        since: time from the beginning of the first fault of the run to the death.
    """

    service: str
    register_id: str
    saw: set[str]
    expired_at: datetime
    since: timedelta


def deaths(directory: Path) -> Iterator[Death]:
    """The deaths of a chaos run, as its own clients and the event log have them."""
    history = list(read(directory / "chaos" / "history.jsonl"))
    began = next(each["t"] for each in history if each["kind"] == "fault")
    for dead in (each for each in history if each["kind"] == "died"):
        register_id = dead["register_ids"][0]
        service = next(r["service"] for r in history if r["kind"] == "published" and r["register_id"] == register_id)
        seen = [r for r in history if r["kind"] == "seen" and r["service"] == service]
        had = {r["subscriber"] for r in seen if r["t"] <= dead["t"] and register_id in r["instances"]}
        lost = {r["subscriber"] for r in seen if r["t"] > dead["t"] and register_id not in r["instances"]}
        for event in events(directory / "events"):
            if event["kind"] == "expired" and register_id in event["register_ids"]:
                since = timedelta(seconds=dead["t"] - began)
                yield Death(service, register_id, had & lost, instant(str(event["at_ms"])), since)


def events(log: Path) -> Iterator[dict[str, Any]]:
    for segment in sorted(log.glob("*.jsonl")):
        yield from map(json.loads, segment.read_text().splitlines())


def chaos_with_a_death(directory: Path) -> tuple[Death, Path]:
    """Record a chaos run in which a provider dies after some other fault. Chance decides which faults there are, so try
    again without one."""
    for number in range(3):
        directory = directory / str(number)
        directory.mkdir()
        faults = [part for kind in 3 * ["kill client"] + ["kill session"] for part in ("--only", kind)]
        options = (
            "--seed",
            str(number),
            "-d",
            str(directory / "chaos"),
            "--set",
            f"events.path={directory / 'events'}",
        )
        done = slotreeve("chaos", "run", "--minutes", "0.3", *faults, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        for death in reversed(list(deaths(directory))):
            if death.since > LONG_ENOUGH:
                return death, directory
    pytest.fail("no provider died after another fault in three chaos runs")


@pytest.mark.timeout(900)
def test_an_incident_of_a_chaos_run_is_replayed_to_the_same_symptom_and_shrunk(
    spark: SparkSession, tmp_path: Path
) -> None:
    death, recorded = chaos_with_a_death(tmp_path)
    assert death.saw, "no subscriber of the chaos run saw the loss"
    warehouse, file = tmp_path / "warehouse", tmp_path / "incident.toml"
    ingest(spark, recorded / "events", Warehouse.open(warehouse), unfinished=True)
    span = (
        "--from",
        (death.expired_at - death.since - BEFORE).isoformat(),
        "--to",
        (death.expired_at + AFTER).isoformat(),
    )
    conf = [part for key, value in QUICK.items() for part in ("--conf", f"{key}={value}")]
    seeding = ("spark", "seed", str(warehouse), *span, "--out", str(file), "--service", death.service)
    seeded = slotreeve(*seeding, "--master", "local[2]", *conf, "-o", "json")
    assert seeded.returncode == 0, seeded.stderr
    symptom = json.loads(seeded.stdout)["symptom"]
    assert symptom["service"] == death.service
    again = slotreeve(*seeding)
    assert (again.returncode, "there is such a file" in again.stderr) == (2, True), again.stderr

    scenario = load_scenario(str(file))
    played = slotreeve("sim", "run", "--scenario", str(file), "-o", "json")
    assert played.returncode == 1, played.stdout + played.stderr
    run = json.loads(played.stdout)
    # The simulated subscribers see what those of the chaos run saw: the service loses its instances, at that time.
    pattern = rf"symptom: client-\d+ saw {re.escape(death.service)} lose (\d+) instances? between .* and ([\d.]+) s"
    found = re.match(pattern, run["violation"])
    assert found is not None, run["violation"]
    assert int(found[1]) >= symptom["lost"]
    assert symptom["from_seconds"] <= float(found[2]) <= symptom["until_seconds"]
    # What is left of the timeline is what happened to the clients that published it, and it still shows the symptom.
    kept = kept_actions(scenario, run["replay"])
    assert 1 <= len(kept) == run["kept_faults"] < run["faults"]
    assert {kind for kind, _ in kept} <= {FaultKind.ADD_CLIENT, FaultKind.CRASH_CLIENT}
    assert FaultKind.CRASH_CLIENT in {kind for kind, _ in kept}
    assert {client for _, client in kept} <= publishers(scenario, death.service)
    replayed = slotreeve(*shlex.split(run["replay"])[1:], "--no-shrink", "-o", "json")
    assert death.service in json.loads(replayed.stdout)["violation"]


def kept_actions(scenario: Scenario, replay: str) -> set[tuple[FaultKind, str]]:
    only = re.search(r"--only '([\d,]*)'", replay)
    assert only is not None, replay
    numbers = {int(number) for number in only[1].split(",")}
    (storm,) = plan(scenario, 0, 1.0)
    return {(fault.kind, fault.first[0]) for fault in storm.faults if fault.number in numbers}


def publishers(scenario: Scenario, service: str) -> set[str]:
    assert scenario.recorded is not None
    return {f"client-{place + 1}" for place in scenario.recorded.publishers_of(short_name(service))}
