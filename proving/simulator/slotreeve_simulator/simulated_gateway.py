"""Gateways without a listener on a simulated cluster: their faces are asked directly, in virtual time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import msgspec
from slotreeve.offers import Port
from slotreeve.ports import Context, Face
from slotreeve.ports.transport import dialled
from slotreeve_client import Client
from slotreeve_client.administration import change_overrides, put_config
from slotreeve_gateway import ClusterServers, FacePages, Gateway, GatewayAccess, Registry, ServiceDirectory
from slotreeve_gateway.access import OpenAccess
from slotreeve_gateway.origin import CERTIFICATE, ShownCertificate
from slotreeve_gateway.views import Views
from slotreeve_protocol.overrides import Overrides

from slotreeve_simulator.simulated_cluster import SimulatedCluster

IDLE_SECONDS = 60.0
DIRECTORY_SECONDS = 1.0
CALLER = ("10.7.7.7", 5000)


class GatewayAnswer(msgspec.Struct):
    """An answer. Its ``status`` is 0 where the caller left before.

    Attributes:
        seconds: virtual time that it took.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    @property
    def json(self) -> Any:
        """The body of a good answer."""
        assert self.status == 200, self
        return json.loads(self.body)


class SimulatedGateway:
    """One gateway process; ``cluster.kill(gateway.name)`` ends it. Nothing else knows it.

    Args:
        cluster: the registry.
        name: of the process.
        access: who may do what; None: everybody everything.
        most_services: how many services it watches at a time.
        idle_seconds: how long it watches one that nobody asks for.

    Attributes:
        registry: the registry as its faces see it; ``client``, ``views`` and ``directory`` are parts of it.
        faces: the faces that were started, by name.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        name: str,
        access: GatewayAccess | None = None,
        most_services: int = 100,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.name = name
        self.client: Client = cluster.client(name=name)
        self.clock = cluster.clock(name)
        self.views = Views(self.client, self.clock, most_services, idle_seconds)
        self.directory = ServiceDirectory(self.client, self.clock, DIRECTORY_SECONDS)
        self.registry = Registry(self.client, self.views, self.directory, self._change_overrides)
        self.pages = FacePages()
        self.faces: dict[str, Face] = {}
        self._cluster = cluster
        transport = cluster.transport(f"{name}-tool", of=name)
        metas = [meta for meta in cluster.servers if meta.startswith("meta")]
        addresses = tuple(dialled(transport, meta, cluster.address(meta)) for meta in metas)
        self._servers = ClusterServers(transport, "slotreeve", addresses)
        self._gateway = Gateway(
            self.registry,
            self._servers,
            access or OpenAccess(),
            self.pages,
            self.clock,
            cluster.chance(name),
            name,
            "east",
            "slotreeve",
            "10.9.9.9",
        )

    async def _change_overrides(self, change: Callable[[Overrides], Overrides]) -> Overrides:
        servers = self._servers
        return (await change_overrides(servers.transport, servers.cluster, servers.metas, change))[1]

    async def put_config(self, key: str, value: bytes | None) -> None:
        """Write one key of the provided configuration, as an operator does beside the gateway."""
        await put_config(*self._servers.asked, key, value)

    async def start_face(self, name: str, options: Mapping[str, object] | None = None) -> Face:
        """Build and start an installed face. Raises PluginError, as :meth:`build_face`."""
        face = self.build_face(name, options)
        await face.start()
        return face

    def build_face(self, name: str, options: Mapping[str, object] | None = None) -> Face:
        """Build an installed face, which does not listen.

        Raises:
            PluginError: there is none of this name, or its options are wrong.
        """
        catalogue = self._cluster.catalogue
        entry = catalogue.find(Port.FACE, name)
        context = Context("slotreeve", 256, self.clock, self._gateway.rng, self.name, gateway=self._gateway)
        face = catalogue.build(entry, catalogue.options(entry, options or {}), context)
        assert isinstance(face, Face)
        self.faces[name] = face
        return face

    async def ask(
        self,
        method: str,
        path: str,
        body: object = b"",
        headers: Mapping[str, str] | None = None,
        leave: float = 0,
        certificate: str = "",
    ) -> GatewayAnswer:
        """Send a request. ``leave``: close the connection after so long, if there is no answer yet. ``certificate``: a
        URI in the certificate that the caller has shown."""
        began = self.clock.now()
        path, _, query = path.partition("?")
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": CALLER,
            "state": {CERTIFICATE: ShownCertificate((certificate,), math.inf)} if certificate else {},
        }
        messages = [{"type": "http.request", "body": given, "more_body": False}]
        said: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if messages:
                return messages.pop()
            if leave:
                await asyncio.sleep(began + leave - self.clock.now())
                return {"type": "http.disconnect"}
            await asyncio.get_running_loop().create_future()  # the caller stays and says nothing more
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            said.append(message)

        await self.pages(scope, receive, send)
        if not said:
            return GatewayAnswer(0, {}, b"", self.clock.now() - began)
        found = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        parts = b"".join(message.get("body", b"") for message in said[1:])
        return GatewayAnswer(said[0]["status"], found, parts, self.clock.now() - began)
