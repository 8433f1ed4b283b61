"""What callers send and get as JSON, and how it maps from and to instances. Pure.

The structs are the schemas of the OpenAPI description, too: what they refuse is what the description says.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from slotreeve.model.publisher import MAX_ZONE_LENGTH
from slotreeve_gateway import DEFAULT_TTL_SECONDS, Provider
from slotreeve_gateway.rest.override_body import Weight
from slotreeve_protocol.addresses import MAX_PORT
from slotreeve_protocol.instance import (
    DEFAULT_WEIGHT,
    MAX_ID_LENGTH,
    MAX_METADATA,
    MAX_METADATA_KEY_LENGTH,
    MAX_METADATA_VALUE_LENGTH,
    MAX_NOTE_LENGTH,
    MAX_TAG_LENGTH,
    MAX_TAGS,
    Health,
    Instance,
)
from slotreeve_protocol.leases import LONGEST_TTL_SECONDS, SHORTEST_TTL_SECONDS

MOST_AT_ONCE = 10_000
"""Most leases in one request."""


def _like(pattern: str, example: str) -> Meta:
    """What the description says of a text. The instance checks it, and says what would be right."""
    return Meta(extra_json_schema={"pattern": pattern, "examples": [example]})


Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG_LENGTH)]
MetadataKey = Annotated[str, Meta(min_length=1, max_length=MAX_METADATA_KEY_LENGTH)]
MetadataValue = Annotated[str, Meta(max_length=MAX_METADATA_VALUE_LENGTH)]
Index = Annotated[int, Meta(ge=0, le=10**18 - 1)]
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)]


class InstanceBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """An instance to be registered as a lease. docs/instances.md says what the fields mean."""

    address: Annotated[
        str,
        Meta(min_length=1, max_length=254, description="IPv4, IPv6 without brackets, or a DNS name."),
        _like(r"^([A-Za-z0-9_.-]+|[0-9A-Fa-f:.]+)$", "10.0.0.1"),
    ]
    port: Annotated[int, Meta(ge=0, le=MAX_PORT, description="0: it has none.")] = 0
    scheme: Annotated[str, Meta(description="How to talk to it."), _like(r"^([a-z][a-z0-9+.-]{0,31})?$", "http")] = ""
    weight: Annotated[Weight, Meta(description="Its share of the traffic in comparison with others.")] = DEFAULT_WEIGHT
    zone: Annotated[
        str, Meta(max_length=MAX_ZONE_LENGTH, description="Failure domain; empty: that of the gateway.")
    ] = ""
    tags: Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS, description="Each one once.")] = ()
    metadata: Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=MAX_METADATA)] = {}
    health: Health = Health.PASSING
    health_note: Annotated[str, Meta(max_length=MAX_NOTE_LENGTH, description="Why, for people.")] = ""
    enabled: Annotated[bool, Meta(description="false: it must not be called, however healthy it is.")] = True
    id: Annotated[
        str, Meta(max_length=MAX_ID_LENGTH, description="Its identity in the service; empty: address:port.")
    ] = ""
    ttl_seconds: Annotated[
        float,
        Meta(
            ge=SHORTEST_TTL_SECONDS,
            le=LONGEST_TTL_SECONDS,
            description="It ends where nobody renews it for so long. Renew it at a third of that.",
        ),
    ] = DEFAULT_TTL_SECONDS

    def instance(self, instance_id: str, default_zone: str) -> Instance:
        """The instance. Raises ModelError: a field is not good."""
        return Instance(
            self.address,
            self.port,
            self.scheme,
            self.weight,
            self.zone or default_zone,
            self.tags,
            self.metadata,
            self.health,
            self.health_note,
            self.enabled,
            instance_id,
        )


class RegistrationBody(InstanceBody, forbid_unknown_fields=True, kw_only=True):
    """An instance of a service, to be registered as a lease."""

    service: Annotated[str, Meta(min_length=1, description="A data id, or a whole data info id.")]


class RegistrationsBody(Struct, forbid_unknown_fields=True):
    """Instances to be registered."""

    registrations: Annotated[list[RegistrationBody], Meta(max_length=MOST_AT_ONCE)]


class LeasesBody(Struct, forbid_unknown_fields=True):
    """Leases, which are instances that were registered, by service."""

    leases: Annotated[
        dict[str, list[Id]],
        Meta(description=f"The ids of instances by service; at most {MOST_AT_ONCE:,} ids in all."),
    ]


class Registered(Struct):
    """A lease as it was registered."""

    service: Annotated[str, Meta(description="The service, as a whole data info id.")]
    id: str
    ttl_seconds: float


class LeasesDone(Struct):
    """What became of many leases. Services are named as they were in the request."""

    done: Annotated[int, Meta(ge=0, description="So many are as they were asked to be.")]
    unknown: Annotated[dict[str, list[str]], Meta(description="There is no such lease: register it again.")]
    unanswered: Annotated[dict[str, list[str]], Meta(description="The registry has not answered in time: ask again.")]
    reason: Annotated[str, Meta(description="Why they are unanswered; empty where none is.")] = ""


class ServiceList(Struct):
    """The services that have providers."""

    index: Annotated[Index, Meta(description="Rises with each change, also of services that are not shown.")]
    services: Annotated[dict[str, int], Meta(description="Number of providers by data info id.")]


class Said(Struct):
    """What a provider says, where an operator wants something else."""

    weight: Weight
    enabled: bool


class InstanceShown(Struct, omit_defaults=True):
    """An instance of a service. docs/instances.md says what the fields mean."""

    id: str
    address: str
    port: int
    scheme: str
    weight: Weight
    zone: str
    tags: tuple[str, ...]
    metadata: dict[str, str]
    health: Health
    health_note: str
    enabled: bool
    register_id: Annotated[str, Meta(description="Of its registration; unique in the cluster.")]
    said: Annotated[
        Said | UnsetType, Meta(description="What its provider says; there only where an operator overrides it.")
    ] = UNSET


class OpaqueProvider(Struct):
    """A provider that published bytes of its own. It has no fields."""

    register_id: str
    zone: str
    data: Annotated[tuple[bytes, ...], Meta(description="The byte strings of its payload, in Base64.")]


class Service(Struct):
    """A service."""

    service: Annotated[str, Meta(description="The service, as a whole data info id.")]
    index: Annotated[Index, Meta(description="Rises with each change of the service.")]
    instances: list[InstanceShown]
    opaque: Annotated[
        list[OpaqueProvider],
        Meta(description="Providers that published bytes of their own. No filter admits them."),
    ]


class StreamEvent(Struct):
    """One server-sent event: the service as it is at an index. Lines that begin with a colon are heartbeats."""

    id: Annotated[str, Meta(description="The index. A reader that comes back sends it as Last-Event-ID.")]
    event: Literal["service"]
    data: Annotated[str, Meta(description="The JSON of Service.")]


def instance_shown(register_id: str, seen: Instance, said: Instance) -> InstanceShown:
    """What callers see of an instance.

    Args:
        register_id: id of its registration.
        seen: the instance with the operator's override.
        said: what its provider says.
    """
    return InstanceShown(
        seen.id,
        seen.address,
        seen.port,
        seen.scheme,
        seen.weight,
        seen.zone,
        seen.tags,
        seen.metadata,
        seen.health,
        seen.health_note,
        seen.enabled,
        register_id,
        UNSET if seen is said else Said(said.weight, said.enabled),
    )


def shown(provider: Provider) -> InstanceShown | OpaqueProvider:
    """What callers see of a provider."""
    seen, said = provider.instance, provider.said
    if seen is None or said is None:
        return OpaqueProvider(provider.register_id, provider.zone, provider.data)
    return instance_shown(provider.register_id, seen, said)


encode = msgspec.json.Encoder().encode
