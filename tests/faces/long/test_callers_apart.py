"""Callers of one gateway: none gets by a face what its token does not allow, or takes anything from another."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_face_consul import former_names
from slotreeve_gateway.token_access import TokenAccess
from slotreeve_gateway.vouched_access import VouchedAccess
from slotreeve_protocol.tokens import Token, Tokens, hash_of
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.faces.gateway_on_trial import GatewayOnTrial

TILL = "bank.Till"


class GivenTokens(TokenAccess):
    """The gateway's access, with these tokens: their rights by their names."""

    def __init__(self, **rights: list[str]) -> None:
        super().__init__(VirtualClock(), ())
        self._given = rights
        self._give()

    def _give(self) -> None:
        made = {name: Token(name, hash_of(f"of-{name}").hex(), tuple(rights)) for name, rights in self._given.items()}
        self.take(Tokens(made).encode())

    def revoke(self, name: str) -> None:
        del self._given[name]
        self._give()


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer slotreeve.{name}.of-{name}"}


def agent(name: str, instance_id: str, address: str = "10.0.0.1", ttl: str = "600s") -> dict[str, object]:
    return {"Name": name, "ID": instance_id, "Address": address, "Port": 80, "Check": {"TTL": ttl}}


Story = Callable[[SimulatedCluster, GatewayOnTrial, GivenTokens], Awaitable[None]]


def play(story: Story, **rights: list[str]) -> None:
    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            access = GivenTokens(**rights)
            gateway = GatewayOnTrial(cluster, "gateway-1", access)
            await gateway.start_face("consul", {})
            await gateway.start_face("rest")
            await story(cluster, gateway, access)

    run(main)


def test_a_caller_that_registers_very_many_leaves_room_for_the_former_names_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(former_names, "MOST_WAITING", 3)

    async def story(cluster: SimulatedCluster, first: GatewayOnTrial, access: GivenTokens) -> None:
        second = GatewayOnTrial(cluster, "gateway-2", access)
        await second.start_face("consul", {})
        await first.put("/v1/agent/service/register", agent("shop.Old", "id-1"), headers=by("shop"))
        await asyncio.sleep(1.5)
        async with asyncio.TaskGroup() as group:
            for number in range(10):
                body = agent("crowd.Many", f"id-{number}", "10.0.0.2")
                group.create_task(second.put("/v1/agent/service/register", body, headers=by("crowd")))
            group.create_task(second.put("/v1/agent/service/register", agent("shop.New", "id-1"), headers=by("shop")))
        for _ in range(100):
            if not (await first.get("/v1/health/service/shop.Old", headers=by("shop"))).json:
                break
            await asyncio.sleep(0.1)
        assert (await first.get("/v1/health/service/shop.Old", headers=by("shop"))).json == []
        assert len((await first.get("/v1/health/service/shop.New", headers=by("shop"))).json) == 1

    play(story, shop=["read:shop.*", "register:shop.*"], crowd=["read:crowd.*", "register:crowd.*"])


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/health/service/{TILL}?wait=10m&index=",
        f"/v1/catalog/service/{TILL}?wait=10m&index=",
        f"/v1/health/checks/{TILL}?wait=10m&index=",
        "/v1/catalog/services?wait=10m&index=",
        "/v1/catalog/nodes?wait=10m&index=",
        "/v1/services?wait=300&index=",
        f"/v1/services/{TILL}/instances?wait=300&index=",
    ],
)
def test_who_waits_while_its_token_is_revoked_is_told_nothing_of_what_came_later(path: str) -> None:
    async def story(cluster: SimulatedCluster, gateway: GatewayOnTrial, access: GivenTokens) -> None:
        register = "/v1/agent/service/register"
        assert (await gateway.put(register, agent(TILL, "till-1"), headers=by("bank"))).status == 200
        await asyncio.sleep(3.0)
        plain = path.partition("?")[0]
        now = await gateway.get(plain, headers=by("spy"))
        index = int(now.headers["x-consul-index"]) if "x-consul-index" in now.headers else now.json["index"]
        waiting = asyncio.create_task(gateway.get(f"{path}{index}", headers=by("spy")))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        access.revoke("spy")
        await asyncio.sleep(60.0)
        await gateway.put(register, agent(TILL, "till-2"), headers=by("bank"))
        await gateway.put(register, agent("bank.Safe", "safe-1"), headers=by("bank"))
        answer = await asyncio.wait_for(waiting, 700.0)
        assert answer.status in (401, 403)
        assert b"till" not in answer.body
        assert b"Safe" not in answer.body

    play(story, bank=["register:*", "read:*"], spy=["read:*"])


@pytest.mark.parametrize("wide", [False, True], ids=["rights_for_its_services", "rights_for_all"])
def test_who_registers_the_id_of_somebody_else_in_a_service_of_its_own_changes_nothing_for_them(wide: bool) -> None:
    async def story(cluster: SimulatedCluster, gateway: GatewayOnTrial, access: GivenTokens) -> None:
        register, passes = "/v1/agent/service/register", "/v1/agent/check/pass/service:till-1"
        await gateway.put(register, agent(TILL, "till-1", ttl="6s"), headers=by("bank"))
        other = agent("shop.X", "till-1", "10.6.6.6", "6s")
        assert (await gateway.put(register, other, headers=by("shop"))).status == 200
        for _ in range(6):
            await asyncio.sleep(2.0)
            assert (await gateway.put(passes, headers=by("bank"))).status == 200
            health = await gateway.get(f"/v1/health/service/{TILL}", headers=by("bank"))
            assert [entry["Checks"][0]["Status"] for entry in health.json] == ["passing"]
        shop = await gateway.get("/v1/health/service/shop.X", headers=by("bank" if wide else "shop"))
        assert [entry["Checks"][0]["Status"] for entry in shop.json] == ["critical"], "nobody has renewed that one"
        assert (await gateway.put("/v1/agent/service/deregister/till-1", headers=by("bank"))).status == 200
        assert (await gateway.get(f"/v1/health/service/{TILL}", headers=by("bank"))).json == []

    mine = ["register:*", "read:*"] if wide else ["register:bank.*", "read:bank.*"]
    play(story, bank=mine, shop=["register:shop.*", "read:shop.*"])


def test_what_a_refusal_says_of_an_id_tells_nothing_of_services_that_the_caller_may_not_see() -> None:
    async def story(cluster: SimulatedCluster, gateway: GatewayOnTrial, access: GivenTokens) -> None:
        await gateway.put("/v1/agent/service/register", agent(TILL, "till-1"), headers=by("bank"))
        for path in ("/v1/agent/service/deregister/till-1", "/v1/agent/check/pass/service:till-1"):
            answer = await gateway.put(path, headers=by("shop"))
            assert answer.status == 404
            assert b"bank" not in answer.body

    play(story, bank=["register:*", "read:*"], shop=["register:shop.*", "read:shop.*"])


def test_a_refusal_of_eureka_does_not_tell_how_others_write_the_name_of_an_application() -> None:
    async def story(cluster: SimulatedCluster, gateway: GatewayOnTrial, access: GivenTokens) -> None:
        await gateway.start_face("eureka")
        provider = cluster.client()
        for name in ("bank.Till", "shop.Cart"):
            provider.publish(name, b"1")
        await provider.flush()
        await asyncio.sleep(3.0)
        assert (await gateway.ask("GET", "/eureka/apps/SHOP.CART", headers=by("shop"))).status == 404, "no typed one"
        for method, path in (("GET", "BANK.TILL"), ("PUT", "BANK.TILL/a/status?value=UP"), ("GET", "NO.SUCH")):
            answer = await gateway.ask(method, f"/eureka/apps/{path}", headers=by("shop"))
            assert answer.status == 403
            assert b"Till" not in answer.body

    play(story, shop=["read:shop.*", "register:shop.*"])


PAGE = {"Origin": "http://evil.example", "Host": "127.0.0.1:7740", "Content-Type": "text/plain"}
CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Host": "127.0.0.1:7740"}


@pytest.mark.parametrize("headers", [PAGE, CROSS_SITE, PAGE | {"Origin": "null"}], ids=["origin", "site", "null"])
def test_a_web_page_of_another_origin_does_nothing_through_a_gateway_that_asks_for_no_tokens(
    headers: dict[str, str],
) -> None:
    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            gateway = GatewayOnTrial(cluster, "gateway-1", None)
            for face in ("rest", "eureka", "console"):
                await gateway.start_face(face)
            await gateway.start_face("consul", {})
            port = {"$": 80, "@enabled": "true"}
            instance = {"app": "X", "instanceId": "e", "hostName": "6.6.6.6", "ipAddr": "6.6.6.6", "port": port}
            one = {"service": TILL, "address": "6.6.6.6", "port": 1, "id": "evil"}
            asked: list[tuple[str, str, object]] = [
                ("POST", "/v1/bulk/register", {"registrations": [one]}),
                ("POST", "/eureka/apps/x", {"instance": instance}),
                ("PUT", "/v1/agent/service/register", agent(TILL, "evil")),
                ("GET", "/v1/services", b""),
                ("GET", "/eureka/apps", b""),
            ]
            for method, path, body in asked:
                assert (await gateway.ask(method, path, body, headers)).status == 403, path
            own = headers | {"Origin": "http://127.0.0.1:7740", "Sec-Fetch-Site": "same-origin"}
            assert (await gateway.ask("GET", "/v1/services", b"", own)).json["services"] == {}
            link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Host": "127.0.0.1:7740"}
            assert (await gateway.ask("GET", "/ui/services", b"", link)).status == 200, "a link leads anywhere"
            await gateway.faces["console"].stop()

    run(main)


def test_the_list_of_the_console_is_that_of_the_certificate_that_asks() -> None:
    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            grants = {f"spiffe://x/{name}": (f"read:{name}.*",) for name in ("bank", "shop")}
            tokens = TokenAccess(VirtualClock(), ("read:public.*",))
            tokens.take(None)
            access = VouchedAccess(tokens, grants, None, lambda _name, _what: None, VirtualClock())
            gateway = GatewayOnTrial(cluster, "gateway-1", access)
            await gateway.start_face("console")
            client = cluster.client()
            names = ("bank.Till", "shop.X", "public.P")
            for name in names:
                client.publish(name, b"1")
            await client.flush()
            await asyncio.sleep(3.0)
            for _ in range(2):
                for who in ("bank", "shop", "public"):
                    shown = f"spiffe://x/{who}" if who != "public" else ""
                    page = await gateway.ask("GET", "/ui/services", certificate=shown)
                    assert page.status == 200
                    assert [name for name in names if name.encode() in page.body] == [f"{who}.{_LAST[who]}"]
            await gateway.faces["console"].stop()

    run(main)


_LAST = {"bank": "Till", "shop": "X", "public": "P"}
