"""Listing services page by page, from several data servers at once."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotTable
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.client_messages import ListedUpTo, ListServices, Services
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_protocol.slot_messages import SlotWrite
from slotreeve_servers.data.announcing.listing import NAMES_PER_PAGE, Listing
from slotreeve_servers.data.slots.slots import HeldSlots
from slotreeve_servers.node.digests import led_digest
from slotreeve_servers.node.outbox import Peer
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.servers.recording_outbox import RecordingOutbox

READER = Peer("session-1", Role.SESSION, "session-1@1")


class Scene:
    """A data server that leads three slots."""

    def __init__(self, part_bytes: int) -> None:
        self.outbox, self.slots = RecordingOutbox(part_bytes=part_bytes), HeldSlots("data-1")
        self.slots.apply(SlotTable(1, tuple([Slot(number, "data-1", 1, ()) for number in range(3)])))
        for slot in self.slots.led():
            slot.serving = True
        self.listing = Listing(self.outbox, self.slots)

    def put(self, slot: int, *names: str) -> None:
        records = [Publisher(f"{name}-1", name, 1, 1, "session-1@1", "", ()) for name in names]
        self.slots.held[slot].apply(SlotWrite(slot, 1, records, [], []), 0.0)

    def pages(self, prefix: str) -> list[dict[str, int]]:
        found, after = list[dict[str, int]](), ListedUpTo()
        while True:
            page = self.listing.answer(READER, ListServices(prefix, after))
            found.append(page.counts)
            if page.upto is None:
                return found
            after = page.upto


def test_a_slot_that_is_not_served_yet_is_neither_listed_nor_said_to_be() -> None:
    scene = Scene(1 << 20)
    scene.put(0, "a")
    scene.put(1, "b")
    scene.slots.held[1].serving = False
    assert scene.listing.answer(READER, ListServices("")) == Services({"a": 1}, led=led_digest([(0, 1), (2, 1)]))


@given(st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(0, 2), max_size=40), st.integers(1, 200))
def test_the_pages_together_are_the_list_and_each_service_is_on_one_of_them(names: dict[str, int], limit: int) -> None:
    scene = Scene(limit)
    for name, slot in names.items():
        scene.put(slot, name)
    for prefix in ("", "a", "ab"):
        pages = scene.pages(prefix)
        expected = {name: 1 for name in names if name.startswith(prefix)}
        assert {name: count for page in pages for name, count in page.items()} == expected
        assert sum(map(len, pages)) == len(expected)
        assert all(sum(len(name) for name in page) <= limit + 4 for page in pages)
        assert scene.listing.answer(READER, ListServices(prefix)).counts == expected


def test_a_page_ends_after_very_many_names_although_few_are_asked_for() -> None:
    scene = Scene(1 << 20)
    scene.put(0, *(f"many-{number}" for number in range(NAMES_PER_PAGE)))
    scene.put(1, "few")
    assert scene.pages("few") == [{}, {"few": 1}]


def test_more_services_than_a_frame_holds_are_listed() -> None:
    async def scenario(rng: random.Random) -> None:
        limits = ChannelLimits(max_frame_bytes=256 * 1024, queue_bytes=4 * 1024 * 1024)
        async with SimulatedCluster(rng, settings={"node.part_bytes": 8 * 1024}, limits=limits) as cluster:
            client = cluster.client()
            names = {f"com.example.{'x' * 100}.{number}" for number in range(2_500)}
            for name in names:
                client.publish(name, "here")
            await client.flush()
            found = await client.list("com.example.")
            assert {name.partition("#@#")[0] for name in found} == names
            assert await client.list("com.example.y") == {}

    run(scenario, seed=3)


def test_no_service_is_missing_in_a_list_while_its_leader_dies_and_while_slots_move() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client = cluster.client()
            names = {f"com.example.{number}" for number in range(500)}
            for name in names:
                client.publish(name, "here")
            await client.flush()

            async def lists() -> int:
                number = 0
                while True:
                    found = {name.partition("#@#")[0] for name in await client.list()}
                    assert found == names, f"list {number} lacks {len(names - found)}"
                    number += 1
                    await asyncio.sleep(0.001)

            listing = asyncio.create_task(lists())
            await asyncio.sleep(0.1)
            cluster.kill("data-1")
            await asyncio.sleep(3.0)
            await cluster.start("data-1")
            await asyncio.sleep(3.0)
            assert not listing.done(), listing.result()
            listing.cancel()

    run(scenario, seed=5)
