"""Settings of session servers: the table ``[session]``."""

from __future__ import annotations

from pydantic import Field
from slotreeve.configuration import Section


class SessionSettings(Section):
    """A session server's rules."""

    client_lease_seconds: float = Field(default=10.0, gt=0, description="A client silent for this long has left.")
    drain_seconds: float = Field(
        default=10.0,
        ge=0,
        description="A server that stops leaves once none of its clients has moved elsewhere for this long.",
    )
    linger_seconds: float = Field(
        default=0.3, ge=0, description="A client whose connection closed without a word has this long to come back."
    )
    push_window_seconds: float = Field(
        default=0.002,
        ge=0,
        description="After a push, further changes of that service coalesce for at least this long.",
    )
    push_ceiling_seconds: float = Field(default=1.0, gt=0, description="No change waits longer than this to be pushed.")
    scan_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Interval at which the versions of all watched services are declared again to the slot leaders.",
    )
    most_registrations: int = Field(
        default=1_000_000, ge=1, description="Registrations of one client; more are refused (SR503)."
    )
    most_megabytes: int = Field(
        default=1_024, ge=1, description="MiB of the payloads of one client's registrations; more are refused."
    )
    most_subscriptions: int = Field(
        default=1_000_000,
        ge=1,
        description="Services and keys of the configuration that one client may watch; more are refused.",
    )
    most_requests_per_second: float = Field(
        default=20_000.0,
        gt=0,
        description="Lookups, lists and requests about leases, by tens of leases, of one client; more are refused.",
    )
    most_connections_of_key: int = Field(
        default=50_000, ge=1, description="Clients connected here with one key; more are turned away."
    )
    max_pending_writes: int = Field(
        default=200_000,
        ge=1,
        description="Unacknowledged records from which on publishes are refused, each counted once, and once more for "
        "each 2 KiB of payload; one client may have as many as there is room left.",
    )
