"""The face for people: web pages for operators."""

from __future__ import annotations

from pydantic import Field
from slotreeve import Context, Offer, Options, hookimpl
from slotreeve.ports import Face

__all__ = ["ConsoleOptions", "slotreeve_faces"]


class ConsoleOptions(Options):
    """Options of the face."""

    read_only: bool = Field(
        default=False, description="True: pages only show. False: who may operate everything acts with them, too."
    )
    seconds: float = Field(
        default=1.0,
        ge=0.2,
        le=60,
        description="How often the servers are asked while anybody looks, however many consoles are open.",
    )
    session_hours: float = Field(
        default=8.0, gt=0, le=168, description="A login ends after so long; then the token is asked for again."
    )
    most_sessions: int = Field(
        default=1_000, ge=1, le=100_000, description="Logins at a time; a further one ends the oldest."
    )
    most_readers: int = Field(
        default=200, ge=1, le=10_000, description="Open pages that follow changes at a time; more are refused."
    )
    hosts: tuple[str, ...] = Field(
        default=(),
        description="Names by which browsers without a token may reach the gateway, without ports. IP addresses and "
        "localhost always may; other names are refused, since a web page may make its name stand for this machine.",
    )
    stream_seconds: float = Field(
        default=3600.0, gt=0, le=86_400, description="A page's stream of changes ends after so long; it connects again."
    )


def _build(options: ConsoleOptions, context: Context) -> Face:
    from slotreeve_face_console.face import ConsoleFace

    return ConsoleFace(options, context)


@hookimpl
def slotreeve_faces() -> list[Offer]:
    """The face."""
    return [Offer("console", _build, "web pages for operators under /ui", ConsoleOptions)]
