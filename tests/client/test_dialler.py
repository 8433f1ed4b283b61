"""Single attempts to connect, on the memory network and virtual time."""

from __future__ import annotations

import random

import pytest
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Handler, Hello, Message
from slotreeve_client.dialler import Dialler
from slotreeve_client.reconnect import Reconnect
from slotreeve_conformance import virtual_time
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.client.scripted_server import ScriptedServer


class Arrivals:
    """A handler that asks the dialler about each connection, as it must."""

    dialler: Dialler

    def __init__(self) -> None:
        self.arrived: list[bool] = []

    def opened(self, connection: Connection) -> None:
        self.arrived.append(self.dialler.arrives(connection))

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing is done with messages."""

    def closed(self, connection: Connection, reason: str) -> None:
        self.dialler.ended(connection, reason)


def test_one_connection_of_a_search_arrives_and_the_next_one_once_it_has_ended() -> None:
    async def scenario(_rng: random.Random) -> None:
        network, handler = MemoryNetwork(), Arrivals()
        for name in ("first", "second"):
            await ScriptedServer(network, name).start()
        plan = Reconnect(["first:1"], 1.0, 1.0, random.Random(1))
        transport = MemoryTransport(VirtualClock(), "client", network)
        dialler = handler.dialler = Dialler(
            transport, Hello("slotreeve", "client", Role.CLIENT, "client"), handler, plan
        )
        assert not dialler.has_answered("first:1")
        first = await dialler.attempt("first:1")
        assert first is not None
        assert dialler.has_answered("first:1")
        assert await dialler.attempt("second:1") is None
        assert not dialler.has_answered("second:1")
        assert handler.arrived == [True, False]
        assert "second:1: the connection ended at once" in plan.failures
        dialler.ended(first, "this session server is banned")
        assert dialler.why_ended("first:1") == "this session server is banned"
        assert await dialler.attempt("second:1") is not None
        dialler.begin()
        assert await dialler.attempt("first:1") is not None
        assert handler.arrived == [True, False, True, True]
        assert await dialler.attempt("nowhere:1") is None
        assert "nowhere:1: no process listens" in plan.failures
        await transport.close()

    virtual_time.run(scenario)


class Breaks(MemoryTransport):
    """A transport with a fault of its own."""

    async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
        raise ValueError("nobody has foreseen this")


def test_an_attempt_that_fails_in_an_unforeseen_way_is_one_that_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(_rng: random.Random) -> None:
        plan = Reconnect(["first:1"], 1.0, 1.0, random.Random(1))
        transport = Breaks(VirtualClock(), "client", MemoryNetwork())
        dialler = Dialler(transport, Hello("slotreeve", "client", Role.CLIENT, "client"), Arrivals(), plan)
        assert await dialler.attempt("first:1") is None
        assert "nobody has foreseen this" in plan.failures
        assert "the attempt to connect to first:1 failed in an unforeseen way" in caplog.text

    virtual_time.run(scenario, seed=1)
