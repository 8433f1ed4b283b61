"""The ports: what a plugin must provide, in types and in prose; one module for each port.

All methods are called on the event loop of the node that built the plugin, never from two threads at once.
A plugin takes time, chance, the network and the disk from the context it was built with, and from nowhere else.
"""

from slotreeve.ports.assigner import Assigner
from slotreeve.ports.balancer import Balancer
from slotreeve.ports.context import Context
from slotreeve.ports.election import Election, Leadership, MetaState, Versioned
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
    "Handler",
    "Hello",
    "Leadership",
    "Listener",
    "Message",
    "MetaState",
    "SlotFunction",
    "Storage",
    "Transport",
    "TransportCounters",
    "Versioned",
]
