"""The face for Envoy: endpoints by the REST form of its discovery service (EDS)."""

from __future__ import annotations

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["slotreeve_faces"]


def _build(options: Options, context: Context) -> Face:
    from slotreeve_face_envoy.face import EnvoyFace

    return EnvoyFace(context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("envoy", _build, "endpoints for Envoy by REST (EDS)")]
