"""Requests of tools to the servers of a simulated cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace
from slotreeve.errors import ClientError, ModelError, Refused, RequestTimeout, Unreachable
from slotreeve.ports import Connection, Handler, Hello
from slotreeve_client.administration import (
    ask_any,
    asker,
    change_config,
    change_entry,
    change_orders,
    change_overrides,
    cluster_leader,
    cluster_view,
    complete_view,
    counters,
    get_configs,
    get_entry,
    put_config,
)
from slotreeve_client.on_behalf import OnBehalf
from slotreeve_conformance import virtual_time
from slotreeve_protocol.general_messages import Opaque
from slotreeve_protocol.meta_messages import ConfigEntry, GetLeader
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.overrides import MAX_OVERRIDES, OVERRIDES_KEY, Override, Overrides
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport

NAMES = {"data-1", "data-2", "session-1"}


class Tool:
    """A tool process, and the addresses of the meta servers."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.transport = MemoryTransport(cluster.process_clock("tool"), "tool", cluster.network)
        self.metas = [cluster.address(f"meta-{number}") for number in (1, 2, 3)]


def on_a_cluster(story: Callable[[SimulatedCluster, Tool], Awaitable[None]]) -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, data=2, session=1) as cluster:
            await story(cluster, Tool(cluster))

    virtual_time.run(scenario, seed=5)


def test_every_meta_server_names_the_leader_and_the_view_is_the_leaders() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        for address in tool.metas:
            assert (await cluster_leader(tool.transport, "slotreeve", [address])).leader == cluster.leader
        view = await cluster_view(tool.transport, "slotreeve", tool.metas)
        assert {node.name for node in [*view.data, *view.sessions]} == NAMES
        assert len(view.table.slots) == 16

    on_a_cluster(story)


def test_a_server_that_does_not_answer_is_skipped_and_all_of_them_are_an_error() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        assert (await cluster_leader(tool.transport, "slotreeve", ["nowhere:1", tool.metas[0]])).term >= 1
        with pytest.raises(Unreachable, match=r"no server answers: nowhere:1: .*; nowhere:2: "):
            await ask_any(tool.transport, "slotreeve", ["nowhere:1", "nowhere:2"], GetLeader())

    on_a_cluster(story)


def test_a_server_of_another_cluster_and_a_failed_request_are_errors_at_once() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        with pytest.raises(Refused, match="'slotreeve', not 'another'"):
            await cluster_leader(tool.transport, "another", tool.metas)
        with pytest.raises(ClientError):
            await ask_any(tool.transport, "slotreeve", tool.metas[:1], Opaque("nothing", b""))

    on_a_cluster(story)


def test_counters_can_be_read_from_a_server_of_any_role() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        for name in ("meta-1", "data-1", "session-1"):
            assert await counters(tool.transport, "slotreeve", cluster.address(name))

    on_a_cluster(story)


def test_provided_configuration_is_written_read_by_prefix_and_deleted() -> None:
    async def story(_cluster: SimulatedCluster, tool: Tool) -> None:
        async def put(key: str, value: bytes | None, expected: int | None = None) -> int:
            return (await put_config(tool.transport, "slotreeve", tool.metas, key, value, expected)).version

        assert [await put("a.1", b"x"), await put("a.2", b"y", 0), await put("b", b"z")] == [1, 1, 1]
        with pytest.raises(ClientError):
            await put("a.1", b"other", 0)
        assert await put("a.1", None) == 2
        found = await get_configs(tool.transport, "slotreeve", tool.metas, "a.")
        assert [(entry.key, entry.value) for entry in found] == [("a.2", b"y")]

    on_a_cluster(story)


def test_a_write_without_a_leader_ends_with_an_error() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        for name in ("meta-1", "meta-2"):
            cluster.kill(name)
        await asyncio.sleep(10)
        with pytest.raises(Unreachable, match=r"no meta server among .* leads"):
            await put_config(tool.transport, "slotreeve", tool.metas, "k", b"v")
        for name in ("meta-1", "meta-2"):
            await cluster.start(name)

    on_a_cluster(story)


def test_a_complete_cluster_is_reported_and_the_time_out_says_what_is_missing() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        view = await complete_view(tool.transport, "slotreeve", tool.metas, NAMES, 2, 5.0)
        assert all(slot.leader and len(slot.followers) == 1 for slot in view.table.slots)
        with pytest.raises(RequestTimeout, match=r"after 2 s: members are data-1, .*; expected data-1, data-2, data-9"):
            await complete_view(tool.transport, "slotreeve", tool.metas, {*NAMES, "data-9"}, 2, 2.0)
        with pytest.raises(RequestTimeout, match="after 1 s: no server answers"):
            await complete_view(tool.transport, "slotreeve", ["nowhere:1"], NAMES, 2, 1.0)

    on_a_cluster(story)


def test_a_change_that_somebody_else_overtook_is_made_again_on_what_there_is() -> None:
    async def story(_cluster: SimulatedCluster, tool: Tool) -> None:
        async def append(letter: str) -> bytes | None:
            return await change_config(
                tool.transport, "slotreeve", tool.metas, "k", lambda value: (value or b"") + letter.encode()
            )

        found = await asyncio.gather(*map(append, "abc"))
        [entry] = await get_configs(tool.transport, "slotreeve", tool.metas, "k")
        assert sorted((entry.value or b"").decode()) == ["a", "b", "c"]
        assert entry.value in found
        assert await change_config(tool.transport, "slotreeve", tool.metas, "k", lambda _value: None) is None
        assert await append("d") == b"d", "a key that was deleted is written again"

    on_a_cluster(story)


def test_a_change_that_changes_nothing_is_not_written_and_one_that_never_fits_is_an_error() -> None:
    async def story(_cluster: SimulatedCluster, tool: Tool) -> None:
        await put_config(tool.transport, "slotreeve", tool.metas, "k", b"1")
        assert await change_config(tool.transport, "slotreeve", tool.metas, "k", lambda value: value) == b"1"
        [entry] = await get_configs(tool.transport, "slotreeve", tool.metas, "k")
        assert entry.version == 1
        with pytest.raises(ClientError, match="too many"):
            await change_config(tool.transport, "slotreeve", tool.metas, "k", lambda _value: b"x" * 300_000)

    on_a_cluster(story)


def test_the_overrides_are_bounded() -> None:
    async def story(_cluster: SimulatedCluster, tool: Tool) -> None:
        full = Overrides({"s": {str(n): Override(drain=True) for n in range(MAX_OVERRIDES)}})
        await put_config(tool.transport, "slotreeve", tool.metas, OVERRIDES_KEY, full.encode())
        with pytest.raises(ModelError, match="501 overrides are too many"):
            await change_overrides(
                tool.transport, "slotreeve", tool.metas, lambda o: o.changed("t", "a", Override(drain=True))
            )
        _, now = await change_overrides(tool.transport, "slotreeve", tool.metas, lambda o: o.changed("s", "7", None))
        assert now.count == MAX_OVERRIDES - 1

    on_a_cluster(story)


def test_a_server_is_told_the_account_and_the_machine_of_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "ops-1")
    monkeypatch.setenv("USER", "alice")
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert asker() == "alice on ops-1"
    monkeypatch.setenv("SUDO_USER", "bob")
    assert asker() == "bob on ops-1"
    for name in ("SUDO_USER", "USER", "LOGNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platform.node", str)
    assert asker() == "somebody on an unnamed machine"


def test_a_change_of_orders_tells_what_they_were_and_are() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        asked = (tool.transport, "slotreeve", tool.metas)
        read, same = await change_orders(*asked, lambda orders: orders)
        assert read == same == Orders()
        before, after = await change_orders(*asked, lambda orders: replace(orders, push_stopped=True))
        assert (before.push_stopped, after.push_stopped) == (False, True)
        assert (await get_entry(*asked, ORDERS_KEY)).version == 1

    on_a_cluster(story)


def test_a_change_of_an_entry_sees_its_version_also_of_one_that_was_deleted() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        asked = (tool.transport, "slotreeve", tool.metas)
        seen: list[int] = []

        def change_to(value: bytes | None) -> Callable[[ConfigEntry], bytes | None]:
            def change(entry: ConfigEntry) -> bytes | None:
                seen.append(entry.version)
                return value

            return change

        for value in (b"1", None, b"2", b"2"):
            before, after = await change_entry(*asked, "key", change_to(value))
            assert after.value == value
        assert before == after == ConfigEntry("key", b"2", 3)
        assert seen == [0, 1, 2, 3]
        with pytest.raises(ModelError):
            await change_entry(*asked, " ", change_to(b"1"))

    on_a_cluster(story)


def test_who_asks_for_somebody_else_is_known_by_the_name_of_the_other() -> None:
    async def story(cluster: SimulatedCluster, tool: Tool) -> None:
        named: list[str] = []

        class Seen(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                named.append(hello.node)
                return await super().connect(address, hello, handler, timeout_seconds)

        seen = Seen(cluster.process_clock("gateway"), "gateway", cluster.network)
        view = await cluster_view(OnBehalf(seen, "token ci-1 at 10.0.0.1"), "slotreeve", tool.metas)
        assert view.data
        assert set(named) == {"token ci-1 at 10.0.0.1"}
        await OnBehalf(seen, "nobody").close()
        await cluster_view(seen, "slotreeve", tool.metas)
        assert asker() in named

    on_a_cluster(story)
