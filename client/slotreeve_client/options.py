"""The options of a client."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from slotreeve.model.publisher import MAX_ZONE_LENGTH
from slotreeve.offers import MAX_TEXT
from slotreeve_protocol.people_messages import MAX_APPLICATION_LENGTH


class ClientOptions(BaseModel):
    """The options of a client. All times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=MAX_TEXT)

    cluster: str = Field(
        default="slotreeve", description="Name of the cluster; servers of another one refuse the client."
    )
    zone: str = Field(
        default="",
        max_length=MAX_ZONE_LENGTH,
        description="Zone of this process. It is published with every registration.",
    )
    application: str = Field(
        default="",
        max_length=MAX_APPLICATION_LENGTH,
        description="What this program is called, for operators: `slotreeve application NAME` shows what it uses.",
    )
    transport: str = Field(default="zmq", description="Name of the transport plugin.")
    own_key: str = Field(
        default="",
        description="File with the secret key of this program (`slotreeve keys new`); empty: no keys. With keys the "
        "addresses of session servers are NAME@host:port.",
    )
    trusted_keys: str = Field(
        default="", description="File with the keys of the servers; empty: trusted.toml beside own_key."
    )
    connect_seconds: float = Field(
        default=1.0,
        gt=0,
        description="Time-out of a connection attempt. It doubles with each round without success, up to 30. After an "
        "eighth of it without a sign of life, another attempt begins beside it.",
    )
    ping_seconds: float = Field(
        default=1.0,
        gt=0,
        description="Interval of pings, which renew the client's lease. Servers with very many clients ask for longer.",
    )
    silence_seconds: float = Field(
        default=3.0, gt=0, description="The client leaves a server from which nothing at all arrives in this time."
    )
    longest_pause_seconds: float = Field(default=1.0, gt=0, description="Longest pause between attempts to connect.")
    request_seconds: float = Field(default=5.0, gt=0, description="Time-out of get and list.")
    window: int = Field(
        default=8_192,
        ge=1,
        description="Most records sent and not yet acknowledged. A record of more than 2 KiB counts as several.",
    )
    batch: int = Field(default=512, ge=1, le=10_000, description="Most records in one message.")
