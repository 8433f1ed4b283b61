"""The past of a whole cluster: what was, what happened, and why."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from slotreeve.errors import ClientError
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Message
from slotreeve_client.administration import ask_any, put_config
from slotreeve_client.history import PastService, Span, _weight, past_changes, past_events, service_at
from slotreeve_client.slot_reads import slot_reads
from slotreeve_conformance import virtual_time
from slotreeve_events.history_files import HistoryFiles, StateAt
from slotreeve_events.stories import change_sentence, decoded_event, move_sentences, sentence
from slotreeve_protocol.history_messages import (
    ChangePage,
    EventPage,
    GetChanges,
    GetEvents,
    GetServiceAt,
    HistoryEvent,
    KnownState,
    ServiceAt,
    ServiceChange,
)
from slotreeve_protocol.meta_messages import GetLeader, GetView, LeaderIs, View
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.client.scripted_server import ScriptedServer

T = TypeVar("T")
SERVICE = "com.example.Greeter"
Scenario = Callable[["Watched"], Coroutine[object, object, T]]


class Watched:
    """A cluster with a history, and somebody who asks it."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.clock = virtual_time.VirtualClock()
        self.transport = MemoryTransport(self.clock, "tool", cluster.network)

    @property
    def metas(self) -> list[str]:
        return [self.cluster.address(name) for name in self.cluster.servers if name.startswith("meta")]

    async def at(self, at_ms: int) -> PastService:
        return await service_at(self.transport, "slotreeve", self.metas, SERVICE, at_ms)

    async def providers(self, at_ms: int) -> list[str]:
        past = await self.at(at_ms)
        assert not past.silent
        return sorted((record.data or (b"",))[0].decode() for record in past.records.values())

    async def story(self) -> list[str]:
        past = await past_changes(self.transport, "slotreeve", self.metas, SERVICE)
        return [change_sentence(change) for _, row in past.changes for change in row.changes]

    async def told(self, *kinds: str) -> list[str]:
        past = await past_events(self.transport, "slotreeve", self.metas, kinds=kinds)
        return [sentence(decoded_event(event.event)) for _, event in past.events]


def play(tmp_path: Path, scenario: Scenario[T], seed: int = 5, **settings: object) -> T:
    async def main(rng: random.Random) -> T:
        every = {
            "history.directory": str(tmp_path),
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        async with SimulatedCluster(rng, meta=3, data=3, session=2, settings=every) as cluster:
            return await scenario(Watched(cluster))

    return virtual_time.run(main, seed=seed)


def test_what_a_service_was_is_known_after_its_slot_has_moved_and_servers_have_died(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        cluster, was = it.cluster, dict[int, list[str]]()
        client = cluster.client()
        kept = [client.publish(SERVICE, f"10.0.0.{number}:80") for number in range(3)]
        await client.flush()
        for second in range(12):
            if second == 3:
                kept[0].unpublish()
            if second == 5:
                (leader,) = {await leader_of(it)}
                await cluster.stop(leader)
            if second == 9:
                client.publish(SERVICE, "10.0.0.9:80")
            await client.flush()
            await asyncio.sleep(1)
            was[it.clock.wall_ms()] = sorted(provider.data[0].decode() for provider in await client.get(SERVICE))
        for at_ms, providers in was.items():
            assert await it.providers(at_ms - 1) == providers, f"{at_ms}: {was}"
        before = await it.at(next(iter(was)) - 60_000)
        assert before.known is KnownState.BEFORE_A_CHANGE

    play(tmp_path, scenario)


async def leader_of(it: Watched) -> str:
    """The data server that told of the last change."""
    return (await it.at(it.clock.wall_ms())).server


def test_each_end_is_told_with_its_reason(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        cluster = it.cluster
        keeper = cluster.client("session-2")
        keeper.publish(SERVICE, "keeps")
        leaver, unpublisher, lost = (cluster.client("session-2", name=name) for name in ("leaver", "un", "lost"))
        for client in (leaver, unpublisher, lost):
            registration = client.publish(SERVICE, client.client_id)
            await client.flush()
            if client is unpublisher:
                registration.unpublish()
                await client.flush()
        await leaver.close()
        cluster.kill("lost")
        await asyncio.sleep(60)
        stranded = cluster.client("session-1", name="stranded")
        stranded.publish(SERVICE, "stranded")
        await stranded.flush()
        cluster.kill("stranded")
        cluster.kill("session-1")
        await asyncio.sleep(120)
        story = "\n".join(await it.story())
        for reason in (
            "its client left.",
            "its client unpublished it",
            "its client was lost",
            "its session server is gone (process session-1@",
        ):
            assert reason in story, story

    play(tmp_path, scenario)


def test_moves_leaders_departures_and_orders_are_told_with_cause_and_author(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        cluster = it.cluster
        await asyncio.sleep(5)
        cluster.kill("data-2")
        await asyncio.sleep(30)
        value = Orders(push_stopped=True).encode()
        await put_config(it.transport, "slotreeve", it.metas, ORDERS_KEY, value)
        await put_config(it.transport, "slotreeve", it.metas, "com.example.secret", b"hidden-value")
        await asyncio.sleep(5)
        told = "\n".join(await it.told())
        assert "data server data-2 left: " in told
        assert "leads in term" in told
        assert "data-2" in "\n".join(await it.told("table"))
        assert f"wrote {ORDERS_KEY}" in told
        assert "pushes are stopped" in told
        assert "wrote com.example.secret" in told
        assert "hidden-value" not in told

    play(tmp_path, scenario)


def test_a_server_that_does_not_answer_is_named_and_the_others_tell_what_they_know(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        client = it.cluster.client()
        client.publish(SERVICE, "a")
        await client.flush()
        await asyncio.sleep(2)
        others = {"data-1", "data-2", "data-3"} - {await leader_of(it)}
        frozen = min(others)
        it.cluster.freeze(frozen)
        past = await it.at(it.clock.wall_ms())
        assert set(past.silent) == {frozen}
        assert [record.data for record in past.records.values()] == [(b"a",)]

    play(tmp_path, scenario)


def test_one_who_follows_gets_each_event_once(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        past = await past_events(it.transport, "slotreeve", it.metas, Span(), most=3)
        clients = []
        seen, places = [event.event for _, event in past.events], dict[str, int]()
        for _ in range(6):
            for server, event in past.events:
                places[server] = max(places.get(server, 0), event.place)
            client = it.cluster.client()
            clients.append(client.client_id)
            client.publish(SERVICE, "a")
            await client.flush()
            await asyncio.sleep(2)
            past = await past_events(it.transport, "slotreeve", it.metas, Span(), ("client_joined",), 100, places)
            seen += [event.event for _, event in past.events]
        assert len(seen) == len(set(seen))
        joined = [decoded_event(body).member for body in seen if decoded_event(body).kind == "client_joined"]
        assert set(clients) <= set(joined)

    play(tmp_path, scenario)


def test_a_history_survives_the_restart_of_its_server(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        client = it.cluster.client()
        client.publish(SERVICE, "a")
        await client.flush()
        await asyncio.sleep(2)
        then = it.clock.wall_ms()
        for name in ("data-1", "data-2", "data-3"):
            await it.cluster.stop(name)
            await it.cluster.start(name)
            await it.cluster.ready()
        assert await it.providers(then) == ["a"]

    play(tmp_path, scenario)


def test_slots_that_wait_for_a_frozen_session_server_are_told_with_its_name_and_that_it_is_over(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        cluster = it.cluster
        client = cluster.client("session-1")
        client.publish(SERVICE, "a")
        await client.flush()
        cluster.freeze("session-2")
        cluster.kill("data-1")
        await asyncio.sleep(4)
        told = "\n".join(await it.told("slots_wait"))
        assert "slots wait for the records of session-2@" in told
        assert "any more" not in told
        cluster.thaw("session-2")
        await asyncio.sleep(30)
        assert "no slot waits for session-2@" in "\n".join(await it.told("slots_wait"))

    play(tmp_path, scenario)


def test_a_quiet_take_over_tells_of_no_slot_that_waits(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        await asyncio.sleep(2)
        it.cluster.kill("data-1")
        await asyncio.sleep(20)
        assert await it.told("slots_wait") == []
        assert any("data-1" in line for line in await it.told("table"))

    play(tmp_path, scenario)


def test_while_a_leader_without_a_copy_gathers_what_there_is_nothing_is_told_as_exact(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        clients = [it.cluster.client(f"session-{1 + number % 2}") for number in range(8)]
        for number, client in enumerate(clients):
            client.publish(SERVICE, f"{number}")
            await client.flush()
        await asyncio.sleep(2)
        leader, since_ms = await leader_of(it), it.clock.wall_ms()
        it.cluster.kill(leader)
        await asyncio.sleep(0.5)
        it.cluster.freeze("session-2")
        await asyncio.sleep(2)
        it.cluster.thaw("session-2")
        await asyncio.sleep(10)
        await it.cluster.start(leader)
        await it.cluster.ready()
        await asyncio.sleep(2)
        for at_ms in range(since_ms, it.clock.wall_ms(), 5):
            past = await it.at(at_ms)
            assert len(past.records) == 8, f"{at_ms - since_ms} ms later it was {past.known}"

    play(tmp_path, scenario, cluster__replicas=1)


def test_what_a_follower_missed_is_not_unsaid_by_its_history_once_the_leader_has_died(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        client = it.cluster.client()
        client.publish(SERVICE, "first")
        await client.flush()
        await asyncio.sleep(2)
        leader = await leader_of(it)
        others = [name for name in ("data-1", "data-2", "data-3") if name != leader]
        it.cluster.network.partition([leader], others)
        await asyncio.sleep(30)
        client.publish(SERVICE, "second")
        await client.flush()
        await asyncio.sleep(1)
        it.cluster.network.heal()
        await asyncio.sleep(20)
        then = it.clock.wall_ms()
        await asyncio.sleep(1)
        it.cluster.kill(leader)
        await it.cluster.ready()
        await asyncio.sleep(20)
        past = await it.at(then)
        assert sorted((r.data or (b"",))[0] for r in past.records.values()) == [b"first", b"second"], past

    play(tmp_path, scenario)


ABSURD = (
    GetEvents(-(1 << 62), 1 << 62, ("", "x" * 10_000, "\0"), 1 << 62, most=0),
    GetEvents(0, (1 << 64) - 1, (), -(1 << 63), True, most=-5),
    GetEvents(5, 4, after=(1 << 64) - 1, most=1 << 62),
    GetChanges("x" * 10_000, -(1 << 63), 1 << 62, most=0),
    GetChanges("\0%_'", 0, (1 << 64) - 1, most=1 << 62),
    GetServiceAt("", -(1 << 63)),
    GetServiceAt("x" * 100_000, (1 << 64) - 1, "\U0010ffff"),
)


def test_absurd_questions_are_answered_or_refused_and_cost_nothing_else(tmp_path: Path) -> None:
    async def scenario(it: Watched) -> None:
        client = it.cluster.client()
        client.publish(SERVICE, "a")
        await client.flush()
        await asyncio.sleep(2)
        for name in ("data-1", "data-2", "data-3"):
            for question in ABSURD:
                with contextlib.suppress(ClientError):
                    reply = await ask_any(it.transport, "slotreeve", [it.cluster.address(name)], question)
                    assert isinstance(reply, EventPage | ChangePage | ServiceAt)
        assert await it.providers(it.clock.wall_ms()) == ["a"]
        assert (await it.at(it.clock.wall_ms())).known is KnownState.EXACTLY

    play(tmp_path, scenario)


def test_pages_that_never_end_are_refused() -> None:
    record = Publisher("r", f"{SERVICE}#@#i#@#g", 1, 1, "s", "", (b"x",))
    change = ServiceChange("s", 5, 1, True, [])
    node = Node("data-1", Role.DATA, "data-1:1", "data-1@1")
    same: dict[type[Message], Message] = {
        GetLeader: LeaderIs(1, "data-1", "data-1:1"),
        GetView: View(1, 1, SlotTable(), [node], []),
        GetServiceAt: ServiceAt(KnownState.EXACTLY, 1, 1, 1, [record], more=True),
        GetChanges: ChangePage(1, [change], more=True),
        GetEvents: EventPage(1, 0, [HistoryEvent(7, b"{}")], more=True),
    }

    async def main(_rng: random.Random) -> None:
        network = MemoryNetwork()
        server = await ScriptedServer(network, "data-1").start()
        server.admits = False
        server.answer = lambda message: same[type(message)]
        asked = MemoryTransport(virtual_time.VirtualClock(), "tool", network), "slotreeve", [server.address]
        for past in (
            await past_changes(*asked, "s"),
            await past_events(*asked),
            await past_events(*asked, after={}),
        ):
            assert "data-1 answers with the same page again" in past.silent.values()

    virtual_time.run(main)


def test_the_state_of_a_large_service_is_read_once_and_comes_in_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    state = HistoryFiles.state

    def counted(files: HistoryFiles, name: str, at_ms: int) -> StateAt:
        asked.append(at_ms)
        return state(files, name, at_ms)

    async def scenario(it: Watched) -> None:
        client = it.cluster.client()
        for number in range(30):
            client.publish(SERVICE, str(number) * 30_000)
        await client.flush()
        await asyncio.sleep(2)
        monkeypatch.setattr(HistoryFiles, "state", counted)
        assert len((await it.at(it.clock.wall_ms())).records) == 30
        assert len(asked) == 3, "once by each data server"

    play(tmp_path, scenario)


def test_of_one_epoch_one_who_knows_exactly_outweighs_one_who_lacks_a_part() -> None:
    exact = ServiceAt(KnownState.EXACTLY, 100, 5, 1, [])
    lacks = ServiceAt(KnownState.AS_NOW, 150, 5, 1, [])
    later = ServiceAt(KnownState.AS_NOW, 50, 6, 1, [])
    assert sorted([later, lacks, exact], key=_weight) == [lacks, exact, later]


def table_of(it: Watched) -> SlotTable:
    return max(it.cluster.views(), key=lambda view: view.revision).table


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_how_long_slots_could_not_be_read_is_told_with_the_reason_when_it_is_over(tmp_path: Path, how: str) -> None:
    async def scenario(it: Watched) -> None:
        cluster, clock = it.cluster, asyncio.get_running_loop().time
        await cluster.ready()
        await asyncio.sleep(2)
        before = max(cluster.views(), key=lambda view: view.revision)
        led = [slot.id for slot in before.table.slots if slot.leader == "data-1"]
        assert led
        gone_at = clock()
        if how == "killed":
            cluster.kill("data-1")
        else:
            cluster.freeze("data-1")
        await cluster.until(lambda: all(slot.leader != "data-1" for slot in table_of(it).slots), "others lead", 60)
        await asyncio.sleep(0.5)
        lasted = clock() - gone_at
        found = await slot_reads(it.transport, "slotreeve", [node for node in before.data if node.name != "data-1"])
        assert not found.silent
        for number in led:
            reads = found.slots[number]
            assert lasted - 1.5 < reads.hour_seconds < lasted + 1.5
            assert (reads.open_seconds, reads.day_seconds) == (0.0, reads.hour_seconds)
        past = await past_events(it.transport, "slotreeve", it.metas, kinds=("slots_unreadable",))
        events = [decoded_event(event.event) for _, event in past.events]
        (line,) = [line for event in events for line in move_sentences(event, led[0]) if "is gone" in line]
        assert re.fullmatch(
            rf"slot {led[0]} could not be read for [\d.]+ m?s: data-1, which led it, is gone; data-\d serves it now.",
            line,
        )
        assert any(re.match(r"\d+ slots \(.*\) could not be read for up to", sentence(event)) for event in events)

    play(tmp_path, scenario)
