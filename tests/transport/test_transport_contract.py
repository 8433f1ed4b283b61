"""Both transports hold the contract, ZeroMQ's on both event loops."""

from __future__ import annotations

from collections.abc import Coroutine

import uvloop
from slotreeve.clock import Clock
from slotreeve.ports import Transport
from slotreeve_conformance.transport import TransportContract
from slotreeve_conformance.virtual_time import run as run_in_virtual_time
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.transport import MemoryTransport
from slotreeve_transport_zmq.transport import ZmqTransport


class TestMemoryTransport(TransportContract):
    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return MemoryTransport(clock, "node", limits=limits)

    def run(self, main: Coroutine[None, None, None]) -> None:
        run_in_virtual_time(lambda _rng: main)


class TestZmqTransport(TransportContract):
    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return ZmqTransport(clock, limits)


class TestZmqTransportOnUvloop(TestZmqTransport):
    def run(self, main: Coroutine[None, None, None]) -> None:
        uvloop.run(main)
