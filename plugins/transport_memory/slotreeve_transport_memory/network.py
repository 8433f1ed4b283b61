"""The network of memory transports, and the faults that a test can cause in it.

All methods take names of endpoints: the name of a :class:`~slotreeve_transport_memory.transport.MemoryTransport`, which
is the node's name in a cluster. Delays and partitions stay when an endpoint ends, so they also apply to the next
process of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from slotreeve_transport_memory.links import MemoryLink
    from slotreeve_transport_memory.transport import MemoryListener, MemoryTransport

FIRST_FREE_PORT = 49152
UNDER_WAY_PACKETS = 1024


class Processor(Protocol):
    """The processor of one endpoint's process: packets wait until it is free."""

    def busy_for(self) -> float:
        """Seconds until it can handle the next packet; 0 where it is free."""

    def handled(self, packet: bytes) -> None:
        """A packet was handled."""


_networks: WeakKeyDictionary[asyncio.AbstractEventLoop, MemoryNetwork] = WeakKeyDictionary()


class MemoryNetwork:
    """Listeners, endpoints and links of one process, and their delays and partitions.

    Attributes:
        delay_seconds: travel time of a packet by (from, to) endpoint. Packets of a connection stay in order whatever it
            returns. By default 0: delivery on the next turn of the event loop.
        bytes_per_second: how fast each direction of a connection takes bytes; by default infinity.
        under_way_packets: number of packets that each direction of a connection holds, like the socket buffers of a
            real one; the next ones wait in the queue of the sender.
        processors: processors by endpoint. By default there are none: handling a packet takes no time.
    """

    def __init__(self) -> None:
        self.delay_seconds: Callable[[str, str], float] = lambda _source, _target: 0.0
        self.bytes_per_second = float("inf")
        self.under_way_packets = UNDER_WAY_PACKETS
        self.processors: dict[str, Processor] = {}
        self._listeners: dict[str, MemoryListener] = {}
        self._endpoints: dict[str, MemoryTransport] = {}
        self._links: dict[MemoryLink, None] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._frozen: set[str] = set()
        self._next_port = FIRST_FREE_PORT

    @staticmethod
    def current() -> MemoryNetwork:
        """The network of the running event loop, which transports use that were made without one."""
        return _networks.setdefault(asyncio.get_running_loop(), MemoryNetwork())

    # --- conditions ------------------------------------------------------------------------------------------

    def partition(self, sources: Iterable[str], targets: Iterable[str], *, one_way: bool = False) -> None:
        """Let nothing pass from ``sources`` to ``targets`` from now on (nor back, unless ``one_way``). No handler is
        called.

        As with TCP, messages sent meanwhile wait and are delivered in order after :meth:`heal`; sending fails with
        Backpressure once the queues are full; new connections fail with Unreachable. A peer also sees the end of a
        killed process only after healing. To simulate a connection that timed out, :meth:`cut` it before healing.
        """
        sources, targets = list(sources), list(targets)
        self._blocked.update((s, t) for s in sources for t in targets)
        if not one_way:
            self._blocked.update((t, s) for s in sources for t in targets)

    def heal(self) -> None:
        """End every partition and deliver what waited."""
        self._blocked.clear()
        self._resume()

    def cut(self, first: str, second: str) -> int:
        """End every connection between two endpoints at once, at both ends. Packets on their way are lost. Returns the
        number of connections."""
        ends = [link for link in self._links if {link.source, link.target} == {first, second}]
        for link in ends:
            link.break_off("connection cut")
        return len(ends) // 2

    def drop(self, name: str, peer: str) -> int:
        """End every connection between two endpoints at the end of ``name`` alone, as after a time-out there; the peer
        sees that once packets pass again. Returns the number of connections."""
        ends = [link for link in self._links if (link.source, link.target) == (name, peer)]
        for link in ends:
            link.break_off("connection dropped")
        return len(ends)

    def kill(self, name: str) -> None:
        """Kill the process of endpoint ``name``: its handlers are not called any more, its peers see their connections
        end, its addresses are free and the name can be used again. The caller must cancel the tasks of the process.
        Does nothing if there is no such endpoint."""
        endpoint = self._endpoints.pop(name, None)
        self._frozen.discard(name)
        if endpoint is not None:
            endpoint.die()

    def lose(self, name: str) -> None:
        """The machine of endpoint ``name`` goes down: :meth:`kill`, but its peers see no connection end. What they send
        over them is lost, and once the connection is full they send no more."""
        for link in [link for link in self._links if link.source == name]:
            link.say_nothing()
        self.kill(name)

    def freeze(self, name: str) -> None:
        """Stop the process of endpoint ``name``: it sends nothing, and packets for it wait."""
        self._frozen.add(name)

    def thaw(self, name: str) -> None:
        """End :meth:`freeze` and deliver the waiting packets in order."""
        self._frozen.discard(name)
        self._resume()

    def passes(self, source: str, target: str) -> bool:
        """True while packets travel from one endpoint to the other."""
        return (source, target) not in self._blocked and source not in self._frozen and target not in self._frozen

    @property
    def is_open(self) -> bool:
        """True while packets travel between all endpoints."""
        return not self._blocked and not self._frozen

    @property
    def endpoints(self) -> list[str]:
        """Names of the live endpoints, in the order in which they joined."""
        return list(self._endpoints)

    def connections(self, name: str) -> list[str]:
        """The peers of endpoint ``name``: one name for each connection, in the order in which they were made."""
        return [link.target for link in self._links if link.source == name]

    def _resume(self) -> None:
        for link in list(self._links):
            link.schedule()

    # --- for transports --------------------------------------------------------------------------------------

    def enter(self, endpoint: MemoryTransport, wanted: str) -> str:
        """Add an endpoint under the wanted name, or under one made from it if a live endpoint has that name."""
        name, number = wanted, 1
        while name in self._endpoints:
            number += 1
            name = f"{wanted}#{number}"
        self._endpoints[name] = endpoint
        return name

    def leave(self, endpoint: MemoryTransport) -> None:
        """Remove an endpoint that its owner closed. A newer endpoint may have its name already."""
        if self._endpoints.get(endpoint.name) is endpoint:
            del self._endpoints[endpoint.name]

    def bind(self, address: str, listener: MemoryListener) -> str | None:
        """Listen at ``host:port``. Returns the bound address (port 0 is replaced); None if it is taken."""
        host, _, port = address.rpartition(":")
        if port == "0":
            while (address := f"{host}:{self._next_port}") in self._listeners:
                self._next_port += 1
            self._next_port += 1
        if address in self._listeners:
            return None
        self._listeners[address] = listener
        return address

    def unbind(self, address: str, listener: MemoryListener) -> None:
        """Free the address if it still belongs to this listener."""
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def listener_at(self, address: str) -> MemoryListener | None:
        """The listener at an address; None if there is none."""
        return self._listeners.get(address)

    def attach(self, link: MemoryLink) -> None:
        """Add a new link."""
        self._links[link] = None

    def detach(self, link: MemoryLink) -> None:
        """Remove a link that has ended."""
        self._links.pop(link, None)
