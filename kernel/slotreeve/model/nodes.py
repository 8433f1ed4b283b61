"""Servers of a cluster."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a process is in the cluster."""

    META = "meta"
    DATA = "data"
    SESSION = "session"
    CLIENT = "client"
    TOOL = "tool"


class Server(msgspec.Struct, array_like=True, frozen=True, order=True):
    """A data server as assigners and balancers see it.

    Attributes:
        name: unique in the cluster; ties are broken by it.
        zone: failure domain; empty where not known.
        weight: share of the slots relative to the others, > 0; 1 unless told.
    """

    name: str
    zone: str = ""
    weight: float = 1.0


class Node(msgspec.Struct, array_like=True, frozen=True):
    """A server process as the cluster knows it.

    Attributes:
        name: unique in the cluster, stable across restarts.
        role: meta, data or session.
        address: ``host:port`` where others reach it (the advertised address).
        process_id: new at every start of the process.
        zone: failure domain; empty where not known.
        weight: data: share of the slots; session: share of the clients.
    """

    name: str
    role: Role
    address: str
    process_id: str
    zone: str = ""
    weight: float = 1.0

    def as_server(self) -> Server:
        """The node as an assigner or balancer sees it."""
        return Server(self.name, self.zone, self.weight)
