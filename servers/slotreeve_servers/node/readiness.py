"""Whether a server can do its work: a list of checks, each with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from slotreeve_protocol.meta_messages import View

from slotreeve_servers.node.timings import Timing


class Condition(NamedTuple):
    """One condition of being ready. ``problem``: why it does not hold, for people; empty where it does."""

    name: str
    problem: str

    @property
    def passes(self) -> bool:
        """Whether the condition holds."""
        return not self.problem


class Inspected(Protocol):
    """A server as its operators see it. Call it on its event loop only."""

    def counters(self) -> dict[str, int]:
        """What it counts, by the names of :mod:`slotreeve_servers.node.counted`."""

    def timings(self) -> Mapping[str, Timing]:
        """What it has timed, by the same module's names."""

    def readiness(self) -> Sequence[Condition]:
        """Its checks. It is ready when all of them pass."""

    @property
    def is_leading(self) -> bool:
        """Whether it is the meta leader."""

    @property
    def failure(self) -> str:
        """Why it cannot go on at all; empty while it can."""


def membership_check(view: View, process_id: str, refusal: str) -> Condition:
    """Whether the meta leader counts this process as a member; ``refusal``: why it does not, if it has said so."""
    members = {node.process_id for node in (*view.data, *view.sessions)}
    problem = refusal or "the meta leader does not count this server as a member"
    return Condition("member", "" if process_id in members and not refusal else problem)
