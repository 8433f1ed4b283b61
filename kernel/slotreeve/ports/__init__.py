"""The ports: the contracts of plugins, one module for each.

A node calls all methods on its event loop, never from two threads at once. A plugin takes time, random numbers, the
network and the disk from the context that it was built with, and from nowhere else.
"""

from slotreeve.ports.assigner import Assigner
from slotreeve.ports.balancer import Balancer
from slotreeve.ports.context import Context
from slotreeve.ports.election import Election, Leadership, MetaState, Versioned
from slotreeve.ports.face import Face
from slotreeve.ports.load_aware import LoadAware, aware_of
from slotreeve.ports.slot_function import BatchSlotFunction, SlotFunction
from slotreeve.ports.storage import Storage
from slotreeve.ports.transport import Connection, Handler, Hello, Listener, Message, Transport, TransportCounters

__all__ = [
    "Assigner",
    "Balancer",
    "BatchSlotFunction",
    "Connection",
    "Context",
    "Election",
    "Face",
    "Handler",
    "Hello",
    "Leadership",
    "Listener",
    "LoadAware",
    "Message",
    "MetaState",
    "SlotFunction",
    "Storage",
    "Transport",
    "TransportCounters",
    "Versioned",
    "aware_of",
]
