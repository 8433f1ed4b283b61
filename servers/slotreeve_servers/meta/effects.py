"""What the core of a meta server can do beyond sending messages: write the meta state, resign, notify plugins."""

from __future__ import annotations

from typing import Protocol

from slotreeve_machines.beside import Work, Worked
from slotreeve_protocol.meta_messages import PutConfig, View

from slotreeve_servers.node.outbox import Outbox, Request

LONGEST_WORK_SECONDS = 30.0
"""Longest time for a plan; a plugin that has not answered then is given up."""


class MetaOutbox(Outbox, Protocol):
    """The outbox of a meta server. What takes time is begun here; the core learns of its end as stated."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 by this machine's clock, for records only: no decision is taken on it."""

    def commit(self, view: View, after: int) -> None:
        """Make ``view`` the committed one, in the place of the one of revision ``after``. The core receives
        ``committed`` or ``not_committed``; until then it commits no other view."""

    def compute(self, work: Work, worked: Worked) -> None:
        """Run a pure function beside the event loop, as :meth:`slotreeve_machines.beside.Beside.run`. ``worked`` gets
        RequestTimeout if the work has not come to an end after :data:`LONGEST_WORK_SECONDS`."""

    def put_config(self, message: PutConfig, term: int, request: Request) -> None:
        """Write one provided configuration under ``term``, and answer ``request``."""

    def resign(self, request: Request | None, to: str = "") -> None:
        """Give up the leadership, to the meta server ``to`` if one is named, and answer ``request`` where there is
        one."""

    def notify(self, hook: str, **arguments: object) -> None:
        """Call an observing hook of every plugin."""
