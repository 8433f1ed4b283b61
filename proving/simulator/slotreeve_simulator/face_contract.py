"""The contract of faces, as tests: subclass :class:`FaceContract` and name the face and its requests.

A face that does not speak HTTP overrides how it is asked (``begin``, ``ask``, ``wrong``, ``strange``).

It stands here, not beside the contracts of the other ports, because a face needs a whole registry.
"""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
from slotreeve.errors import Forbidden, ModelError, Unauthenticated
from slotreeve_conformance.virtual_time import run
from slotreeve_gateway import Caller, GatewayAccess, Right
from slotreeve_protocol.instance import Instance

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


GARBAGE = (b"", b"{", b"null", b"[]", b'"x"', b"0", b"\xff\xfe", b"[" * DEEP, b'{"a":' * DEEP, b"<x" * DEEP)
ODD_TEXTS = ("", " ", "\x00", "\n", "\x7f", "\x85", "\ud800", "\ud83d\ude00", "\ufeff", "]]>", "<&\"'", "x" * 2_000)
ODD_NUMBERS = (True, 0, -1, 1.5, 1e308, 2**53, 2**70)
ODD_VALUES: tuple[object, ...] = (None, [], {}, [[None]], {"a": {"b": 1}}, *ODD_NUMBERS, *ODD_TEXTS)
"""What programs in languages without types, and hostile ones, put where another kind of value is expected."""


def _with_odd_values(body: object) -> Iterator[object]:
    """The body with each of its values, in turn, replaced by each odd one, and with each odd key."""
    if isinstance(body, Mapping):
        for key, value in body.items():
            yield from ({**body, key: odd} for odd in ODD_VALUES)
            yield from ({**body, key: inner} for inner in _with_odd_values(value))
        yield from ({**body, odd: odd} for odd in ODD_TEXTS)
    elif isinstance(body, list):
        for number, value in enumerate(body):
            yield from ([*body[:number], odd, *body[number + 1 :]] for odd in ODD_VALUES)
            yield from ([*body[:number], inner, *body[number + 1 :]] for inner in _with_odd_values(value))


def odd_instances() -> Iterator[Instance]:
    """Instances with each odd text in each field that takes it."""
    for number, text in enumerate(ODD_TEXTS):
        name = f"odd-{number}"
        fields: tuple[Mapping[str, object], ...] = (
            {"metadata": {"key": text}},
            {"metadata": {text: "value"}},
            {"tags": (text,)},
            {"zone": text},
            {"health_note": text},
            {"id": f"{name}{text}"},
        )
        for at, field_ in enumerate(fields):
            with suppress(ModelError):
                yield msgspec.structs.replace(Instance(f"10.{number}.{at}.1", 80, id=name), **field_)
    yield Instance("2001:db8::1", 65_535, "https", 0, id="six")
    yield Instance("a-name.example", 0, weight=65_535, enabled=False, id="name")


class _Nobody:
    """A caller whose token has no right at all."""

    name = author = "nobody"

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
        service: data id of the service that the requests name.
        options: its options.
        requests: good requests, at least one of each kind, in an order in which all of them are answered well. They
            name the services and instances that they register themselves.
        lists: paths among them that show only what the caller may read, and refuse nobody.
        shown: an id or a name that answers have where something of what was registered is shown.
    """

    face = ""
    service = ""
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
                await self.begin(gateway)
                await scenario(cluster, gateway)

        run(main, seed=1)

    async def begin(self, gateway: SimulatedGateway) -> None:
        """Let a gateway have the face."""
        await gateway.start_face(self.face, self.options)

    async def ask(self, gateway: SimulatedGateway, request: FaceRequest, leave: float = 0) -> GatewayAnswer:
        """Ask the face. What it answers in another language is said with the status that HTTP has for it."""
        return await gateway.ask(request.method, request.path, request.body, request.headers, leave)

    def wrong(self, request: FaceRequest) -> Iterator[FaceRequest]:
        """Requests like a good one that must be refused."""
        yield FaceRequest("BREW", request.path.partition("?")[0], request.body, request.headers)

    def strange(self, request: FaceRequest) -> Iterator[FaceRequest]:
        """Requests like a good one that may be refused, and fail nothing."""
        path = request.path.partition("?")[0]
        yield FaceRequest(request.method, f"{path}/%00/\x01", request.body, request.headers)
        bodies: list[object] = [*GARBAGE, *_with_odd_values(request.body)]
        yield from (FaceRequest(request.method, request.path, body, request.headers) for body in bodies)

    def test_every_good_request_is_answered(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            assert self.requests, "the contract needs requests"
            for request in self.requests:
                answer = await self.ask(gateway, request)
                assert 200 <= answer.status < 400, (request, answer)
                assert answer.seconds < LONGEST_SECONDS, request

        self._play(scenario, None)

    def test_a_caller_without_rights_learns_and_changes_nothing(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            shown = SimulatedGateway(cluster, "gateway-2")
            await self.begin(shown)
            for request in self.requests:
                answer = await self.ask(gateway, request)
                if request.path in self.lists:
                    assert self.shown.encode() not in answer.body, (request, answer)
                elif not request.is_open:
                    # 404: not even that it exists is told.
                    assert answer.status in (401, 403, 404), (request, answer)
                await self.ask(shown, request)

        self._play(scenario, WithoutRights())

    def test_a_caller_whose_token_is_unknown_is_refused(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                answer = await self.ask(gateway, request)
                if not request.is_open:
                    assert answer.status in (401, 403), (request, answer)

        self._play(scenario, WithoutTokens())

    def test_whatever_is_asked_it_is_the_callers_fault_and_the_face_goes_on(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                for strange in self.strange(request):
                    answer = await self.ask(gateway, strange)
                    assert 200 <= answer.status < 500, (strange, answer)
                await self.ask(gateway, request)

        self._play(scenario, None)

    def test_whatever_is_registered_is_answered(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            assert self.service, "the contract needs the service that its requests name"
            for number, instance in enumerate(odd_instances()):
                await gateway.registry.register(self.service, instance, 600)
                if number % 3 == 0:
                    for request in self.requests:
                        answer = await self.ask(gateway, request)
                        assert 200 <= answer.status < 400, (instance, request, answer)

        self._play(scenario, None)

    def test_what_is_no_request_of_the_face_is_refused(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                for wrong in self.wrong(request):
                    answer = await self.ask(gateway, wrong)
                    assert 400 <= answer.status < 500, (wrong, answer)
                    if answer.status == METHOD_NOT_ALLOWED:
                        named = {name.lower(): value for name, value in answer.headers.items()}
                        assert request.method in named.get("allow", ""), (wrong, answer)

        self._play(scenario, None)

    def test_without_a_registry_every_request_is_answered_in_time(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for name in list(cluster.servers):
                cluster.kill(name)
            for request in self.requests:
                answer = await self.ask(gateway, request)
                assert answer.status in (200, 404, 500, 502, 503, 504), (request, answer)
                assert answer.seconds < LONGEST_SECONDS, request

        self._play(scenario, None)

    def test_a_caller_that_leaves_ends_its_request(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                await self.ask(gateway, request, leave=0.001)
            for request in self.requests:
                answer = await self.ask(gateway, request)
                assert answer.status < 500, (request, answer)

        self._play(scenario, None)

    def test_its_counters_begin_with_its_name_and_it_may_be_stopped_twice(self) -> None:
        async def scenario(cluster: SimulatedCluster, gateway: SimulatedGateway) -> None:
            for request in self.requests:
                await self.ask(gateway, request)
            counters = gateway.faces[self.face].counters()
            assert all(name.startswith(f"{self.face}_") for name in counters), counters
            assert all(value >= 0 for value in counters.values()), counters
            await gateway.faces[self.face].stop()
            await gateway.faces[self.face].stop()

        self._play(scenario, None)
