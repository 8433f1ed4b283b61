"""The kernel of slotreeve: everything that a plugin may import.

``from slotreeve import Offer, Options, Context, Plan, hookimpl`` is enough for most plugins; the domain model is in
:mod:`slotreeve.model`, the ports in :mod:`slotreeve.ports`, the errors in :mod:`slotreeve.errors`.
"""

from typing import TYPE_CHECKING

from slotreeve.late_names import late_names
from slotreeve.model.draft import Draft
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotFacts, SlotTable
from slotreeve.ports import Context, LoadAware

if TYPE_CHECKING:
    from slotreeve.hookspecs import hookimpl
    from slotreeve.offers import API_VERSION, Offer, Options, Port

__version__ = "0.2.0.dev0"

__all__ = [
    "API_VERSION",
    "Context",
    "Draft",
    "Limits",
    "LoadAware",
    "Move",
    "Offer",
    "Options",
    "Plan",
    "Port",
    "Server",
    "Slot",
    "SlotFacts",
    "SlotLoad",
    "SlotTable",
    "__version__",
    "hookimpl",
]

__getattr__ = late_names(
    __name__,
    {
        "hookimpl": "slotreeve.hookspecs",
        **dict.fromkeys(["API_VERSION", "Offer", "Options", "Port"], "slotreeve.offers"),
    },
)
