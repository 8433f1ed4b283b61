"""What one member sends another: in order, and as fast as the connection takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from slotreeve.clock import Clock, Timer
from slotreeve.errors import Backpressure, ConnectionLost, TransportError
from slotreeve.ports import Connection
from slotreeve_protocol.general_messages import Opaque
from slotreeve_protocol.packets import FRAME_OVERHEAD

from slotreeve_election_fle.proposals import LARGEST_VALUE

ROOM_SECONDS = 0.01
"""While messages wait, the connection is asked so often whether it has room."""
MOST_WAITING_BYTES = 4 * LARGEST_VALUE
"""A connection for which more waits is given up. Over a new one far less is sent before the peer has to answer, so
that one is not given up for the same reason."""


class OutgoingMessages:
    """The messages to one peer over one connection.

    None may be left out, so a peer that is slow could only be sent all of it again over another connection, on which
    as much would wait: a follower that lacks more than a queue holds would never come up to date. So what the queue of
    the connection has no room for waits here. Whether a peer that takes nothing is still of use is for the protocol to
    say, which has its time-outs for that.

    Attributes:
        connection: the one that they go out over.
    """

    def __init__(self, connection: Connection, clock: Clock, given_up: Callable[[str], None]) -> None:
        """``given_up``: called with the reason when the connection cannot take what it has to."""
        self.connection = connection
        self._clock = clock
        self._given_up = given_up
        self._waiting: deque[Opaque] = deque()
        self._waiting_bytes = 0
        self._look: Timer | None = None

    def send(self, message: Opaque) -> None:
        """Send after everything before it."""
        if self._waiting_bytes > MOST_WAITING_BYTES:
            self._give_up(f"{len(self._waiting)} messages ({self._waiting_bytes} bytes) wait for it")
            return
        self._waiting.append(message)
        self._waiting_bytes += _size(message)
        if self._look is None:
            self._send_waiting()

    def end(self) -> None:
        """The connection is not used any more: drop what waits."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _send_waiting(self) -> None:
        while self._waiting and self.connection.has_room:
            try:
                self.connection.send(self._waiting[0])
            except Backpressure:
                break  # there is room, but not for one so large; an empty queue takes any
            except ConnectionLost:
                self.end()  # just now; the handler's closed() follows
                return
            except TransportError as error:
                self._give_up(str(error))
                return
            self._waiting_bytes -= _size(self._waiting.popleft())
        if self._waiting:
            self._look = self._clock.call_later(ROOM_SECONDS, self._look_for_room)

    def _look_for_room(self) -> None:
        self._look = None
        self._send_waiting()

    def _give_up(self, reason: str) -> None:
        self.end()
        self._given_up(reason)


def _size(message: Opaque) -> int:
    return len(message.body) + FRAME_OVERHEAD
