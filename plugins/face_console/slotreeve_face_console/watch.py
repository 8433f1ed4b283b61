"""How the cluster is, asked from its servers for all consoles together."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from slotreeve_client.condition import ClusterCondition, cluster_condition
from slotreeve_gateway import ClusterServers

from slotreeve_face_console.notes import Note, differences
from slotreeve_face_console.server_rows import states_of

log = logging.getLogger("slotreeve.face.console")

PATIENCE_SECONDS = 1.0
"""How long a page waits for a newer state than the one that is there."""
GLANCE_SECONDS = 0.05
"""The same, where that one is hardly older than it would be on a page that is open."""
FIRST_SECONDS = 15.0
"""How long a page waits for the first state."""
SHARE = 4
"""Two readings begin at least this multiple of the time apart that the last one took."""
MOST_NOTES = 50
_TWICE = re.compile(r"(\S+): \1: ")
"""An address that an error and the error around it name."""


@dataclass(frozen=True)
class ClusterLook:
    """The cluster at one reading.

    Attributes:
        condition: what the servers replied.
        at_ms: when the reading ended, by the wall clock of this gateway.
        took_seconds: how long the servers took to reply.
        since: since when each server has its state: milliseconds of the wall clock, and whether the change was seen. If
            it was not, the server had this state already when it was first looked at.
    """

    condition: ClusterCondition
    at_ms: int
    took_seconds: float
    since: Mapping[str, tuple[int, bool]]


@dataclass(frozen=True)
class Trouble:
    """Why the servers cannot be asked now, and since when (milliseconds of the wall clock)."""

    why: str
    since_ms: int


class ConsoleWatch:
    """Asks when somebody looks and the last reading is older than ``seconds``. All who look share a reading.

    Args:
        servers: the way to the servers.
        clock: the source of time.
        seconds: least time between the beginnings of two readings.

    Attributes:
        look: the last reading that succeeded; None: none has yet.
        trouble: why the last reading failed; None: it did not.
        notes: what changed between readings, the newest first.
        readings: number of readings so far.
    """

    def __init__(self, servers: ClusterServers, clock: Clock, seconds: float) -> None:
        self._servers, self._clock, self._seconds = servers, clock, seconds
        self._pause = seconds
        self._began: float | None = None
        self._ended: float | None = None
        self._reading: asyncio.Task[None] | None = None
        self._seen: dict[str, tuple[str, int, bool]] = {}
        self.look: ClusterLook | None = None
        self.trouble: Trouble | None = None
        self.notes: deque[Note] = deque(maxlen=MOST_NOTES)
        self.readings = 0

    async def read(self) -> None:
        """Read again if it is time. It returns when the reading has ended, or has taken too long to wait for."""
        now = self._clock.now()
        if self._reading is None and (self._began is None or now - self._began >= self._pause):
            self._began = now
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="read the cluster")
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=self._patience())

    def _patience(self) -> float:
        if self.look is None and self.trouble is None:
            return FIRST_SECONDS
        is_recent = self._ended is not None and self._clock.now() - self._ended <= 2 * self._pause
        return GLANCE_SECONDS if is_recent else PATIENCE_SECONDS

    async def _read(self) -> None:
        servers, began = self._servers, self._clock.now()
        self.readings += 1
        try:
            if not servers.metas:
                self._fail("the configuration of this gateway names no meta server; set cluster.meta")
                return
            before = self.look.condition.view if self.look is not None else None
            condition = await cluster_condition(*servers.asked, before=before)
            self._take(condition, self._clock.now() - began)
        except SlotreeveError as error:
            self._fail(str(error))
        except Exception:
            log.exception("the cluster cannot be read")
            self._fail("the gateway has failed; its log says why")
        finally:
            self._ended = self._clock.now()
            self._pause = max(self._seconds, SHARE * (self._ended - began))
            self._reading = None

    def _fail(self, why: str) -> None:
        why = _TWICE.sub(r"\1: ", why)
        since = self._clock.wall_ms() if self.trouble is None else self.trouble.since_ms
        self.trouble = Trouble(why, since)

    def _take(self, condition: ClusterCondition, took_seconds: float) -> None:
        at_ms = self._clock.wall_ms()
        if self.look is not None:
            self.notes.extendleft(Note(at_ms, text) for text in differences(self.look.condition, condition))
        states, is_first = states_of(condition), self.look is None
        seen = {}
        for name, state in states.items():
            before = self._seen.get(name)
            seen[name] = before if before is not None and before[0] == state else (state, at_ms, not is_first)
        self._seen = seen
        since = {name: (since_ms, was_seen) for name, (_, since_ms, was_seen) in seen.items()}
        self.look = ClusterLook(condition, at_ms, took_seconds, since)
        self.trouble = None

    def recent_notes(self, seconds: float) -> Sequence[Note]:
        """The notes of the last ``seconds``, the newest first."""
        oldest = self._clock.wall_ms() - 1000 * seconds
        return [note for note in self.notes if note.at_ms >= oldest]

    async def stop(self) -> None:
        """End a reading that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
