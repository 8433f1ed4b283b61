"""All services with all their instances, for tools: the lines of a dump. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from slotreeve_client.provider import Provider

TOGETHER_SERVICES = 64
TOGETHER_PROVIDERS = 4_096
"""Services that are read at the same time have so many providers together at most, or there is only one."""


class DumpedProvider(msgspec.Struct, frozen=True):
    """A provider of a service in a dump."""

    register_id: str
    zone: str
    instance: Annotated[
        dict[str, Any] | None,
        Meta(description="Its fields, with the overrides (docs/instances.md); null: it has none."),
    ]
    said: Annotated[dict[str, Any] | None, Meta(description="What its provider said, where an operator overrides it.")]
    base64: Annotated[list[bytes] | None, Meta(description="What it published, where that is no instance.")]


class DumpedService(msgspec.Struct, frozen=True):
    """A line of a dump: a service with all of its providers at one moment."""

    service: Annotated[str, Meta(description="The service, as a whole data info id.")]
    providers: list[DumpedProvider]


class DumpEnd(msgspec.Struct, frozen=True):
    """The last line of a dump. Without it, the dump was cut off."""

    services: Annotated[int, Meta(description="Number of lines before.")]
    providers: int
    problem: Annotated[str, Meta(description="Why others are missing; empty: none is.")] = ""
    code: Annotated[str, Meta(description="The kind of error, see docs/errors.md.")] = ""


def read_together(counts: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Names of services to be read at the same time, by their numbers of providers."""
    names: list[str] = []
    providers = 0
    for name, count in counts.items():
        if names and (len(names) == TOGETHER_SERVICES or providers + count > TOGETHER_PROVIDERS):
            yield names
            names, providers = [], 0
        names.append(name)
        providers += count
    if names:
        yield names


def dumped(service: str, providers: Sequence[Provider]) -> DumpedService:
    """The line of a service."""
    return DumpedService(service, list(map(_dumped_provider, providers)))


def _dumped_provider(provider: Provider) -> DumpedProvider:
    instance, said = provider.instance, provider.said
    if instance is None or said is None:
        return DumpedProvider(provider.register_id, provider.zone, None, None, list(provider.data))
    overridden = asdict(said) if said != instance else None
    return DumpedProvider(provider.register_id, provider.zone, asdict(instance), overridden, None)
