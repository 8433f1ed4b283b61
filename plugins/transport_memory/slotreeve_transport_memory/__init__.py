"""The transport ``memory``: queues within one process, for single-process clusters, tests and the simulator."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Transport


class MemoryOptions(Options):
    """Options of the memory transport."""

    queue_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1024 * 1024,
        le=16 * 1024 * 1024 * 1024,
        description="Bytes that may wait for one peer to read; beyond that, sending fails with Backpressure.",
    )
    max_frame_bytes: int = Field(
        default=32 * 1024 * 1024,
        ge=16 * 1024 * 1024,
        le=1024 * 1024 * 1024,
        description="Largest message that is sent or accepted, in bytes; must be equal on all nodes of a cluster. Less "
        "than 16 MiB could not hold whatever servers send at once.",
    )


def build(options: MemoryOptions, context: Context) -> Transport:
    """Build a transport on the network that all memory transports of the running event loop share."""
    from slotreeve_protocol.packets import ChannelLimits

    from slotreeve_transport_memory.transport import MemoryTransport

    limits = ChannelLimits(options.max_frame_bytes, options.queue_bytes)
    return MemoryTransport(context.clock, context.node or context.cluster, limits=limits, keys=context.keys)


@hookimpl
def slotreeve_transports() -> Sequence[Offer]:
    """The memory transport."""
    return [Offer("memory", build, "within one process; for tests and single-process clusters", MemoryOptions)]
