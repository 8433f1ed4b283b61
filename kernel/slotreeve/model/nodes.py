"""The processes of a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

MOST_WEIGHT = 1e300
"""No server weighs more: weights are added up."""


class Role(StrEnum):
    """The kind of a process."""

    META = "meta"
    DATA = "data"
    SESSION = "session"
    CLIENT = "client"
    TOOL = "tool"
    GATEWAY = "gateway"
    """To the servers it is a client."""


class Server(msgspec.Struct, array_like=True, frozen=True, order=True):
    """A data server as assigners and balancers see it.

    Attributes:
        name: unique in the cluster. Assigners and balancers break ties by it.
        zone: failure domain; empty if it is unknown.
        weight: share of the slots relative to other servers, > 0; 1 by default.
    """

    name: str
    zone: str = ""
    weight: float = 1.0


class Node(msgspec.Struct, array_like=True, frozen=True):
    """A server process.

    Attributes:
        name: unique in the cluster; a restart keeps it.
        role: meta, data or session.
        address: ``host:port`` that other processes connect to (the advertised address).
        process_id: differs after each start of the process.
        zone: failure domain; empty if it is unknown.
        weight: share of the slots (data server) or of the clients (session server).
    """

    name: str
    role: Role
    address: str
    process_id: str
    zone: str = ""
    weight: Annotated[float, msgspec.Meta(ge=0, le=MOST_WEIGHT)] = 1.0

    def as_server(self) -> Server:
        """The node as assigners and balancers get it."""
        return Server(self.name, self.zone, self.weight)
