"""Settings that every process has: ``[cluster]``, ``[node]``, ``[objective]``, ``[log]`` and others."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from slotreeve.configuration import Section
from slotreeve.model.nodes import MOST_WEIGHT
from slotreeve.model.publisher import MAX_ZONE_LENGTH
from slotreeve.model.rights import ANY, parse_right
from slotreeve_protocol.addresses import is_loopback

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

    @field_validator("meta")
    @classmethod
    def _check_addresses(cls, meta: dict[str, str]) -> dict[str, str]:
        by_address: dict[str, str] = {}
        for name, address in meta.items():
            other = by_address.setdefault(address, name)
            if other != name:
                raise ValueError(f"{other} and {name} have one address, {address}; each meta server needs its own")
        return meta


class NodeSettings(Section):
    """What is particular to this process."""

    name: str = Field(default="", description="Unique in the cluster, stable across restarts; empty: role and address.")
    bind: str = Field(default="", description="host:port to listen on; empty: the advertised address.")
    advertise: str = Field(
        default="", description="host:port where others reach this process; empty: 127.0.0.1, role's port."
    )
    port_offset: int = Field(default=0, ge=0, le=50_000, description="Added to the role's default port.")
    zone: str = Field(
        default="",
        max_length=MAX_ZONE_LENGTH,
        description="Failure domain; also what scope 'zone' of subscribers compares.",
    )
    weight: float = Field(
        default=1.0,
        gt=0,
        le=MOST_WEIGHT,
        description="Share of slots (data) or clients (session) against the others.",
    )
    part_bytes: int = Field(
        default=PART_BYTES,
        ge=1_024,
        le=8 * 1024 * 1024,
        description="A service larger than this is sent, compared and read in parts of about so many bytes.",
    )
    own_key: str = Field(
        default="", description="File with the secret key of this process (`slotreeve keys new`); empty: no keys."
    )
    trusted_keys: str = Field(
        default="", description="File with the keys of all who may take part; empty: trusted.toml beside own_key."
    )
    insecure: bool = Field(
        default=False, description="Allow listening on other than loopback addresses without keys, tokens or TLS."
    )


class HttpSettings(Section):
    """Health and metrics of this process over HTTP: ``/livez``, ``/readyz``, ``/leader``, ``/metrics``."""

    enabled: bool = Field(default=False, description="Serve them.")
    listen: str = Field(
        default="", description="host:port; empty: where this process listens for the cluster, at the port plus 1."
    )
    strangers: bool = Field(
        default=False,
        description="Answer also where other machines can reach the port: these pages have neither keys nor tokens.",
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

    most_connections: int = Field(
        default=20_000, ge=1, description="Callers connected at a time; a further one is answered with 503 and closed."
    )
    longest_head_bytes: int = Field(
        default=16_384, ge=1_024, le=65_536, description="Largest request line with its headers; 431 beyond."
    )
    head_seconds: float = Field(
        default=10.0, gt=0, description="Until a request line with its headers, or TLS' handshake, is complete."
    )
    body_seconds: float = Field(default=30.0, gt=0, description="Until a request's body is complete.")
    keep_alive_seconds: float = Field(
        default=75.0, gt=0, description="How long a connection without a request is kept."
    )
    write_seconds: float = Field(
        default=30.0,
        gt=0,
        description="How long a caller may leave an answer untaken while the buffer for it (64 KiB) is full.",
    )
    tls_certificate: str = Field(
        default="", description="PEM file: certificate and chain; empty: no TLS. Read again when it changes."
    )
    tls_key: str = Field(default="", description="PEM file: the certificate's private key, without a passphrase.")
    tls_client_ca: str = Field(
        default="", description="PEM file: whose certificates callers must show; empty: they show none."
    )
    authentication: Literal["none", "tokens"] = Field(
        default="none",
        description="none: everybody may do everything. tokens: callers show tokens (`slotreeve gateway token`).",
    )
    anonymous: tuple[str, ...] = Field(
        default=(),
        description='With tokens: the rights of callers without one, e.g. `["read:*"]`; empty: they are refused.',
    )

    grants: dict[str, tuple[str, ...]] = Field(
        default={},
        description='With tokens: the rights of those for whom others vouch, by `"group:NAME"` or `"subject:NAME"` of '
        'an OpenID provider, or a URI with `*` in the certificate of a caller (SPIFFE): `"spiffe://example.com/shop"`.',
    )
    oidc_issuer: str = Field(
        default="", description="The OpenID provider whose signed tokens count (the claim `iss`); empty: nobody's."
    )
    oidc_audience: str = Field(default="", description="Whom its tokens must be for (the claim `aud`).")
    oidc_keys: str = Field(
        default="", description="URL or file of its public keys (JWKS); empty: as its discovery document says."
    )
    oidc_groups: str = Field(
        default="groups", min_length=1, description="The claim with a caller's groups; `a.b`: claim b within a."
    )

    @field_validator("sessions", "anonymous", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part for part in value.split(",") if part] if isinstance(value, str) else value

    @field_validator("anonymous")
    @classmethod
    def _rights(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for right in value:
            parse_right(right)
        return value

    @field_validator("grants")
    @classmethod
    def _rights_of_all(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for holder, rights in value.items():
            if not holder.startswith(("group:", "subject:")) and "://" not in holder:
                raise ValueError(f"{holder!r}: expected group:NAME, subject:NAME, or a URI as spiffe://DOMAIN/PATH")
            scheme, _, place = holder.partition("://")
            is_uri = not holder.startswith(("group:", "subject:"))
            if is_uri and ANY in scheme + place.partition("/")[0]:
                raise ValueError(f"{holder!r}: expected * in the path only: whose domain it is must be said")
            cls._rights(rights)
        return value

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("tls_certificate and tls_key: expected both or none")
        if self.tls_client_ca and not self.tls_certificate:
            raise ValueError("tls_client_ca: expected tls_certificate and tls_key as well")
        if (self.grants or self.oidc_issuer) and self.authentication == "none":
            raise ValueError(
                'grants and oidc_issuer: without tokens everybody may do everything; expected authentication = "tokens"'
            )
        if bool(self.oidc_issuer) != bool(self.oidc_audience):
            raise ValueError("oidc_issuer and oidc_audience: expected both or none")
        if self.oidc_issuer and not self.grants:
            raise ValueError("oidc_issuer: without gateway.grants its tokens allow nothing; expected grants as well")
        for setting, place in (("oidc_issuer", self.oidc_issuer), ("oidc_keys", self.oidc_keys)):
            if not is_safe_place(place):
                raise ValueError(f"{setting}: {place!r} is neither https nor on this machine; anybody could send keys")
        if any("://" in holder for holder in self.grants) and not self.tls_client_ca:
            raise ValueError("grants: certificates count only where callers show them; expected tls_client_ca as well")
        if self.anonymous and self.authentication == "none":
            raise ValueError(
                'anonymous: without tokens everybody may do everything; expected authentication = "tokens"'
            )
        return self


def is_safe_place(place: str) -> bool:
    """Whether nobody between can change what is read there: a file, or a URL with TLS or on this machine."""
    parts = urlsplit(place)
    if parts.scheme == "http":
        return is_loopback(f"{parts.hostname}:80")
    return parts.scheme in ("", "https")


class ObjectiveSettings(Section):
    """How soon a change should reach subscribers (docs/delays.md). Nothing else is done for it than to tell when it
    does not."""

    delay_ms: float = Field(
        default=500.0, gt=0, description="A push is late if the servers took longer than this for its oldest change."
    )
    share: float = Field(default=0.999, ge=0.5, le=0.99999, description="Share of the pushes that must not be late.")


class LogSettings(Section):
    """What is written to standard error."""

    level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error."
    )
    format: str = Field(
        default="auto", pattern="^(auto|text|json)$", description="auto: text on a terminal, else JSON."
    )
