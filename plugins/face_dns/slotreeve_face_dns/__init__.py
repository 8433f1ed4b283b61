"""The face for DNS: services as A, AAAA, SRV and TXT records."""

from __future__ import annotations

from pydantic import Field
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["DnsOptions", "slotreeve_faces"]


class DnsOptions(Options):
    """What the face ``dns`` answers, and within which bounds."""

    domain: str = Field(
        default="slotreeve",
        max_length=100,
        pattern=r"^[a-zA-Z0-9-]{1,63}(\.[a-zA-Z0-9-]{1,63}){0,7}$",
        description="The zone: services are SERVICE.service.DOMAIN. Other zones are refused.",
    )
    port: int = Field(default=7753, ge=0, le=65_535, description="UDP and TCP port at the host of gateway.listen.")
    ttl_seconds: int = Field(
        default=0, ge=0, le=86_400, description="How long resolvers may keep an answer, also that there is none."
    )
    strangers: bool = Field(
        default=False,
        description="Answer also where other machines can reach the port: DNS has neither tokens nor TLS.",
    )
    udp_bytes: int = Field(
        default=1_232,
        ge=512,
        le=4_096,
        description="Largest answer over UDP to another machine; larger ones are cut and asked by TCP.",
    )
    udp_bytes_per_source: int = Field(
        default=1_048_576,
        ge=4_096,
        description="Bytes a second over UDP to one address of another machine; beyond it is told to ask by TCP, which "
        "cannot be forged.",
    )
    most_connections: int = Field(
        default=256, ge=1, description="TCP connections at a time; beyond that, idle ones of the busiest address go."
    )
    idle_seconds: float = Field(default=10.0, gt=0, description="How long a TCP connection waits for each query.")


def _build(options: Options, context: Context) -> Face:
    from slotreeve_face_dns.face import DnsFace

    assert isinstance(options, DnsOptions)
    return DnsFace(options, context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("dns", _build, "services as A, AAAA, SRV and TXT records", DnsOptions)]
