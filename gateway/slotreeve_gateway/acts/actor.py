"""Who asks for an act."""

from __future__ import annotations

import logging

from slotreeve.model.text import in_a_line
from slotreeve_protocol.people_messages import SettingsAre

from slotreeve_gateway.access import Caller
from slotreeve_gateway.gateway import Gateway

log = logging.getLogger("slotreeve.gateway.acts")


class Actor:
    """Who asks for an act, and the way to the servers in that name.

    Args:
        caller: whose request it is; the face has found the right to operate everything.
        host: the address that the request came from; None: it is not known.
        gateway: that was asked.

    Attributes:
        name: the token with the address of the caller.
        servers: requests over them bear that name.
        registry: of the gateway.
    """

    def __init__(self, caller: Caller, host: str | None, gateway: Gateway) -> None:
        self.name = f"{caller.author} at {host or 'an unknown address'}"
        self.servers = gateway.servers.on_behalf(f"{self.name} (by {gateway.name})")
        self.registry = gateway.registry
        self._gateway = gateway

    def own_settings(self) -> tuple[str, SettingsAre]:
        """The gateway with the settings that are in force there."""
        return self._gateway.name, self._gateway.settings_in_force.report()

    def begins(self, deed: str) -> None:
        """Log what this caller does, before it is done: the answer of a server may be lost."""
        log.warning("%s %s", in_a_line(self.name), in_a_line(deed))
