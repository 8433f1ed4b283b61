"""The face of our own: REST."""

from __future__ import annotations

from pydantic import Field
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["RestOptions", "slotreeve_faces"]


class RestOptions(Options):
    """Options of the face."""

    longest_wait_seconds: float = Field(
        default=300.0, gt=0, le=3600, description="A request that waits for a change is answered after so long."
    )
    watch_seconds: float = Field(
        default=3600.0,
        gt=0,
        le=86_400,
        description="A stream of events ends after so long; its reader connects again, perhaps to another gateway.",
    )


def _build(options: RestOptions, context: Context) -> Face:
    from slotreeve_face_rest.face import RestFace

    return RestFace(options, context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("rest", _build, "services and leases as REST, with OpenAPI", RestOptions)]
