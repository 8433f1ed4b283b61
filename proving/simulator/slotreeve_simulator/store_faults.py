"""Faults of the database of a lock election."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve_simulator.cluster import SLOW_FACTOR
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.store import LockStore


def strike_store(store: LockStore | None, fault: Fault) -> Callable[[], None] | None:
    """Begin a fault of the database. Returns the function that ends it; None if the database has that fault already."""
    assert store is not None
    database, node = store.database, fault.first[0]
    match fault.kind:
        case FaultKind.STORE_RESTART:
            database.restart()
            return lambda: None
        case FaultKind.STORE_CUT:
            if node in database.cut_off:
                return None
            database.cut_off.add(node)
            return lambda: database.cut_off.discard(node)
        case FaultKind.STORE_SLOW:
            if store.slowness > 1.0:
                return None
            store.slowness = SLOW_FACTOR**fault.amount
            return lambda: setattr(store, "slowness", 1.0)
    attribute = "is_down" if fault.kind is FaultKind.STORE_DOWN else "is_silent"
    if getattr(database, attribute):
        return None
    setattr(database, attribute, True)
    return lambda: setattr(database, attribute, False)
