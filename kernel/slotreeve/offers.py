"""Offers: a plugin returns them at start-up; an offer builds the object that then does the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from slotreeve.ports import Assigner, Balancer, Context, Election, Face, SlotFunction, Transport

API_VERSION = (1, 0)
"""Version of the plugin API. An offer fits if its major number is equal and its minor number is not greater."""


class Port(StrEnum):
    """What a plugin can provide. The value is the name of the table in the configuration."""

    ELECTION = "election"
    SLOT_FUNCTION = "slot_function"
    ASSIGNER = "assigner"
    BALANCER = "balancer"
    TRANSPORT = "transport"
    FACE = "face"

    @property
    def protocol(self) -> type:
        """The Protocol that an object built by an offer must satisfy."""
        return _PROTOCOLS[self]


_PROTOCOLS: dict[Port, type] = {
    Port.ELECTION: Election,
    Port.SLOT_FUNCTION: SlotFunction,
    Port.ASSIGNER: Assigner,
    Port.BALANCER: Balancer,
    Port.TRANSPORT: Transport,
    Port.FACE: Face,
}


MAX_TEXT = 64 * 1024
"""Characters of a text in the configuration, at most. With any limit, pydantic refuses lone surrogates, too: what bytes
in an environment variable become that are not UTF-8. No message could carry them."""


class Options(BaseModel):
    """Base class of every plugin's options: frozen, an unknown key is an error, and texts can be encoded in UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=MAX_TEXT)


@dataclass(frozen=True)
class Offer:
    """One implementation of one port.

    Attributes:
        name: its name in the configuration, in lower_snake, unique among all offers of the port.
        build: makes the implementation from validated options and a context. It imports the back-end's library, so
            that importing the plugin does not need it. It may raise any SlotreeveError.
        summary: one line for ``slotreeve plugins list``.
        options: model of the plugin's table in the configuration.
        api_version: the version of the plugin API that it was written for.
    """

    name: str
    build: Callable[[Any, Context], object]
    summary: str
    options: type[Options] = Options
    api_version: tuple[int, int] = API_VERSION
