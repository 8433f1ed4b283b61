"""Which session server to try next, and how long to pause between attempts. Pure: no clock and no connection."""

from __future__ import annotations

import random
from collections.abc import Sequence

from slotreeve.errors import Refused, TransportError

FIRST_PAUSE_SECONDS = 0.02


class Reconnect:
    """The plan by which a client looks for a session server.

    It goes in rounds. A round tries every known address once, in random order; the server that the client has just lost
    or left comes last. After a round without success there is a pause. The pause doubles with each round up to
    ``longest_pause_seconds``. Its length is drawn between half of that and the whole, so that the clients of a lost
    server do not all come back at the same moment.

    Args:
        addresses: the addresses that the user gave. They stay known for good.
        longest_pause_seconds: limit of the pause.
        rng: draws the order and the lengths of pauses.
    """

    def __init__(self, addresses: Sequence[str], longest_pause_seconds: float, rng: random.Random) -> None:
        self._given = tuple(addresses)
        self._longest_pause_seconds, self._rng = longest_pause_seconds, rng
        self._learned: tuple[str, ...] = ()
        self._left = ""
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._failures: dict[str, str] = {}
        self._refusal: Refused | None = None

    @property
    def refusal(self) -> Refused | None:
        """The error of the last attempt if the server refused this client; else None."""
        return self._refusal

    @property
    def failures(self) -> str:
        """Why the last attempt at each address failed, for a message; empty if none failed since the last success."""
        return "".join(f"; {address}: {reason}" for address, reason in self._failures.items())

    def learned(self, addresses: Sequence[str]) -> None:
        """The cluster reports the addresses of all its session servers."""
        self._learned = tuple(addresses)

    def left(self, address: str) -> None:
        """The client lost this server, or is about to leave it."""
        self._left = address

    def next_round(self) -> list[str]:
        """The addresses to try, in order."""
        addresses = list(dict.fromkeys([*self._learned, *self._given]))
        self._rng.shuffle(addresses)
        addresses.sort(key=lambda address: address == self._left)
        return addresses

    def failed(self, address: str, error: TransportError) -> None:
        """An attempt at this address failed."""
        self._failures[address] = str(error)
        self._refusal = error if isinstance(error, Refused) else None

    def succeeded(self) -> None:
        """The client is connected: forget all failures and start with short pauses next time."""
        self._failures.clear()
        self._refusal = None
        self._pause_seconds = FIRST_PAUSE_SECONDS

    def next_pause(self) -> float:
        """Seconds to pause after a round without success."""
        pause = self._pause_seconds * self._rng.uniform(0.5, 1.0)
        self._pause_seconds = min(2 * self._pause_seconds, self._longest_pause_seconds)
        return pause
