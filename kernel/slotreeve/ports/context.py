"""What a plugin is built with."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotreeve.clock import Clock
from slotreeve.ports.storage import Storage
from slotreeve.ports.transport import Transport


@dataclass(frozen=True)
class Context:
    """What the kernel hands to ``Offer.build``; a plugin uses what its port needs.

    Attributes:
        cluster: name of the cluster.
        slots: number of slots.
        clock, rng: time and chance.
        node: this node's name; ``members``: election address of every meta node by name, this node included.
        transport: for elections that talk over the network.
        open_storage: opens (and locks) a directory given by an option; raises StorageError.
        observe_only: the election must not stand as a candidate.
        listen: where this node's election listens; empty: its own address among ``members``.
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
