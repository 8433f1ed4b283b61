"""The face for clients of Eureka: registration, heartbeats, all applications as XML or JSON."""

from __future__ import annotations

from slotreeve import Context, Offer, hookimpl
from slotreeve.ports import Face

from slotreeve_face_eureka.options import EurekaOptions

__all__ = ["EurekaOptions", "slotreeve_faces"]


def _build(options: EurekaOptions, context: Context) -> Face:
    from slotreeve_face_eureka.face import EurekaFace

    return EurekaFace(options, context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("eureka", _build, "the REST interface of Eureka for registration and discovery", EurekaOptions)]
