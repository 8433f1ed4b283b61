"""What a handler raises ends its connection and nothing else."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest
from slotreeve.errors import ConnectionLost
from slotreeve.ports import Connection, Handler, Message, TransportCounters
from slotreeve_conformance.transport_scene import CLIENT, SERVER, RecordingHandler
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.guarded import GuardedHandler
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


class FailingHandler(RecordingHandler):
    """Fails in everything that it is asked to do."""

    def opened(self, connection: Connection) -> None:
        raise OSError("no opening")

    def closed(self, connection: Connection, reason: str) -> None:
        raise OSError("no closing")


def fails(_reply: Message | None, _error: Exception | None) -> None:
    raise OSError("no reply")


@pytest.mark.parametrize("what", ["opened", "closed", "fail_request"])
def test_an_exception_is_logged_and_counted_and_ends_the_connection(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(_rng: random.Random) -> None:
        network, far = MemoryNetwork(), RecordingHandler()
        near, server = (MemoryTransport(VirtualClock(), name, network) for name in ("near", "far"))
        await server.listen("far:1", SERVER, far)
        connection = await near.connect("far:1", CLIENT, RecordingHandler(), 1.0)
        counters = TransportCounters()
        handler: Handler = FailingHandler()
        guarded = GuardedHandler(connection, handler, counters)
        if what == "opened":
            guarded.opened()
        elif what == "closed":
            guarded.closed("enough")
        else:
            guarded.fail_request(fails, ConnectionLost("gone"))
        assert counters.handler_errors == 1
        assert connection.closed
        await asyncio.sleep(1)
        assert far.reasons == ["the handler failed; its log says why"]
        await near.close()
        await server.close()

    with caplog.at_level(logging.ERROR, "slotreeve.channel"):
        run(scenario)
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [OSError]
