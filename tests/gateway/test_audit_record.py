"""Who did what, from where, and what came of it; and who was denied what: in the history of a whole cluster."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from slotreeve.errors import ClientError, Forbidden, Refused, Unauthenticated
from slotreeve.ports.transport import dialled
from slotreeve_client.administration import ask_any, cluster_leader, put_config
from slotreeve_client.history import past_events
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_events.schema import HistoryNote
from slotreeve_events.stories import decoded_event, sentence
from slotreeve_gateway import Right
from slotreeve_gateway.denied import MOST_UNTOLD, DeniedCallers
from slotreeve_gateway.origin import ORIGIN, Origin
from slotreeve_gateway.servers import ClusterServers
from slotreeve_gateway.token_access import TokenAccess
from slotreeve_protocol.history_messages import Denied, NoteDenials
from slotreeve_protocol.meta_messages import Resign
from slotreeve_protocol.tokens import Token, Tokens, new_token
from slotreeve_servers.node.denials import TOLD_SECONDS
from slotreeve_transport_memory.transport import MemoryTransport

from tests.scenarios.keyed_cluster import KeyedCluster

MAY, MAY_NOT = "com.example.Shop", "com.secret.Vault"


class Cluster(KeyedCluster):
    def __init__(self, rng: random.Random, directory: Path, metas: int) -> None:
        rights = (f"register:{MAY}", f"read:{MAY}")
        super().__init__(rng, rights, metas, 1, history__directory=str(directory))

    def asking(self, name: str) -> tuple[MemoryTransport, str, list[str]]:
        """What a tool or gateway with the key of this name asks meta servers with."""
        transport = MemoryTransport(VirtualClock(), name, self.network, keys=self.keys(name))
        metas = [server for server in self.servers if server.startswith("meta")]
        return transport, "slotreeve", [dialled(transport, meta, self.address(meta)) for meta in metas]

    async def record(self, *kinds: str) -> list[HistoryNote]:
        await asyncio.sleep(2)
        past = await past_events(*self.asking("night-tool"), kinds=kinds, most=2 * MOST_UNTOLD)
        assert not past.silent
        return [decoded_event(event.event) for _, event in past.events]


def play(directory: Path, scenario: Callable[[Cluster], Awaitable[None]], metas: int = 3) -> None:
    async def main(rng: random.Random) -> None:
        cluster = Cluster(rng, directory, metas)
        async with cluster:
            await scenario(cluster)

    run(main, seed=11)


def test_what_a_client_lacks_the_right_for_is_written_down_once_with_its_key_and_then_counted(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        shop = cluster.client(name="shop")
        shop.publish(MAY, b"mine")
        for number in range(40):
            shop.publish(MAY_NOT, b"%d" % number)
        shop.subscribe(MAY_NOT)
        await shop.flush()
        for _ in range(10):
            with pytest.raises(ClientError):
                await shop.get(MAY_NOT)
        first = await cluster.record("denied")
        assert {event.count for event in first} == {1}
        assert all((event.author or "").startswith("key shop, shop/") for event in first)
        lacked = {f"the key of 'shop' lacks the right {right}:{MAY_NOT}" for right in ("read", "register")}
        assert {(event.reason or "").partition("#")[0] for event in first} == lacked
        await asyncio.sleep(TOLD_SECONDS)
        assert sum(event.count or 0 for event in await cluster.record("denied")) == 40 + 1 + 10
        who = f"{first[0].author} at {first[0].address}"
        assert sentence(first[0]).startswith(f"{who} was denied by session-1: the key of 'shop' lacks")

    play(tmp_path, scenario)


def test_orders_of_operators_are_written_down_with_their_outcome(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        asking = cluster.asking("night-tool")
        await put_config(*asking, "colour", b"red")
        with pytest.raises(ClientError, match="not the expected 7"):
            await put_config(*asking, "colour", b"blue", expected_version=7)
        leader = (await cluster_leader(*asking)).address
        assert leader is not None
        with pytest.raises(ClientError):
            await ask_any(*asking[:2], [leader], Resign("meta-9"))
        await ask_any(*asking[:2], [leader], Resign())
        (written,) = await cluster.record("configured")
        assert (written.key, written.reason) == ("colour", "written")
        ordered = [event.reason or "" for event in reversed(await cluster.record("ordered"))]
        assert [reason.partition(": ")[0] for reason in ordered] == [
            "write colour",
            "resign in favour of meta-9",
            "resign",
        ]
        assert ["not done" in reason for reason in ordered] == [True, True, False]
        who = {(event.author, bool(event.address)) for event in await cluster.record("ordered", "configured")}
        ((author, has_address),) = who
        assert (str(author).startswith("key night-tool, "), has_address) == (True, True)

    play(tmp_path, scenario)


def test_what_a_process_may_not_send_is_written_down(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        transport, name, metas = cluster.asking("shop")
        with pytest.raises(Refused, match="is that of a client, not of a tool"):
            await put_config(transport, name, metas, "colour", b"red")
        assert await cluster.record("configured", "ordered") == []
        (warning, *_) = await cluster.record("warning")
        assert "shop" in (warning.reason or "")

    play(tmp_path, scenario, metas=1)


def tokens_of(*rights: str, ends_ms: int | None = None) -> tuple[str, Tokens]:
    text, token_id, secret_hash = new_token(random.Random(3).randbytes)
    return text, Tokens().issued(token_id, Token("dashboard", secret_hash, rights, ends_ms=ends_ms))


def test_what_a_gateway_denies_comes_into_the_history_of_a_meta_server(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        transport, name, metas = cluster.asking("gateway-1")
        denied = DeniedCallers("gateway-1", ClusterServers(transport, name, tuple(metas)), VirtualClock())
        text, tokens = tokens_of(f"read:{MAY}")
        access = TokenAccess(VirtualClock(), (), denied.note)
        access.take(tokens.encode())
        telling = asyncio.create_task(denied.run())
        ORIGIN.set(Origin("10.7.7.7"))
        caller = access.caller(text)
        caller.require(Right.READ, MAY)
        for _ in range(5):
            with pytest.raises(Forbidden):
                caller.require(Right.REGISTER, MAY)
        for bad in (None, "slotreeve.0.0", "nonsense"):
            with pytest.raises(Unauthenticated):
                access.caller(bad)
        told = [sentence(event) for event in await cluster.record("denied")]
        assert sorted(told, reverse=True) == [
            f"token dashboard at 10.7.7.7 was denied by gateway-1: no right to register {MAY}.",
            "anonymous at 10.7.7.7 was denied by gateway-1: a token is needed; the request has none.",
            "a caller at 10.7.7.7 was denied by gateway-1: the token is unknown or revoked.",
        ]
        await asyncio.sleep(TOLD_SECONDS)
        assert sum(event.count or 0 for event in await cluster.record("denied")) == 5 + 3
        assert text.rpartition(".")[2] not in str(await cluster.record())
        telling.cancel()

    play(tmp_path, scenario)


def test_while_no_meta_server_answers_denials_wait_and_those_beyond_a_bound_are_counted(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        transport, name, metas = cluster.asking("gateway-1")
        lost = DeniedCallers("gateway-1", ClusterServers(transport, name, ("127.0.0.1:1",)), VirtualClock())
        lost.note("token modest", "no right to read a thing")
        denials = 1
        while denials < MOST_UNTOLD + 150:
            for number in range(95):
                lost.note(f"token dashboard-{number}", f"no right to read {denials}")
                denials += 1
            await lost.tell()
            await asyncio.sleep(TOLD_SECONDS + 1)
        lost._servers = ClusterServers(transport, name, tuple(metas))
        await lost.tell()
        told = await cluster.record("denied")
        assert sum(event.count or 0 for event in told) == denials
        assert len(told) == MOST_UNTOLD + 1
        assert any("modest" in sentence(event) for event in told)

    play(tmp_path, scenario)


def test_only_gateways_tell_of_denials_and_not_without_bound(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        forged = NoteDenials("gateway-1", [Denied("the boss", "10.0.0.1", "x" * 10_000)])
        with pytest.raises(ClientError, match="not that of a gateway"):
            await ask_any(*cluster.asking("night-tool"), forged)
        with pytest.raises(ClientError, match="expected at most"):
            await ask_any(*cluster.asking("gateway-1"), NoteDenials("gateway-1", forged.denied * 500))
        await ask_any(*cluster.asking("gateway-1"), forged)
        told = await cluster.record("denied")
        assert [len(event.reason or "") for event in told if event.member == "gateway-1"] == [200]
        assert [event.member for event in told if "not that of a gateway" in (event.reason or "")] == [None]

    play(tmp_path, scenario, metas=1)
