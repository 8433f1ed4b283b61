"""One connection to a session server, from its opening to its end."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Protocol

from slotreeve.clock import Clock, Timer
from slotreeve.errors import Backpressure, TransportError
from slotreeve.ports import Connection, Message
from slotreeve_protocol.client_messages import GivenUp, Pong
from slotreeve_protocol.general_messages import Ping

from slotreeve_client.silence import Silence

if TYPE_CHECKING:
    from slotreeve_client.options import ClientOptions

log = logging.getLogger("slotreeve.client")

LONGEST_ADMISSION_SECONDS = 120.0
"""A server that has not admitted the client after so long, although it answers, is left: another one may do better."""
LASTING_SECONDS = 1.0
"""A connection counts as a success once the server has admitted the client and so much time has passed."""


class PingListener(Protocol):
    """Learns of the pings of a :class:`Line`, on the event loop."""

    def late_seconds(self) -> float:
        """A ping is about to be sent: how late the callbacks of this client were lately."""

    def longest_next_pause(self) -> float:
        """Seconds for which the client may wait before it connects again, if this connection ends before it has
        lasted."""

    def ping_sent(self, connection: Connection) -> None:
        """A ping was sent."""

    def ping_answered(self, connection: Connection) -> None:
        """The reply to it has arrived, after everything that the server had sent before."""


def send_last(connection: Connection, message: Message) -> None:
    """Send a message before this client ends the connection."""
    try:
        connection.send(message)
    except TransportError as error:
        log.info("could not send a goodbye to %s, which will see the connection end: %s", connection.address, error)


class Line:
    """Keeps one connection alive, and knows whether the server has admitted the client.

    Pings renew the client's lease. At most one is unanswered, and the server may ask for fewer. The connection is
    closed when nothing at all has arrived for ``silence_seconds`` (:class:`~slotreeve_client.silence.Silence`). A
    server admits a client with its first ``Sessions``. It may take its time while many clients arrive.

    Attributes:
        connection: the connection.
        era: in which the server counts versions; empty where it did not say.
    """

    def __init__(self, connection: Connection, options: ClientOptions, clock: Clock, listener: PingListener) -> None:
        self.connection = connection
        self.era = ""
        self._options, self._clock, self._listener = options, clock, listener
        self._silence = Silence(options.silence_seconds, options.ping_seconds, clock.now())
        self._ping_unanswered = False
        self._opened_at = clock.now()
        self._admitted_at: float | None = None
        self._admission: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._timer: Timer = clock.call_later(self._silence.pause_seconds, self._look)

    def admit(self) -> bool:
        """A ``Sessions`` has arrived. True if it is the first one."""
        if self._admitted_at is not None:
            return False
        self._admitted_at = self._clock.now()
        self._settle("")
        return True

    def end(self, reason: str) -> None:
        """The connection has ended."""
        self._timer.cancel()
        self._settle(reason or "the connection ended")

    def give_up(self, reason: str) -> None:
        """End the connection. The server learns that this client lives and looks for another one: what it published
        here stays meanwhile."""
        send_last(self.connection, GivenUp())
        self.connection.close(reason)

    def _settle(self, reason: str) -> None:
        if not self._admission.done():
            self._admission.set_result(reason)

    async def admission(self) -> str:
        """Wait until the server admits the client. Returns why it did not; empty if it did."""
        return await self._admission

    @property
    def has_lasted(self) -> bool:
        """Whether the server has admitted the client and served it for :data:`LASTING_SECONDS`."""
        return self._admitted_at is not None and self._clock.now() - self._admitted_at >= LASTING_SECONDS

    def _look(self) -> None:
        if self.connection.closed:
            return
        silence = self._silence
        silence.look(self._clock.now(), self.connection.heard_at, self._ping_unanswered)
        if silence.is_over_limit:
            self.give_up(f"nothing arrived for {self._options.silence_seconds} s")
            return
        if self._admitted_at is None and self._clock.now() > self._opened_at + LONGEST_ADMISSION_SECONDS:
            self.give_up(f"this client was not admitted within {LONGEST_ADMISSION_SECONDS:g} s")
            return
        if not (self._ping_unanswered or silence.is_resting):
            self._ping()
        self._timer = self._clock.call_later(silence.pause_seconds, self._look)

    def _ping(self) -> None:
        def answered(reply: Message | None, error: Exception | None) -> None:
            self._ping_unanswered = False
            if isinstance(reply, Pong):
                self._silence.pace(reply.seconds)
            if error is None:
                self._listener.ping_answered(self.connection)

        pause_seconds = 0.0 if self.has_lasted else self._listener.longest_next_pause()
        try:
            # No time-out of its own: as long as anything arrives, its reply is on the way.
            self.connection.request(Ping(self._listener.late_seconds(), pause_seconds), answered, math.inf)
        except Backpressure as error:
            log.info("no ping now, because other messages wait: %s", error)
        except TransportError as error:
            self.give_up(f"a ping could not be sent: {error}")
        else:
            self._ping_unanswered = True
            self._listener.ping_sent(self.connection)
