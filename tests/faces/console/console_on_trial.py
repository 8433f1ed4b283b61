"""A gateway with the console on a simulated cluster, and a browser without a screen."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from slotreeve.errors import Forbidden, Unauthenticated
from slotreeve_conformance.virtual_time import run
from slotreeve_gateway import Caller, GatewayAccess, Right
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import GatewayAnswer, SimulatedGateway

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PAGES = ("/ui/", "/ui/services", "/ui/servers", "/ui/slots", "/ui/history", "/ui/election", "/ui/configuration")
OPERATOR, READER = "token-of-an-operator", "token-of-a-reader"


class _Holder:
    def __init__(self, name: str, rights: Mapping[Right, str]) -> None:
        self.name, self.author, self._rights = name, f"token {name}", rights

    def may(self, right: Right, service: str) -> bool:
        allowed = self._rights.get(right)
        return allowed is not None and (allowed == "*" or service.startswith(allowed))

    def require(self, right: Right, service: str) -> None:
        if not self.may(right, service):
            raise Forbidden(f"{self.name} may not {right} {service}")


class TwoTokens:
    """One token may operate everything, one may read what begins with ``open``. ``revoked`` ones open nothing."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    def caller(self, token: str | None) -> Caller:
        """See GatewayAccess."""
        if token is None:
            raise Unauthenticated("a token is needed; the request has none")
        if token == OPERATOR and token not in self.revoked:
            return _Holder("operator", {Right.OPERATE: "*"})
        if token == READER and token not in self.revoked:
            return _Holder("reader", {Right.READ: "open"})
        raise Unauthenticated("the token is unknown or revoked")


class ConsoleOnTrial:
    """The console of one gateway, and somebody who looks at it. ``cookie``: of the browser."""

    def __init__(self, cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
        self.cluster, self.gateway = cluster, gateway
        self.cookie = ""

    async def get(self, path: str, headers: Mapping[str, str] | None = None, leave: float = 0) -> GatewayAnswer:
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        return await self.gateway.ask("GET", path, b"", {**cookie, **(headers or {})}, leave)

    async def post(self, path: str, headers: Mapping[str, str] | None = None, **fields: str) -> GatewayAnswer:
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        body = urlencode(fields).encode()
        return await self.gateway.ask("POST", path, body, {**FORM, **cookie, **(headers or {})})

    async def log_in(self, token: str, next: str = "/ui/") -> GatewayAnswer:
        shown = await self.get("/ui/login")
        form = re.search('name="form" value="([^"]*)"', shown.body.decode())
        assert form is not None
        self.cookie = "; ".join(filter(None, [self.cookie, shown.headers.get("set-cookie", "").partition(";")[0]]))
        answer = await self.post("/ui/login", token=token, next=next, form=form[1])
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    async def page(self, path: str) -> str:
        """A page that is there."""
        answer = await self.get(path)
        assert answer.status == 200, (path, answer)
        return answer.body.decode()

    async def words(self, path: str) -> str:
        """What a page says, without its tags."""
        return words(await self.page(path))

    async def follow(self, path: str, seconds: float) -> str:
        """The events that an open page gets in so many seconds."""
        found = re.search('data-events="([^"]*)"', await self.page(path))
        assert found is not None
        answer = await self.get(html.unescape(found[1]), leave=seconds)
        assert answer.status == 200, answer
        return answer.body.decode()

    @property
    def readings(self) -> int:
        """How often the servers were asked."""
        return self.gateway.faces["console"].counters()["console_readings"]


def words(page: str) -> str:
    """The text of HTML."""
    text = re.sub(r"<(script|style)[^>]*>.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def events_of(stream: str) -> list[dict[str, dict[str, Any]]]:
    """The events of a stream: by region, what changed in it."""
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


Story = Callable[[ConsoleOnTrial], Awaitable[None]]


def play(
    story: Story,
    access: GatewayAccess | None = None,
    options: Mapping[str, object] | None = None,
    meta: int = 3,
    settings: Mapping[str, object] | None = None,
) -> None:
    """Play a story in virtual time."""

    async def main(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=meta, data=3, session=2, settings=settings) as cluster:
            gateway = SimulatedGateway(cluster, "gateway-1", access)
            await gateway.start_face("console", options)
            await story(ConsoleOnTrial(cluster, gateway))
            await gateway.faces["console"].stop()

    run(main, seed=1)
