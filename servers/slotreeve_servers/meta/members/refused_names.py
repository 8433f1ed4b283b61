"""Processes that are refused because another one has their name. Pure."""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

from slotreeve.errors import ConfigError
from slotreeve.model.nodes import Node
from slotreeve_protocol.general_messages import Failed

log = logging.getLogger("slotreeve.meta")

REMEMBERED = 100
"""Refused processes that are remembered, so that each of them is one alarm."""


class _Refusal(NamedTuple):
    """A process that was refused at a time because of another one, its ``rival``, which was not heard since."""

    node: Node
    rival: str
    reason: str
    since: float


class RefusedNames:
    """Two processes under one name would take the slots and clients from each other for ever: the second is refused.

    It is an alarm once the first one is heard a heartbeat later. A process that was started again may be faster than
    the news of its predecessor's end, and than its last heartbeat: it is refused, too, until that news has come. A
    heartbeat of the predecessor may even arrive once its successor has the name. It came over a connection that is
    older than those of the successor, and is refused without an alarm.

    Args:
        heartbeat_seconds: interval of the heartbeats. Times are attended time, as leases have it.

    Attributes:
        found: number of processes that were refused while the one that has their name lived.
    """

    def __init__(self, heartbeat_seconds: float) -> None:
        self.found = 0
        self._interval = heartbeat_seconds
        self._waiting: dict[str, _Refusal] = {}
        self._known: deque[str] = deque(maxlen=REMEMBERED)

    def refuse(self, node: Node, rival: Node, is_older: bool, now: float) -> Failed:
        """The answer to the heartbeat of a process whose name ``rival`` has, as far as is known. ``is_older``: it has
        connected before that one."""
        reason = (
            f"the name {node.name!r} is taken by process {rival.process_id} at {rival.address}, which lives; give "
            f"process {node.process_id} at {node.address} a node.name of its own, or stop the other one"
        )
        if not is_older and node.process_id not in self._known:
            self._waiting.setdefault(node.name, _Refusal(node, rival.process_id, reason, now))
        return Failed(ConfigError.code, reason)

    def heard(self, node: Node, now: float) -> None:
        """The heartbeat of a process that has its name was taken."""
        refusal = self._waiting.get(node.name)
        if refusal is None:
            return
        if node.process_id != refusal.rival:
            del self._waiting[node.name]  # the name has another owner now
        elif now >= refusal.since + self._interval:
            del self._waiting[node.name]
            self.found += 1
            self._known.append(refusal.node.process_id)
            log.error("ALARM: %s %s is refused: %s", refusal.node.role, refusal.node.process_id, refusal.reason)
