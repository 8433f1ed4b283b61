"""The way from a gateway to the servers of its cluster."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import Unreachable
from slotreeve_gateway import ClusterServers
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


def test_without_meta_servers_in_the_configuration_the_setting_is_named() -> None:
    async def story() -> None:
        transport = MemoryTransport(LoopClock(), "gateway-1", MemoryNetwork())
        servers = ClusterServers(transport, "slotreeve", ())
        with pytest.raises(Unreachable, match=r"cluster\.meta"):
            _ = servers.asked
        with pytest.raises(Unreachable, match=r"cluster\.meta"):
            _ = servers.on_behalf("somebody").asked
        await transport.close()

    asyncio.run(story())
