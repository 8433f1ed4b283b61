"""The contract of faces that speak HTTP, as tests: subclass :class:`FaceContract` and name the face and its requests.

It stands here, not beside the contracts of the other ports, because a face needs a whole registry.
"""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slotreeve.errors import Forbidden, Unauthenticated
from slotreeve_conformance.virtual_time import run
from slotreeve_gateway import Caller, GatewayAccess, Right

from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import GatewayAnswer, SimulatedGateway

DEEP = 5_000
METHOD_NOT_ALLOWED = 405
LONGEST_SECONDS = 60.0
"""No request of a contract may take longer, in virtual time."""


@dataclass(frozen=True)
class FaceRequest:
    """One request that the face answers, with a status below 400, once those before it were made.

    Attributes:
        method, path, body, headers: what is sent; a body that is no byte string goes as JSON.
        is_open: everybody may make it, also without a token: it says nothing about services.
    """

    method: str
    path: str
    body: object = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False


class _Nobody:
    """A caller whose token has no right at all."""

    name = "nobody"

    def may(self, right: Right, service: str) -> bool:
        return False

    def require(self, right: Right, service: str) -> None:
        raise Forbidden(f"{self.name} may not {right} {service}")


class WithoutRights:
    """Every token is good, and has no right."""

    def caller(self, token: str | None) -> Caller:
        """See :class:`slotreeve_gateway.GatewayAccess`."""
        return _Nobody()


class WithoutTokens:
    """No token is good."""

    def caller(self, token: str | None) -> Caller:
        """See :class:`slotreeve_gateway.GatewayAccess`."""
        raise Unauthenticated("the token is unknown")


class FaceContract:
    """Subclass it in a test module; pytest collects the tests from there.

    Attributes:
        face: name of the face.
        options: its options.
        requests: good requests, at least one of each kind, in an order in which all of them are answered well. They
            name the services and instances that they register themselves.
        lists: paths among them that show only what the caller may read, and refuse nobody.
        shown: an id or a name that answers have where something of what was registered is shown.
    """

    face = ""
    options: Mapping[str, object] = {}
    requests: Sequence[FaceRequest] = ()
    lists: Sequence[str] = ()
    shown = ""

    def _play(
        self, scenario: Callable[[SimulatedCluster, SimulatedGateway], Awaitable[None]], access: GatewayAccess | None
    ) -> None:
        async def main(rng: random.Random) -> None:
            async with SimulatedCluster(rng, meta=1, data=2, session=1) as cluster:
                gateway = SimulatedGateway(cluster, "gateway-1", access)
                await gateway.start_face(self.face, self.options)
                await scenario(cluster, gateway)

        run(main, seed=1)

    async def _ask(self, gateway: SimulatedGateway, request: FaceRequest) -> GatewayAnswer:
        return await gateway.ask(request.method, request.path, request.body, request.headers)

    def test_every_good_request_is_answered(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            assert self.requests, "the contract needs requests"
            for request in self.requests:
                answer = await self._ask(gateway, request)
                assert 200 <= answer.status < 400, (request, answer)
                assert answer.seconds < LONGEST_SECONDS, request

        self._play(scenario, None)

    def test_a_caller_without_rights_learns_and_changes_nothing(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            shown = SimulatedGateway(cluster, "gateway-2")
            await shown.start_face(self.face, self.options)
            for request in self.requests:
                answer = await self._ask(gateway, request)
                if request.path in self.lists:
                    assert self.shown.encode() not in answer.body, (request, answer)
                elif not request.is_open:
                    # 404: not even that it exists is told.
                    assert answer.status in (401, 403, 404), (request, answer)
                await self._ask(shown, request)

        self._play(scenario, WithoutRights())

    def test_a_caller_whose_token_is_unknown_is_refused(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                answer = await self._ask(gateway, request)
                if not request.is_open:
                    assert answer.status in (401, 403), (request, answer)

        self._play(scenario, WithoutTokens())

    def test_whatever_the_body_is_it_is_the_callers_fault(self) -> None:
        garbage = (b"", b"{", b"null", b"[]", b'"x"', b"0", b"\xff\xfe", b"[" * DEEP, b'{"a":' * DEEP, b"<x" * DEEP)

        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                for body in garbage:
                    answer = await gateway.ask(request.method, request.path, body, request.headers)
                    assert 200 <= answer.status < 500, (request, body[:20], answer)
                await self._ask(gateway, request)

        self._play(scenario, None)

    def test_unknown_methods_and_paths_are_refused(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                path = request.path.partition("?")[0]
                answer = await gateway.ask("BREW", path, request.body, request.headers)
                assert 400 <= answer.status < 500, (path, answer)
                if answer.status == METHOD_NOT_ALLOWED:
                    assert request.method in answer.headers.get("allow", answer.headers.get("Allow", "")), (
                        path,
                        answer,
                    )
                answer = await gateway.ask(request.method, f"{path}/%00/\x01", request.body, request.headers)
                assert 200 <= answer.status < 500, (path, answer)

        self._play(scenario, None)

    def test_without_a_registry_every_request_is_answered_in_time(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for name in list(cluster.servers):
                cluster.kill(name)
            for request in self.requests:
                answer = await self._ask(gateway, request)
                assert answer.status in (200, 404, 500, 502, 503, 504), (request, answer)
                assert answer.seconds < LONGEST_SECONDS, request

        self._play(scenario, None)

    def test_a_caller_that_leaves_ends_its_request(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                await gateway.ask(request.method, request.path, request.body, request.headers, leave=0.001)
            for request in self.requests:
                answer = await self._ask(gateway, request)
                assert answer.status < 500, (request, answer)

        self._play(scenario, None)

    def test_its_counters_begin_with_its_name_and_it_may_be_stopped_twice(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                await self._ask(gateway, request)
            counters = gateway.faces[self.face].counters()
            assert all(name.startswith(f"{self.face}_") for name in counters), counters
            assert all(value >= 0 for value in counters.values()), counters
            await gateway.faces[self.face].stop()
            await gateway.faces[self.face].stop()

        self._play(scenario, None)
