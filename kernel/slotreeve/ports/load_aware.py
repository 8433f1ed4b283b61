"""What an assigner or balancer may add to its port in order to be given the loads of the slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self, TypeVar, runtime_checkable

from slotreeve.model.loads import SlotLoad

Plugin = TypeVar("Plugin")


@runtime_checkable
class LoadAware(Protocol):
    """An assigner or balancer that looks at loads. Optional: others are asked as their port says.

    Implement it only where loads matter: the caller plans anew when they have changed.
    """

    def with_loads(self, loads: Mapping[int, SlotLoad]) -> Self:
        """The same plugin, that takes ``loads`` as those of the slots. A pure function: this plugin stays as it is.

        The caller asks the result once and makes another one for the next question. ``loads`` has what data servers
        have told, by slot: it may be empty, lack slots (of which nothing is known) and be some tens of seconds old.
        It changes only noticeably (:meth:`~slotreeve.model.loads.SlotLoad.is_near`), at most every half minute. While
        it stays the same, the steps of a balancer must come to an end; with other loads they may lead back to a table
        that there was before. An exception is treated as one of the plugin's.
        """


def aware_of(plugin: Plugin, loads: Mapping[int, SlotLoad]) -> Plugin:
    """``plugin`` with the loads, if it looks at them."""
    return plugin.with_loads(loads) if isinstance(plugin, LoadAware) else plugin
