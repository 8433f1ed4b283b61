"""The face for operators: what the commands of operators read and do, over HTTP."""

from __future__ import annotations

from pydantic import Field
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["AdminOptions", "slotreeve_faces"]


class AdminOptions(Options):
    """Options of the face."""

    hosts: tuple[str, ...] = Field(
        default=(),
        description="Names by which callers without a token may reach the gateway, without ports. IP addresses and "
        "localhost always may; other names are refused, since a web page may make its name stand for this machine.",
    )


def _build(options: AdminOptions, context: Context) -> Face:
    from slotreeve_face_admin.face import AdminFace

    return AdminFace(options, context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("admin", _build, "what operators read and order, over HTTP", AdminOptions)]
