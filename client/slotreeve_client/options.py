"""What can be set on a client."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ClientOptions(BaseModel):
    """A client's options; all times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(default="slotreeve", description="Name of the cluster; another one's servers refuse.")
    zone: str = Field(default="", description="Where this process runs; goes with everything it publishes.")
    transport: str = Field(default="zmq", description="Name of the transport plugin.")
    connect_seconds: float = Field(default=1.0, gt=0, description="Time-out of one connection attempt.")
    ping_seconds: float = Field(default=1.0, gt=0, description="Interval of pings; they renew the lease.")
    silence_seconds: float = Field(
        default=3.0, gt=0, description="A server that does not answer a ping for this long is left for another."
    )
    longest_pause_seconds: float = Field(default=1.0, gt=0, description="Ceiling of the pause between attempts.")
    request_seconds: float = Field(default=5.0, gt=0, description="Time-out of get and list.")
    window: int = Field(
        default=8_192,
        ge=1,
        description="Records sent and not yet acknowledged, at most; one of more than 2 KiB counts for several.",
    )
    batch: int = Field(default=512, ge=1, le=10_000, description="Records in one message, at most.")
