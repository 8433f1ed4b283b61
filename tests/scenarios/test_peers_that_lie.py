"""Peers with good keys that say what they like: no server fails over it, and a client harms nobody but itself.

What a server says is believed (docs/trust.md), so a lying server may spoil what it is asked about. But nothing that it
says may raise anything in another process, then or later.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from slotreeve.errors import SlotreeveError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message
from slotreeve.ports.transport import dialled
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.senders import SENDERS

from tests.scenarios.keyed_cluster import KeyedCluster
from tests.scenarios.liar import Liar
from tests.servers.node_scene import Reader

MESSAGES = 400
SERVICES = ("com.example.Shop", "com.example.Till")
SERVERS = (Role.META, Role.DATA, Role.SESSION)
NAMES = {Role.META: "meta-9", Role.DATA: "data-9", Role.SESSION: "session-9", Role.CLIENT: "shop", Role.TOOL: "a-tool"}
FAILURES = ("handler_errors", "loop_failures")


class LiedTo(KeyedCluster):
    """``heard``: what a liar has heard of others: ids of clients, registrations and leases."""

    def __init__(self, rng: random.Random) -> None:
        rights = [f"{right}:{service}" for right in ("register", "read") for service in SERVICES]
        super().__init__(rng, rights, cluster__slots=2)
        self.heard = list[str]()

    def failures(self) -> dict[str, dict[str, int]]:
        found = {name: server.counters() for name, server in self.servers.items()}
        return {
            name: {failure: counters[failure] for failure in FAILURES}
            for name, counters in found.items()
            if any(counters[failure] for failure in FAILURES)
        }


def may_send(sender: Role, receiver: Role) -> list[type[Message]]:
    return [kind for kind, routes in SENDERS.items() if sender in routes.get(receiver, ())]


async def lie(cluster: LiedTo, rng: random.Random, sender: Role, receiver: str) -> None:
    """Connect with a good key, and say what this role may say, with values of all kinds."""
    name = NAMES[sender]
    transport = cluster.transport(name, of="session-1")
    view = cluster.session("session-1").view
    members = [*view.data, *view.sessions]
    processes, addresses = [node.process_id for node in members], [node.address for node in members]
    services = [*SERVICES, *(f"{service}#@#x#@#y" for service in SERVICES)]
    texts = [name, f"{name}@1", f"{name}/1-1", *cluster.servers, *processes, *addresses, *services, *cluster.heard]
    numbers = [view.term, view.revision, view.table.epoch, *(slot.leader_epoch for slot in view.table.slots)]
    liar = Liar(rng, texts, numbers)
    kinds = may_send(sender, Role(receiver.partition("-")[0]))
    own = f"{name}/1" if sender is Role.CLIENT else name
    hello = Hello("slotreeve", own, sender, f"{name}@1", f"127.0.0.1:{rng.randrange(2, 9)}")
    place = dialled(transport, receiver, cluster.address(receiver))
    connection: Connection | None = None
    for _ in range(MESSAGES):
        if connection is None or connection.closed:
            try:
                connection = await transport.connect(place, hello, Reader(), 2.0)
            except SlotreeveError:
                await asyncio.sleep(0.1)
                continue
        message = liar.message(rng.choice(kinds))
        with suppress(SlotreeveError):
            if rng.random() < 0.5:
                connection.send(message)
            else:
                connection.request(message, lambda reply, error: None, 0.5)
        if rng.random() < 0.1:
            await asyncio.sleep(rng.random() / 10)
    await transport.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("receiver", ["meta-1", "data-1", "session-1"])
@pytest.mark.parametrize("sender", NAMES)
def test_nothing_that_a_peer_with_a_key_says_makes_a_server_fail(sender: Role, receiver: str, seed: int) -> None:
    async def main(rng: random.Random) -> None:
        cluster = LiedTo(rng)
        async with cluster:
            await cluster.ready()
            client = cluster.client(name="other")
            client.publish(SERVICES[0], b"here")
            await client.flush()
            await lie(cluster, rng, sender, receiver)
            await asyncio.sleep(30)
            assert cluster.failures() == {}

    run(main, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_lies_costs_the_others_nothing(seed: int) -> None:
    async def main(rng: random.Random) -> None:
        cluster = LiedTo(rng)
        async with cluster:
            await cluster.ready()
            provider, consumer = cluster.client("session-1", name="other"), cluster.client("session-2", name="third")
            kept = [provider.publish("com.example.Apart", b"%d" % number) for number in range(20)]
            await provider.leases.register("com.example.Apart", "leased", b"leased", ttl_seconds=600)
            seen = consumer.subscribe("com.example.Apart")
            await cluster.until(lambda: seen.count == 21, "all are seen")
            ids = [publication.register_id for publication in kept]
            later = [f"{provider.client_id}-{number}" for number in range(20, 40)]
            whole = seen.data_info_id
            others = [whole, "com.example.Apart", f"com.example.Shop{whole.removeprefix('com.example.Apart')}"]
            cluster.heard = [provider.client_id, consumer.client_id, "leased", *ids, *later, *others]
            for receiver in ("session-1", "session-2"):
                await lie(cluster, rng, Role.CLIENT, receiver)
            assert seen.count == 21

            def values() -> set[bytes]:
                return {provider.data[0] for provider in seen.instances}

            kept[0].unpublish()
            provider.publish("com.example.Apart", b"new")
            await cluster.until(lambda: seen.count == 21 and {b"new", b"leased"} <= values(), "it goes on")
            assert cluster.failures() == {}

    run(main, seed=seed)
