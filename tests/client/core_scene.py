"""The core of a client with a shell that records what it sends, for tests."""

from __future__ import annotations

from collections.abc import Callable

from slotreeve.clock import Timer
from slotreeve.model.datum import content_digest
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_client import ClientOptions, Publication, Scope, Subscription
from slotreeve_client.callbacks import Callbacks
from slotreeve_client.core import ClientCore
from slotreeve_protocol.client_messages import (
    Publish,
    Push,
)

A = "a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
WINDOW, BATCH = 5, 3


class StillClock:
    """A clock that stands still; what is due soon runs at once."""

    def now(self) -> float:
        return 0.0

    def reached(self, at: float) -> bool:
        return self.now() >= at

    def wall_ms(self) -> int:
        return 0

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        raise AssertionError("the core sets no timer")

    def call_soon(self, action: Callable[[], None]) -> None:
        action()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the core does not wait")


class Shell:
    """A core with a log of its wakes, and what a shell would send."""

    def __init__(self, **options: object) -> None:
        self.wakes = 0
        self.core = ClientCore("c", ClientOptions.model_validate(options), self._wake, Callbacks(StillClock()))

    def _wake(self) -> None:
        self.wakes += 1

    def connect(self, number: int) -> None:
        """Connect, and send what that needs."""
        self.core.connected(f"s@{number}")
        self.sent()

    def publish(self, service: str = "a", *data: bytes) -> Publication:
        return self.core.publish(service, data or (b"x",), None)

    def subscribe(self, service: str = "a", seen: list[Subscription] | None = None) -> Subscription:
        return self.core.subscribe(service, seen.append if seen is not None else None, Scope.DATA_CENTER)

    def sent(self) -> list[Message]:
        return list(iter(self.core.outgoing, None))

    def records(self) -> list[tuple[int, Publisher]]:
        """What the core publishes now, with sequences."""
        batches = [message for message in self.sent() if isinstance(message, Publish)]
        return [(batch.sequence + i, record) for batch in batches for i, record in enumerate(batch.records)]


def push(
    records: list[Publisher],
    version: int,
    start: int = 0,
    service: str = A,
    removed: tuple[str, ...] = (),
    digest: int = -1,
) -> Push:
    found = content_digest(records) if digest == -1 else digest
    return Push(service, Scope.DATA_CENTER, start, version, found, records, list(removed))


def provider(register_id: str, data: bytes = b"x") -> Publisher:
    return Publisher(register_id, A, 1, 1, "session-1@1", "", (data,))
