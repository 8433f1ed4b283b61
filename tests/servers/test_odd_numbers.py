"""Numbers that no peer of ours sends: a message with one is dropped where it is read, and reaches no handler."""

from __future__ import annotations

import asyncio
import math
import random

import msgspec
import pytest
from slotreeve.errors import MalformedFrame, SlotreeveError
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Node, Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve_client import Client
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.client_messages import Datum, Get, PushesReceived, PushReceipt, Scope
from slotreeve_protocol.codec import decode_frame, encode_message
from slotreeve_protocol.meta_messages import Heartbeat, Leave
from slotreeve_protocol.slot_messages import (
    MOST_PARTS,
    Access,
    Compared,
    Fetch,
    Follow,
    PartDigests,
    ServicePart,
    SlotDifference,
    SlotDigests,
)
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.servers.node_scene import Reader

NODE = Node("data-1", Role.DATA, "data-1:1", "data-1@1")


def weighing(weight: float) -> Message:
    return Heartbeat(Node("data-1", Role.DATA, "data-1:1", "data-1@1", "", weight), 0, 0, [])


@pytest.mark.parametrize(
    "message",
    [
        Get("s", -1),
        Fetch(0, 1, "s", -(10**12)),
        PushesReceived([PushReceipt("s", Scope.DATA_CENTER, 1, 0, -1)]),
        *map(weighing, (-1.0, math.nan, math.inf)),
        *(Leave(NODE, "why", back) for back in (-1.0, -math.inf, math.nan, math.inf)),
        Follow([SlotDigests(0, 1, {}, {"s": PartDigests(16, {-1: 7})})]),
        Compared([SlotDifference(0, Access.ACCEPT, 1, True, {}, [ServicePart("s", 16, -1, [])])]),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_number_out_of_bounds_is_refused_where_it_is_read(message: Message) -> None:
    with pytest.raises(MalformedFrame, match=r"Expected `(int|float)` [<>]="):
        decode_frame(encode_message(message))


@pytest.mark.parametrize("count", [0, -1, -16, 3, 2 * MOST_PARTS])
def test_a_number_of_parts_that_is_no_power_of_two_is_refused_where_it_is_read(count: int) -> None:
    asked = Follow([SlotDigests(0, 1, {}, {"s": PartDigests(16, {})})])
    found = Compared([SlotDifference(0, Access.ACCEPT, 1, True, {}, [ServicePart("s", 16, 0, [])])])
    for message, place in ((asked, "s"), (found, 0)):
        fields = msgspec.msgpack.decode(encode_message(message)[1:])
        parts = fields[1][0][3 if place == "s" else 5][place]
        assert parts[0 if place == "s" else 1] == 16
        parts[0 if place == "s" else 1] = count
        with pytest.raises(MalformedFrame, match=f"a service in {count} parts; expected a power of two"):
            decode_frame(encode_message(message)[:1] + msgspec.msgpack.encode(fields))


async def one_page(cluster: SimulatedCluster) -> tuple[Client, Connection, Datum]:
    """A client with one registration, and the connection of another one that has read it."""
    client = cluster.client("session-1")
    client.publish("com.example.A", "here")
    await client.flush()
    odd = cluster.transport("odd", of="session-1")
    hello = Hello("slotreeve", "odd", Role.CLIENT, "odd@1")
    connection = await odd.connect(cluster.address("session-1"), hello, Reader(), 2.0)
    page = await connection.ask(Get(DataInfo.parse("com.example.A").id), 5)
    assert isinstance(page, Datum)
    return client, connection, page


@pytest.mark.parametrize("start", [1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_client_that_reads_from_behind_the_last_record_gets_an_empty_page_and_nobody_else_notices(start: int) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client, connection, page = await one_page(cluster)
            links = cluster.session("session-1").core.routes.linked
            before = dict(links)
            behind = await connection.ask(Get(page.data_info_id, start, page.version), 5)
            assert isinstance(behind, Datum)
            assert (behind.publishers, behind.total) == ([], 1)
            assert links == before
            assert len(await client.get("com.example.A")) == 1

    run(scenario, seed=1)


def test_a_client_that_reads_from_before_the_first_record_gets_no_answer_and_nobody_else_notices() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client, connection, page = await one_page(cluster)
            links = cluster.session("session-1").core.routes.linked
            before = dict(links)
            with pytest.raises(SlotreeveError):
                await connection.ask(Get(page.data_info_id, -(10**12), page.version), 5)
            await asyncio.sleep(1.0)
            assert links == before
            assert len(await client.get("com.example.A")) == 1

    run(scenario, seed=1)
