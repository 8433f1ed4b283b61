"""Which meta servers take part in an election, and at which ports. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import NamedTuple

from slotreeve.errors import ConfigError
from slotreeve.ports import Context

HIGHEST_PORT = 65_535


class Announced(NamedTuple):
    """What the members announce of their election addresses. ``is_moved``: the others may have another address of this
    node in their configuration. ``port_shift``: what every port of the election has been shifted by."""

    is_moved: bool = False
    port_shift: int = 0


def taking_part(context: Context, names: Collection[str], port_shift: int) -> Context:
    """The context of one node, with the members ``names`` only (none: all), and with ``port_shift`` added to each port.
    A node that is not among them observes.

    Raises:
        ConfigError: a name is unknown, or a port does not exist.
    """
    for name in names:
        if name not in context.members:
            known = ", ".join(sorted(context.members))
            raise ConfigError(f"election.fle.members: {name!r} is no meta server; [cluster.meta] has {known}")
    members = {
        name: _shifted(address, port_shift) for name, address in context.members.items() if name in names or not names
    }
    observes = context.observe_only or (context.node in context.members and context.node not in members)
    listen = _shifted(context.listen, port_shift)
    return dataclasses.replace(context, members=members, listen=listen, observe_only=observes)


def _shifted(address: str, by: int) -> str:
    if not by or not address:
        return address
    host, _, port = address.rpartition(":")
    if not 0 < int(port) + by <= HIGHEST_PORT:
        raise ConfigError(f"election.fle.port_shift: {by} leaves no port for the election at {address}")
    return f"{host}:{int(port) + by}"


def unshifted(address: str, by: int) -> str | None:
    """The address before its port was shifted, as another node has told it; None if there is no such port."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - by}" if 0 < int(port) - by <= HIGHEST_PORT else None
