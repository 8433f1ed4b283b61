"""Settings that every process has: the tables ``[cluster]``, ``[node]`` and ``[log]``."""

from __future__ import annotations

from pydantic import Field, field_validator
from slotreeve.configuration import Section

from slotreeve_servers.node.deltas import PART_BYTES


class ClusterSettings(Section):
    """What is the same on every process of a cluster."""

    name: str = Field(default="slotreeve", min_length=1, description="Processes of another cluster are refused.")
    slots: int = Field(default=256, ge=1, le=65_536, description="Number of slots; fixed for the life of the cluster.")
    replicas: int = Field(
        default=2, ge=1, le=7, description="Copies of each slot, the leader's included; fixed as well."
    )
    meta: dict[str, str] = Field(
        default={"meta-1": "127.0.0.1:7710"},
        min_length=1,
        description="Advertised address of every meta server, by name.",
    )


class NodeSettings(Section):
    """What is particular to this process."""

    name: str = Field(default="", description="Unique in the cluster, stable across restarts; empty: role and address.")
    bind: str = Field(default="", description="host:port to listen on; empty: the advertised address.")
    advertise: str = Field(
        default="", description="host:port where others reach this process; empty: 127.0.0.1, role's port."
    )
    port_offset: int = Field(default=0, ge=0, le=50_000, description="Added to the role's default port.")
    zone: str = Field(default="", description="Failure domain; also what scope 'zone' of subscribers compares.")
    weight: float = Field(
        default=1.0, gt=0, description="Share of slots (data) or clients (session) against the others."
    )
    part_bytes: int = Field(
        default=PART_BYTES,
        ge=1_024,
        le=8 * 1024 * 1024,
        description="A service larger than this is sent, compared and read in parts of about so many bytes.",
    )
    insecure: bool = Field(default=False, description="Allow listening on other than loopback addresses.")


class HttpSettings(Section):
    """Health and metrics of this process over HTTP: ``/livez``, ``/readyz``, ``/leader``, ``/metrics``."""

    enabled: bool = Field(default=False, description="Serve them.")
    listen: str = Field(
        default="", description="host:port; empty: where this process listens for the cluster, at the port plus 1."
    )


class GatewaySettings(Section):
    """A gateway (``slotreeve gateway run``): the registry for programs that do not use our client."""

    listen: str = Field(
        default="", description="host:port of the faces that speak HTTP; empty: 127.0.0.1:7740 and node.port_offset."
    )
    sessions: tuple[str, ...] = Field(
        default=("127.0.0.1:7730",), min_length=1, description="Session servers host:port; one of them is enough."
    )
    most_services: int = Field(
        default=20_000, ge=1, description="Services that callers may watch at a time; more are refused."
    )
    idle_seconds: float = Field(
        default=60.0, ge=5, description="A service that no caller asks for so long is not watched any more."
    )
    directory_seconds: float = Field(
        default=1.0, ge=0.1, description="How old a list of all services may be that callers get."
    )

    @field_validator("sessions", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.split(",") if isinstance(value, str) else value


class LogSettings(Section):
    """What is written to standard error."""

    level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error."
    )
    format: str = Field(
        default="auto", pattern="^(auto|text|json)$", description="auto: text on a terminal, else JSON."
    )
