"""Which session server to try next, how long an attempt may take, and how long to pause between attempts. Pure: time is
an argument, and there is no connection."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Sequence

from slotreeve.errors import Refused, TransportError

log = logging.getLogger("slotreeve.client")

FIRST_PAUSE_SECONDS = 0.02
LONGEST_ATTEMPT_SECONDS = 30.0
RECENTLY_SECONDS = 30.0
"""A server that the client lost or left so short a time ago may still be in trouble. Later it counts as any other, or
all clients would avoid those that were stopped once."""


class Reconnect:
    """The plan by which a client looks for a session server.

    It goes in rounds. A round (:class:`~slotreeve_client.race.Race`) tries every known address once, in random order;
    servers that the client has lost or left recently come last, the latest one at the end. An address that the cluster
    does not report comes after all that it does: the server there is no member, and if it is frozen an attempt takes
    long. The first round after a success begins at once. Before each further one there is a pause. The pause doubles
    with each round up to ``longest_pause_seconds``. Its length is drawn between half of that and the whole, so that the
    clients of a lost server do not all come back at the same moment.
    The time of an attempt doubles too, because a server that is busy answers late, and another attempt would only be
    more work for it.

    A connection is a success only once it has lasted: see :meth:`succeeded`. A server that accepts and then closes each
    connection is tried with growing pauses. Each server is told of the pause that may follow
    (:attr:`longest_next_pause`): what the client has published stays for so much longer there.

    Args:
        addresses: the addresses that the user gave. They stay known for good.
        connect_seconds: time of an attempt in the first round.
        longest_pause_seconds: limit of the pause.
        rng: draws the order and the lengths of pauses.

    Attributes:
        attempt_seconds: how long each attempt of the present round may take.
    """

    def __init__(
        self, addresses: Sequence[str], connect_seconds: float, longest_pause_seconds: float, rng: random.Random
    ) -> None:
        self._given = tuple(addresses)
        self._connect_seconds, self._longest_pause_seconds, self._rng = connect_seconds, longest_pause_seconds, rng
        self._learned: tuple[str, ...] = ()
        self._left_at: dict[str, float] = {}
        self._rounds = 0
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._failures: dict[str, str] = {}
        self._unsaid: dict[str, int] = {}
        self._refusal: Refused | None = None
        self.attempt_seconds = connect_seconds

    @property
    def refusal(self) -> Refused | None:
        """The error of the last attempt if the server refused this client; else None."""
        return self._refusal

    @property
    def failures(self) -> str:
        """Why the last attempt at each address failed, for a message; empty if none failed since the last success."""
        return "".join(f"; {address}: {reason}" for address, reason in list(self._failures.items()))

    @property
    def longest_next_pause(self) -> float:
        """Seconds by which the next round may be put off at most, unless a connection lasts before."""
        return self._pause_seconds

    def learned(self, addresses: Sequence[str]) -> None:
        """The cluster reports the addresses of all its session servers. None at all: the server that reports has not
        seen the cluster's view yet."""
        self._learned = tuple(addresses) or self._learned

    def left(self, address: str, now: float) -> None:
        """The client lost this server, or is about to leave it."""
        self._left_at[address] = now

    def next_pause(self) -> float:
        """Begin a round: how many seconds to pause before it. 0 for the first one after a success."""
        self._rounds += 1
        if self._rounds == 1:
            return 0.0
        if self._rounds == 2 and self._failures:
            why = "; ".join(f"{address}: {failure}" for address, failure in self._failures.items())
            log.warning("no session server takes this client, which goes on trying: %s", why)
        pause = self._pause_seconds * self._rng.uniform(0.5, 1.0)
        self._pause_seconds = min(2 * self._pause_seconds, self._longest_pause_seconds)
        self.attempt_seconds = min(2 * self.attempt_seconds, max(LONGEST_ATTEMPT_SECONDS, self._connect_seconds))
        return pause

    def next_round(self, now: float) -> list[str]:
        """The addresses to try, in order."""
        self._left_at = {address: at for address, at in self._left_at.items() if now - at < RECENTLY_SECONDS}
        addresses = list(dict.fromkeys([*self._learned, *self._given]))
        self._rng.shuffle(addresses)
        addresses.sort(key=lambda address: (address not in self._learned, self._left_at.get(address, -math.inf)))
        return addresses

    def failed(self, address: str, error: TransportError) -> None:
        """An attempt at this address failed. It is logged if the one before it there did not fail in the same way."""
        self._refusal = error if isinstance(error, Refused) else None
        if self._failures.get(address) == str(error):
            self._unsaid[address] = self._unsaid.get(address, 0) + 1
            return
        unsaid = self._said_again(address)
        self._failures[address] = str(error).removeprefix(f"{address}: ")
        if self._refusal is not None:
            log.error("%s refuses this client: %s%s", address, error, unsaid)
        else:
            log.info("%s cannot be reached: %s%s", address, error, unsaid)

    def lost(self, address: str, reason: str) -> None:
        """The connection to this address has ended."""
        log.info("connection to %s lost: %s", address, reason)
        self._failures[address] = f"the connection was lost: {reason}"

    def admitted(self, address: str) -> None:
        """The server at this address has admitted the client: forget why others failed."""
        if self._failures:
            log.info("connected to %s%s", address, "".join(map(self._said_again, list(self._unsaid))))
        self._failures.clear()
        self._refusal = None

    def _said_again(self, address: str) -> str:
        """The number of failures at this address that were not logged, for the log."""
        count = self._unsaid.pop(address, 0)
        return f"; before, {count} more attempts at {address} failed like the one that was logged last" if count else ""

    def succeeded(self) -> None:
        """The connection has lasted: begin the next search without a pause."""
        self._rounds = 0
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self.attempt_seconds = self._connect_seconds
