"""Whole clusters on virtual time: a service of many times the largest frame, beside small ones."""

from __future__ import annotations

import pytest
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.transport import MemoryTransport

LARGE = "com.example.Large"
SMALL = [f"com.example.Small{number}" for number in range(20)]
INSTANCES = 3_000
PAYLOAD = "x" * 200
LIMITS = ChannelLimits(max_frame_bytes=160 * 1024, queue_bytes=320 * 1024)
"""The large service is about five frames, and more than two queues."""
SETTINGS = {"node.part_bytes": 16 * 1024}


@pytest.fixture(autouse=True)
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process of the cluster has small frames and queues."""
    real = MemoryTransport.__init__

    def build(self: MemoryTransport, clock: object, host: str, network: object) -> None:
        real(self, clock, host, network, LIMITS)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryTransport, "__init__", build)
