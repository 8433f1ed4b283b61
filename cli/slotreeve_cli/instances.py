"""Instances on the command line: made of options, and shown as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from slotreeve_client import Instance, Provider


def pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """``key=value`` texts as a dict. Anything else is wrong usage."""
    found: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key or key in found:
            raise typer.BadParameter(f"{option} {value}: expected key=value, each key once, e.g. {option} version=1.2")
        found[key] = text
    return found


def provider_row(provider: Provider) -> dict[str, object]:
    """A provider for programs. ``data`` is what it published as bytes, and null where it registered an instance.
    ``said`` is the instance as the provider registered it, ``instance`` has the operator's override in it."""
    return {
        "data": _data(provider) if provider.instance is None else None,
        "zone": provider.zone,
        "register_id": provider.register_id,
        "instance": None if provider.instance is None else instance_row(provider.instance),
        "said": None if provider.said is None else instance_row(provider.said),
    }


def instance_row(instance: Instance) -> dict[str, object]:
    """The fields of an instance by name, for programs."""
    from msgspec.structs import asdict

    return asdict(instance)


def provider_table(providers: Sequence[Provider]) -> list[dict[str, object]]:
    """Providers for people: with the columns of instances if one of them has an instance."""
    if all(provider.instance is None for provider in providers):
        return [{"data": _data(p), "zone": p.zone, "register_id": p.register_id} for p in providers]
    return [_columns(provider) for provider in providers]


def provider_line(provider: Provider) -> str:
    """A provider in one line, for people."""
    columns = provider_table([provider])[0]
    del columns["register_id"]
    first, *others = columns.items()
    shown = [
        f"({name} {text})" if name == "zone" else f"{name} {text}" for name, value in others if (text := _shown(value))
    ]
    return "  ".join([_shown(first[1]), *shown])


def _columns(provider: Provider) -> dict[str, object]:
    instance, said = provider.instance, provider.said
    if instance is None or said is None:
        columns: dict[str, object] = dict.fromkeys(("weight", "health", "enabled", "tags", "metadata"))
        return {"provider": _data(provider), **columns, "zone": provider.zone, "register_id": provider.register_id}
    return {
        "provider": f"{instance.scheme}://{instance.endpoint}" if instance.scheme else instance.endpoint,
        "weight": _overridden(instance.weight, said.weight),
        "health": f"{instance.health}: {instance.health_note}" if instance.health_note else str(instance.health),
        "enabled": _overridden(_yes(instance.enabled), _yes(said.enabled)),
        "tags": list(instance.tags),
        "metadata": [f"{key}={value}" for key, value in sorted(instance.metadata.items())],
        "zone": provider.zone,
        "register_id": provider.register_id,
    }


def _overridden(seen: int | str, said: int | str) -> str:
    return str(seen) if seen == said else f"{seen} (said {said})"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _data(provider: Provider) -> str | list[str]:
    """A payload as text; bytes that are not text are escaped."""
    values = [value.decode("utf-8", "backslashreplace") for value in provider.data]
    return values[0] if len(values) == 1 else values


def _shown(value: object) -> str:
    from slotreeve_cli.printing import as_text

    return "" if value is None else as_text(value)
