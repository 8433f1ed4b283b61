"""What several modules here are played with."""

from __future__ import annotations

import pytest
from slotreeve.clock import Clock
from slotreeve.ports import Transport
from slotreeve_conformance.transport_scene import TransportScene
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_zmq.transport import ZmqTransport


class ZmqScene(TransportScene):
    """Pairs of ZeroMQ transports."""

    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return ZmqTransport(clock, limits)


@pytest.fixture
def scene() -> TransportScene:
    return ZmqScene()
