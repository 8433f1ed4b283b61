"""The network that memory transports talk over, and what a test can do to it.

Everything here is named by endpoint: the name a :class:`~slotreeve_transport_memory.transport.MemoryTransport` was
made with, in a cluster the node's name. Conditions of links (delay, partition) outlive the endpoints, so they hold for
a node's next life too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from slotreeve_transport_memory.links import MemoryLink
    from slotreeve_transport_memory.transport import MemoryListener, MemoryTransport

FIRST_FREE_PORT = 49152

_networks: WeakKeyDictionary[asyncio.AbstractEventLoop, MemoryNetwork] = WeakKeyDictionary()


class MemoryNetwork:
    """Listeners, endpoints and links of one process, and the conditions they work under.

    Attributes:
        delay_seconds: travel time of a packet by (from, to) endpoint; order within a connection is kept whatever it
            returns. Zero unless set: delivery on the next turn of the event loop.
    """

    def __init__(self) -> None:
        self.delay_seconds: Callable[[str, str], float] = lambda _source, _target: 0.0
        self._listeners: dict[str, MemoryListener] = {}
        self._endpoints: dict[str, MemoryTransport] = {}
        self._links: dict[MemoryLink, None] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._frozen: set[str] = set()
        self._next_port = FIRST_FREE_PORT

    @staticmethod
    def current() -> MemoryNetwork:
        """The network of the running event loop: what transports use that were not given another."""
        return _networks.setdefault(asyncio.get_running_loop(), MemoryNetwork())

    # --- conditions ------------------------------------------------------------------------------------------

    def partition(self, sources: Iterable[str], targets: Iterable[str], *, one_way: bool = False) -> None:
        """From now on nothing passes from ``sources`` to ``targets`` (nor back, unless ``one_way``); nobody is told.

        As with TCP, what is sent meanwhile waits, is delivered in order after :meth:`heal`, and fails with
        Backpressure once the queues are full; new connections end in Unreachable. A death, too, is noticed on the
        other side only after healing. To model a connection that gave up, :meth:`cut` it before healing.
        """
        sources, targets = list(sources), list(targets)
        self._blocked.update((s, t) for s in sources for t in targets)
        if not one_way:
            self._blocked.update((t, s) for s in sources for t in targets)

    def heal(self) -> None:
        """End every partition; what waited is delivered."""
        self._blocked.clear()
        self._resume()

    def cut(self, first: str, second: str) -> int:
        """End every connection between two endpoints at once, at both ends, losing what is under way; returns how
        many there were."""
        ends = [link for link in self._links if {link.source, link.target} == {first, second}]
        for link in ends:
            link.break_off("connection cut")
        return len(ends) // 2

    def kill(self, name: str) -> None:
        """The process of endpoint ``name`` dies: its handlers hear nothing more, its peers learn that their
        connections have ended, its addresses are free. Its tasks are its owner's to cancel. The name can be used
        again. Nothing happens if there is no such endpoint."""
        endpoint = self._endpoints.pop(name, None)
        self._frozen.discard(name)
        if endpoint is not None:
            endpoint.die()

    def freeze(self, name: str) -> None:
        """The process of endpoint ``name`` stops: nothing comes out of it, and what is sent to it piles up."""
        self._frozen.add(name)

    def thaw(self, name: str) -> None:
        """End :meth:`freeze`; what piled up is delivered in order."""
        self._frozen.discard(name)
        self._resume()

    def passes(self, source: str, target: str) -> bool:
        """True while packets travel from one endpoint to the other."""
        return (source, target) not in self._blocked and source not in self._frozen and target not in self._frozen

    @property
    def endpoints(self) -> list[str]:
        """Names of the living endpoints, in the order they came."""
        return list(self._endpoints)

    def connections(self, name: str) -> list[str]:
        """Whom endpoint ``name`` has connections with: one name for each, in the order they were made."""
        return [link.target for link in self._links if link.source == name]

    def _resume(self) -> None:
        for link in list(self._links):
            link.schedule()

    # --- for transports --------------------------------------------------------------------------------------

    def enter(self, endpoint: MemoryTransport, wanted: str) -> str:
        """Take an endpoint in under the wanted name, or one made from it if a living endpoint has it."""
        name, number = wanted, 1
        while name in self._endpoints:
            number += 1
            name = f"{wanted}#{number}"
        self._endpoints[name] = endpoint
        return name

    def leave(self, endpoint: MemoryTransport) -> None:
        """An endpoint was closed by its owner; its name may already be a successor's."""
        if self._endpoints.get(endpoint.name) is endpoint:
            del self._endpoints[endpoint.name]

    def bind(self, address: str, listener: MemoryListener) -> str | None:
        """Listen at ``host:port``; returns the address bound (port 0 is replaced), None if it is taken."""
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
        """The address is free again, if it is still this listener's."""
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def listener_at(self, address: str) -> MemoryListener | None:
        """Who listens there."""
        return self._listeners.get(address)

    def attach(self, link: MemoryLink) -> None:
        """A link came into being."""
        self._links[link] = None

    def detach(self, link: MemoryLink) -> None:
        """A link has ended."""
        self._links.pop(link, None)
