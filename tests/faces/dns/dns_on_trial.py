"""A gateway with the face for DNS on real sockets, beside a registry in other processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import dns.asyncquery
import dns.message
from slotreeve.catalogue import Catalogue
from slotreeve.clock import LoopClock
from slotreeve_gateway.server import GatewayServer
from slotreeve_harness.free_ports import free_address
from slotreeve_servers.launch import Launcher
from slotreeve_servers.settings import load_settings

PATIENCE = 60.0
HOST = "127.0.0.1"
NAME = "dns.Greeter.service.slotreeve."


class Dns:
    """Where the face listens, and what its gateway counts."""

    def __init__(self, port: int, server: GatewayServer) -> None:
        self.port, self._server = port, server

    def counters(self) -> dict[str, int]:
        return self._server.counters()


def play(session: str, scenario: Callable[[Dns], Awaitable[None]], **options: object) -> None:
    """Play a scenario. ``options``: settings, with two lines in the place of a dot."""

    async def main() -> None:
        port = int(free_address().rpartition(":")[2])
        flags: dict[str, object] = {
            "gateway.listen": f"{HOST}:0",
            "gateway.sessions": session,
            "face.use": "dns",
            "face.dns.port": port,
        }
        flags |= {key.replace("__", "."): value for key, value in options.items()}
        configuration = load_settings(None, {}, flags)
        catalogue, clock, rng = Catalogue.load(), LoopClock(), random.Random(1)
        launcher = Launcher(configuration, catalogue, clock, rng)
        node = launcher.gateway_node()
        transport = launcher.transport(node.name)
        server = GatewayServer(configuration, catalogue, clock, rng, transport, node)
        await server.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(Dns(port, server))
        finally:
            await server.stop()
            await transport.close()

    asyncio.run(main())


async def ask(
    face: Dns, name: str = NAME, kind: str = "A", payload: int = 1_232, host: str = HOST
) -> dns.message.Message:
    message = dns.message.make_query(name, kind, use_edns=True, payload=payload)
    return await dns.asyncquery.udp(message, host, PATIENCE, face.port)


async def ask_by_tcp(face: Dns, name: str = NAME, kind: str = "A") -> dns.message.Message:
    return await dns.asyncquery.tcp(dns.message.make_query(name, kind), HOST, PATIENCE, face.port)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - a resolver has nothing else to wait for
        await asyncio.sleep(0.02)
