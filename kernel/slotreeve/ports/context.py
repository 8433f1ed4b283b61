"""The context that a plugin is built with."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotreeve.clock import Clock
from slotreeve.keys import KeyRing
from slotreeve.ports.storage import Storage
from slotreeve.ports.transport import Transport


@dataclass(frozen=True)
class Context:
    """The second argument of ``Offer.build``. A plugin uses what its port needs.

    Attributes:
        cluster: name of the cluster.
        slots: number of slots.
        clock, rng: the source of time and the source of random numbers.
        node: name of this node.
        members: election address of every meta server by name, this node included.
        transport: for elections that use the network.
        open_storage: opens and locks a directory that an option names; raises StorageError.
        observe_only: this node must not become leader.
        listen: address that this node's election listens on; empty: its address in ``members``.
        keys: for transports: what they prove and check identities with; None: they do not.
        gateway: for faces: the gateway that the face belongs to, a ``slotreeve_gateway.Gateway``.
    """

    cluster: str
    slots: int
    clock: Clock
    rng: random.Random
    node: str = ""
    members: Mapping[str, str] = field(default_factory=dict)
    transport: Transport | None = None
    open_storage: Callable[[str], Storage] | None = None
    observe_only: bool = False
    listen: str = ""
    keys: KeyRing | None = None
    gateway: object = None
