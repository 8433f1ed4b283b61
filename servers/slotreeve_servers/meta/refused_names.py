"""Processes that are refused because another one has their name. Pure."""

from __future__ import annotations

import logging
from collections import deque

from slotreeve.errors import ConfigError
from slotreeve.model.nodes import Node
from slotreeve_protocol.general_messages import Failed

log = logging.getLogger("slotreeve.meta")

REMEMBERED = 100
"""Refused processes that are remembered, so that each of them is one alarm."""


class RefusedNames:
    """Two processes under one name would take the slots and clients from each other for ever: the second is refused.

    It is an alarm once the first one is heard a heartbeat later. A process that was started again may be faster than
    the news of its predecessor's end, and than its last heartbeat: it is refused, too, until that news has come.

    Args:
        heartbeat_seconds: interval of the heartbeats. Times are attended time, as leases have it.

    Attributes:
        found: number of processes that were refused while the one that has their name lived.
    """

    def __init__(self, heartbeat_seconds: float) -> None:
        self.found = 0
        self._interval = heartbeat_seconds
        self._waiting: dict[str, tuple[Node, str, float]] = {}
        self._known: deque[str] = deque(maxlen=REMEMBERED)

    def refuse(self, node: Node, rival: Node, now: float) -> Failed:
        """The answer to the heartbeat of a process whose name ``rival`` has, as far as is known."""
        reason = (
            f"the name {node.name!r} is taken by process {rival.process_id} at {rival.address}, which lives; give "
            f"process {node.process_id} at {node.address} a node.name of its own, or stop the other one"
        )
        known, *_ = self._waiting.get(node.name, (None,))
        if node.process_id not in self._known and (known is None or known.process_id != node.process_id):
            self._waiting[node.name] = node, reason, now
        return Failed(ConfigError.code, reason)

    def heard(self, node: Node, now: float) -> None:
        """The heartbeat of a process that has its name was taken."""
        refused, reason, since = self._waiting.get(node.name, (node, "", now))
        if refused.process_id == node.process_id:
            self._waiting.pop(node.name, None)
        elif now >= since + self._interval:
            del self._waiting[node.name]
            self.found += 1
            self._known.append(refused.process_id)
            log.error("ALARM: %s %s is refused: %s", refused.role, refused.process_id, reason)
