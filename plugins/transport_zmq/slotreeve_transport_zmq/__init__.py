"""The transport ``zmq``: TCP by ZeroMQ, encrypted by CURVE where the process has keys."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Transport


class ZmqOptions(Options):
    """Options of the ZeroMQ transport."""

    io_threads: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Threads that move bytes between sockets and queues; one moves about 1 GB/s.",
    )
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


def build(options: ZmqOptions, context: Context) -> Transport:
    """Build a transport on the ZeroMQ context that all transports of the process share."""
    from slotreeve_protocol.packets import ChannelLimits

    from slotreeve_transport_zmq.transport import ZmqTransport

    return ZmqTransport(
        context.clock,
        limits=ChannelLimits(options.max_frame_bytes, options.queue_bytes),
        io_threads=options.io_threads,
        keys=context.keys,
    )


@hookimpl
def slotreeve_transports() -> Sequence[Offer]:
    """The ZeroMQ transport."""
    return [Offer("zmq", build, "TCP by ZeroMQ, for clusters of any size", ZmqOptions)]
