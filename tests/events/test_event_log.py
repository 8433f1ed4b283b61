"""The event log that servers write for the pipeline on Spark."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import msgspec
import pytest
from slotreeve.clock import LoopClock
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve_conformance import virtual_time
from slotreeve_events.disk_jobs import CLOSE_SECONDS, Work, Worked
from slotreeve_events.log import SEGMENT_SECONDS, EventLog
from slotreeve_events.schema import KINDS, Event
from slotreeve_events.segments import Segments
from slotreeve_events.settings import EventSettings
from slotreeve_machines.beside import InTurn
from slotreeve_simulator.simulated_cluster import SimulatedCluster

NODE = Node("session-127.0.0.1:1", Role.SESSION, "127.0.0.1:1", "session-127.0.0.1:1@abc")
RECORD = Publisher("r1", "com.example.A#@#i#@#g", 3, 1, NODE.process_id, "", (b"x",))


def read(directory: Path, pattern: str = "*.jsonl") -> list[Event]:
    lines = [line for file in sorted(directory.glob(pattern)) for line in file.read_bytes().splitlines()]
    return sorted((msgspec.json.decode(line, type=Event) for line in lines), key=lambda event: (event.at_ms, event.id))


def test_the_log_of_a_cluster_holds_every_kind_of_event(tmp_path: Path) -> None:
    async def scenario(rng: random.Random) -> None:
        cluster = SimulatedCluster(rng, meta=1, settings={"events.path": str(tmp_path)})
        async with cluster:
            client, watcher = cluster.client(), cluster.client()
            seen: list[object] = []
            watcher.subscribe("com.example.A", lambda service: seen.append(service))
            await asyncio.sleep(1)
            registration = client.publish("com.example.A", "10.0.0.1:1")
            await client.flush()
            await cluster.until(lambda: seen, "the push has come")
            await asyncio.sleep(1)
            registration.unpublish()
            await client.flush()
            client.publish("com.example.B", "10.0.0.1:2")
            await client.flush()
            cluster.kill("data-1")
            await cluster.ready()
            lost = cluster.client("session-2", name="lost")
            lost.publish("com.example.Lost", "10.0.0.1:3")
            await lost.flush()
            cluster.kill("session-2")
            cluster.kill("lost")
            await asyncio.sleep(45)

    virtual_time.run(scenario, seed=3)
    events = read(tmp_path)
    assert len({event.id for event in events}) == len(events)
    assert {event.v for event in events} == {1}
    assert {event.kind for event in events} == KINDS.keys()
    for event in events:
        assert all(getattr(event, name) is not None for name in KINDS[event.kind])
    service = "com.example.A#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
    of_a = [
        (event.kind, version)
        for event in events
        for name, version in zip(event.services or (), event.versions or (), strict=True)
        if name == service
    ]
    assert of_a[:2] == [("registered", 1), ("unregistered", 2)]
    lost = [
        event for event in events if "com.example.Lost#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" in (event.services or ())
    ]
    # The event of its registration is in a segment of the killed session server, which is not finished.
    assert [(event.kind, event.node.partition("-")[0]) for event in lost] == [("expired", "data")]
    pushed = next(event for event in events if event.kind == "pushed" and event.changes)
    assert pushed.changes is not None
    assert pushed.changes[0].version == 1
    tables = [event for event in events if event.kind == "table"]
    assert len(tables[0].changed or ()) == 16
    assert {change.leader for change in tables[-1].changed or ()} <= {"data-2", "data-3"}
    assert all(move.reason for event in tables for move in event.moves or ())
    left = next(event for event in events if event.kind == "node_left")
    assert (left.member, left.role, left.reason) == ("data-1", "data", "connection lost")


def log_in(directory: Path, segment_bytes: int) -> EventLog:
    clock = LoopClock()
    return EventLog(
        Segments(directory, NODE.process_id, segment_bytes), NODE, clock, InTurn(clock).run, EventSettings()
    )


def test_segments_are_finished_when_they_are_full_and_when_their_server_starts_again(tmp_path: Path) -> None:
    async def scenario(_rng: random.Random) -> None:
        first = log_in(tmp_path, 1_000)
        for _ in range(3):
            for _ in range(30):
                first.registration(RECORD)
            first.flush()
            await asyncio.sleep(0)
        first.registration(RECORD)
        first.flush()
        await asyncio.sleep(0)
        descriptor = first._segments._descriptor
        assert descriptor is not None
        os.close(descriptor)  # as where the process is killed

    virtual_time.run(scenario)
    assert len(list(tmp_path.glob("*.jsonl"))) == 3
    (unfinished,) = tmp_path.glob("*.open")
    with unfinished.open("ab") as file:
        file.write(b'{"v":1,"id":"torn')
    Segments(tmp_path, NODE.process_id.replace("abc", "def"), 1_000)
    assert not list(tmp_path.glob("*.open"))
    assert len(list(tmp_path.glob("*.jsonl"))) == 4
    assert all(":" not in file.name for file in tmp_path.iterdir())


def test_the_registrations_of_one_turn_are_one_event_in_order(tmp_path: Path) -> None:
    async def scenario(_rng: random.Random) -> None:
        log = log_in(tmp_path, 1_000_000)
        for version in (1, 2):
            log.registration(msgspec.structs.replace(RECORD, version=version))
        log.registration(msgspec.structs.replace(RECORD, version=3, data=None))
        log.pushed(RECORD.data_info_id, {RECORD.register_id: None}, 1)
        log.registration(msgspec.structs.replace(RECORD, version=4))
        await asyncio.sleep(0)
        log.registration(msgspec.structs.replace(RECORD, version=5))
        await log.close()

    virtual_time.run(scenario)
    found = [(event.id.rpartition("/")[2], event.kind, event.versions) for event in read(tmp_path)]
    assert found == [
        ("1", "registered", [1, 2]),
        ("2", "unregistered", [3]),
        ("3", "pushed", None),
        ("4", "registered", [4]),
        ("5", "registered", [5]),
    ]


def test_the_segment_of_a_quiet_server_is_finished_after_five_minutes(tmp_path: Path) -> None:
    def is_open() -> bool:
        return any(tmp_path.glob("*.open"))

    async def scenario(_rng: random.Random) -> None:
        log = log_in(tmp_path, 1_000_000)
        for _ in range(2):
            log.registration(RECORD)
            await asyncio.sleep(SEGMENT_SECONDS - 1)
            assert is_open()
            await asyncio.sleep(2)
            assert not is_open()

    virtual_time.run(scenario)
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_a_disk_that_fails_loses_events_but_does_not_stop_the_server(tmp_path: Path) -> None:
    async def scenario(_rng: random.Random) -> None:
        directory = tmp_path / "events"
        log = log_in(directory, 1_000)
        directory.rmdir()
        directory.write_text("a file in its place")
        log.registration(RECORD)
        log.flush()
        await asyncio.sleep(0)
        assert log.lost == 1
        await log.close()

    virtual_time.run(scenario)


def test_a_text_that_is_no_utf_8_costs_none_of_the_events_beside_it(tmp_path: Path) -> None:
    async def scenario(_rng: random.Random) -> None:
        log = log_in(tmp_path, 1_000_000)
        log.registration(RECORD)
        log.slotreeve_node_left(NODE, "stopped by \ud800")
        log.registration(RECORD)
        await log.close()

    virtual_time.run(scenario)
    assert [event.kind for event in read(tmp_path)] == ["registered", "node_left", "registered"]


def test_while_the_disk_hangs_events_wait_and_those_that_are_too_many_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotreeve_events.log.MOST_WAITING", 3)

    async def scenario(_rng: random.Random) -> None:
        clock, held = LoopClock(), list[tuple[Work, Worked]]()
        segments = Segments(tmp_path, NODE.process_id, 1_000_000)
        log = EventLog(segments, NODE, clock, lambda work, worked: held.append((work, worked)), EventSettings())
        for number in range(7):
            log.registration(msgspec.structs.replace(RECORD, version=number))
            await asyncio.sleep(1)
        assert (len(held), log.lost) == (1, 3)
        log.flush()
        await asyncio.sleep(1)
        assert len(held) == 1, "nothing more is begun"
        closing = asyncio.create_task(log.close())
        while held:
            work, worked = held.pop()
            worked(work(), None)
            await asyncio.sleep(0)
        await closing

    virtual_time.run(scenario)
    assert [event.versions for event in read(tmp_path)] == [[0], [1], [2], [3]]


def test_a_server_whose_disk_hangs_stops_without_its_last_events(tmp_path: Path) -> None:
    async def scenario(_rng: random.Random) -> None:
        segments = Segments(tmp_path, NODE.process_id, 1_000_000)
        log = EventLog(segments, NODE, LoopClock(), lambda work, worked: None, EventSettings())
        log.registration(RECORD)
        began = asyncio.get_running_loop().time()
        await log.close()
        assert asyncio.get_running_loop().time() - began == CLOSE_SECONDS

    virtual_time.run(scenario)
