"""Offers: what a plugin hands out at start-up, once; afterwards plain objects do the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from slotreeve.ports import Assigner, Balancer, Context, Election, SlotFunction, Transport

API_VERSION = (1, 0)
"""Version of the plugin API: an offer works when its major number is this one and its minor is not greater."""


class Port(StrEnum):
    """The places a plugin can fill; the value is the name of the table in the config file."""

    ELECTION = "election"
    SLOT_FUNCTION = "slot_function"
    ASSIGNER = "assigner"
    BALANCER = "balancer"
    TRANSPORT = "transport"

    @property
    def protocol(self) -> type:
        """The Protocol that what an offer builds must satisfy."""
        return _PROTOCOLS[self]


_PROTOCOLS: dict[Port, type] = {
    Port.ELECTION: Election,
    Port.SLOT_FUNCTION: SlotFunction,
    Port.ASSIGNER: Assigner,
    Port.BALANCER: Balancer,
    Port.TRANSPORT: Transport,
}


class Options(BaseModel):
    """Base of every plugin's options: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Offer:
    """One implementation of one port.

    Attributes:
        name: what the config calls it, lower_snake, unique among all offers of the port.
        build: makes the implementation from validated options and a context. Imports its back-end library here,
            not at import. Raises any SlotreeveError whose message a person can act on.
        summary: one line for ``slotreeve plugins list``.
        options: model of the plugin's table in the config file.
        api_version: the plugin API it was written for.
    """

    name: str
    build: Callable[[Any, Context], object]
    summary: str
    options: type[Options] = Options
    api_version: tuple[int, int] = API_VERSION
