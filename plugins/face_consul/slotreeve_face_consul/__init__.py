"""The face for clients of Consul: registrations with TTL checks, health, catalog, blocking queries."""

from __future__ import annotations

from slotreeve import Context, Offer, hookimpl
from slotreeve.ports import Face

from slotreeve_face_consul.options import ConsulOptions

__all__ = ["ConsulOptions", "slotreeve_faces"]


def _build(options: ConsulOptions, context: Context) -> Face:
    from slotreeve_face_consul.face import ConsulFace

    return ConsulFace(options, context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("consul", _build, "the HTTP interface of Consul for registration and discovery", ConsulOptions)]
