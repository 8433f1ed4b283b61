"""The pages below ``/v1/agent``: what a client registers, and how it is."""

from __future__ import annotations

from slotreeve.errors import ModelError
from slotreeve_gateway import Gateway
from slotreeve_gateway.http import body_of
from slotreeve_protocol.instance import Health
from starlette.requests import Request

from slotreeve_face_consul.agent import LeaseAgent
from slotreeve_face_consul.answers import agent_self, encoded
from slotreeve_face_consul.messages import EMPTY, ConsulAnswer, ConsulRequest, Page
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.queries import flag
from slotreeve_face_consul.reads import CatalogPages
from slotreeve_face_consul.registrations import registration, update

CONSUL_VERSION = "1.20.0"
"""The version of Consul whose interface this follows: some clients ask for it."""
MOST_BODY_BYTES = 256 * 1024


class AgentPages:
    """What an agent of Consul answers; every gateway is one.

    Attributes:
        gets, puts: the pages by path; behind one that ends with a slash stands an id.
    """

    def __init__(self, gateway: Gateway, options: ConsulOptions, lists: CatalogPages, datacenter: str) -> None:
        self._gateway, self._options, self._lists, self._datacenter = gateway, options, lists, datacenter
        self._agent = LeaseAgent(gateway.registry, gateway.clock, options)
        self.gets: dict[str, Page] = {
            "/v1/agent/self": self._self,
            "/v1/agent/services": self._services,
            "/v1/agent/checks": self._checks,
        }
        self.puts: dict[str, Page] = {
            "/v1/agent/service/register": self._register,
            "/v1/agent/service/deregister/": self._deregister,
            "/v1/agent/service/maintenance/": self._maintenance,
            "/v1/agent/check/pass/": self._pass,
            "/v1/agent/check/warn/": self._warn,
            "/v1/agent/check/fail/": self._fail,
            "/v1/agent/check/update/": self._update,
        }

    async def stop(self) -> None:
        """End the work that goes on after an answer."""
        await self._agent.stop()

    async def _register(self, request: ConsulRequest) -> ConsulAnswer:
        body = await _body(request)
        address = str((request.scope.get("client") or ("127.0.0.1", 0))[0]).removeprefix("::ffff:")
        asked = registration(body, address, self._gateway.zone, self._options)
        await self._agent.register(request.caller, asked)
        return EMPTY

    async def _deregister(self, request: ConsulRequest) -> ConsulAnswer:
        await self._agent.deregister(request.caller, request.name)
        return EMPTY

    async def _maintenance(self, request: ConsulRequest) -> ConsulAnswer:
        enable = request.query.values.get("enable")
        if not enable:
            raise ModelError("Missing value for enable")
        reason = request.query.values.get("reason", "")
        await self._agent.maintain(request.caller, request.name, flag("enable", enable), reason)
        return EMPTY

    async def _report(self, request: ConsulRequest, health: Health) -> ConsulAnswer:
        await self._agent.report(request.caller, request.name, health, request.query.values.get("note", ""))
        return EMPTY

    async def _pass(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._report(request, Health.PASSING)

    async def _warn(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._report(request, Health.WARNING)

    async def _fail(self, request: ConsulRequest) -> ConsulAnswer:
        return await self._report(request, Health.CRITICAL)

    async def _update(self, request: ConsulRequest) -> ConsulAnswer:
        health, output = update(await _body(request))
        await self._agent.report(request.caller, request.name, health, output)
        return EMPTY

    async def _self(self, request: ConsulRequest) -> ConsulAnswer:
        gateway = self._gateway
        return ConsulAnswer(encoded(agent_self(gateway.name, gateway.host, self._datacenter, CONSUL_VERSION)))

    async def _services(self, request: ConsulRequest) -> ConsulAnswer:
        return ConsulAnswer(await self._lists.agent_services(request.caller, self._agent.services()))

    async def _checks(self, request: ConsulRequest) -> ConsulAnswer:
        return ConsulAnswer(await self._lists.agent_checks(request.caller, self._agent.services()))


async def _body(request: ConsulRequest) -> bytes:
    return await body_of(Request(request.scope, request.receive), MOST_BODY_BYTES)
