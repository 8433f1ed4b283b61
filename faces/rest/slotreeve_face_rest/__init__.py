"""The face of our own: REST."""

from __future__ import annotations

from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["slotreeve_faces"]


def _build(options: Options, context: Context) -> Face:
    from slotreeve_face_rest.face import RestFace

    return RestFace(context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("rest", _build, "services and leases as REST, with OpenAPI")]
