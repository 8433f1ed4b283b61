"""Which server a connection has reached: the one that was used before, another one, or one that must not be used. Pure.

A fail-over leads to another server. If that one lagged behind, it lacks changes that this process knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve.errors import Refused


@dataclass(frozen=True)
class DatabaseServer:
    """One database server, as far as it tells.

    Attributes:
        name: of its data; the copies that PostgreSQL makes of itself share it. Empty: it does not tell.
        timeline: rises by one where a PostgreSQL standby is promoted; 0: there is none, or it does not tell.
        longest_statement: in bytes; 0: there is no limit.
        why_read_only: empty, or why nothing can be stored there, and what would be right.
    """

    name: str = ""
    timeline: int = 0
    longest_statement: int = 0
    why_read_only: str = ""

    def __str__(self) -> str:
        """For people."""
        return f"{self.name or 'unnamed'}{f', timeline {self.timeline}' if self.timeline else ''}"


class ServersSeen:
    """The servers that one process has been connected to.

    Attributes:
        present: the last one; None before the first.
    """

    def __init__(self) -> None:
        self.present: DatabaseServer | None = None

    def meet(self, found: DatabaseServer, place: str) -> None:
        """A connection leads to this server.

        Raises:
            Refused: it must not be used now; the message says why, and what would be right.
        """
        if found.why_read_only:
            raise Refused(f"{place}: {found.why_read_only}")
        before = self.present
        if before is not None and before.name == found.name and found.timeline < before.timeline:
            raise Refused(
                f"{place}: this is an old primary: it is on timeline {found.timeline}, and this process has used "
                f"timeline {before.timeline}, to which a standby was promoted; stop the old primary for good (fence "
                "it), and let the dsn lead to the promoted server alone"
            )
        self.present = found
