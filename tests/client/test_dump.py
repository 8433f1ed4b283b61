"""``Client.dump``: all services with all providers."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_client import Instance
from slotreeve_client.administration import change_overrides
from slotreeve_client.dumps import TOGETHER_PROVIDERS, TOGETHER_SERVICES, dumped, read_together
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.overrides import Override
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

GROUP = "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 3 * TOGETHER_PROVIDERS), max_size=200))
def test_what_is_read_together_is_little_and_everything_is_read_once_in_its_order(counts: dict[str, int]) -> None:
    parts = list(read_together(counts))
    assert [name for part in parts for name in part] == list(counts)
    for part in parts:
        assert 1 <= len(part) <= TOGETHER_SERVICES
        assert len(part) == 1 or sum(counts[name] for name in part) <= TOGETHER_PROVIDERS


def test_every_service_is_dumped_once_with_all_of_its_providers_whatever_the_size_of_pages() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings={"node.part_bytes": 1_024}) as cluster:
            client, looker = cluster.client(), cluster.client("session-2")
            for number in range(150):
                client.publish(f"s{number}", f"a{number}")
                client.publish(f"s{number}", f"b{number}")
            for number in range(300):
                client.publish("large", f"{number:050d}")
            await client.flush()
            found = [(name, providers) async for name, providers in looker.dump()]
            assert len(found) == len({name for name, _ in found}) == 151
            by_name = {name: {provider.data for provider in providers} for name, providers in found}
            assert by_name[f"s7{GROUP}"] == {(b"a7",), (b"b7",)}
            assert len(by_name[f"large{GROUP}"]) == 300
            some = {name async for name, _ in looker.dump("s14")}
            assert some == {name for name, _ in found if name.startswith("s14")}
            assert [name async for name, _ in looker.dump("nothing")] == []
            with pytest.raises(ModelError):
                [name async for name, _ in looker.dump("x" * 5_000)]

    run(scenario, seed=1)


def test_a_dump_goes_on_where_session_and_data_servers_die_meanwhile_and_misses_nothing() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, settings={"node.part_bytes": 1_024}) as cluster:
            client = cluster.client("session-2")
            for number in range(300):
                client.publish(f"s{number}", "x")
            await client.flush()
            looker = cluster.client("session-1", "session-2")
            await looker.connected()
            found: list[str] = []
            async for name, providers in looker.dump():
                assert len(providers) == 1
                found.append(name)
                if len(found) == 60:
                    cluster.kill("session-1")
                if len(found) == 180:
                    cluster.kill("data-1")
                await asyncio.sleep(0)
            assert len(found) == len(set(found)) == 300

    run(scenario, seed=2)


def test_a_line_has_the_instance_with_its_override_and_bytes_where_it_is_none() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client = cluster.client()
            await client.register("shop", Instance("10.0.0.1", 80)).acknowledged()
            await client.publish("raw", b"\xff", "y").acknowledged()
            tool = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
            metas = [cluster.address(f"meta-{number}") for number in (1, 2, 3)]
            await change_overrides(
                tool,
                "slotreeve",
                metas,
                lambda before: before.changed(f"shop{GROUP}", "10.0.0.1:80", Override(weight=3)),
            )
            await asyncio.sleep(1)
            lines = {name: dumped(name, providers) async for name, providers in client.dump()}
            (shop,), (raw,) = lines[f"shop{GROUP}"].providers, lines[f"raw{GROUP}"].providers
            assert shop.instance is not None
            assert shop.said is not None
            assert (shop.instance["weight"], shop.said["weight"], shop.base64) == (3, 100, None)
            assert (raw.instance, raw.said, raw.base64) == (None, None, [b"\xff", b"y"])

    run(scenario, seed=3)
