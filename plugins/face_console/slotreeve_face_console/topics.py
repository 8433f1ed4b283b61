"""What open pages follow: each is made once for all who look at it, and only what changed goes out."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec
from slotreeve.clock import Clock
from slotreeve.errors import SlotreeveError
from slotreeve_gateway.waiting import Waiters

log = logging.getLogger("slotreeve.face.console")

MOST_TOPICS = 500
"""Topics that are kept; those that nobody follows go first."""
Regions = Mapping[str, Mapping[str, str]]
"""The parts of a page that change: for each region its pieces by key, in their order."""
MakeRegions = Callable[[], Awaitable[Regions]]


class Topic:
    """One page in pieces. Use it on one event loop.

    Attributes:
        number: rises with each change. ``numbers`` gives them; no two topics have the same.
        regions: the pieces as they are now.
        readers: number of open pages that follow it.
    """

    def __init__(self, make: MakeRegions, numbers: Iterator[int]) -> None:
        self._make, self._numbers = make, numbers
        self._change = b""
        self._whole: bytes | None = None
        self._waiters = Waiters()
        self.number = self._before = next(numbers)
        self.regions: Regions = {}
        self.readers = 0
        self.running: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Make the pieces anew, and wake the readers where one has changed.

        Raises:
            SlotreeveError: they cannot be made.
        """
        regions = await self._make()
        if regions != self.regions:
            self._change = msgspec.json.encode(changes(self.regions, regions))
            self.regions, self._whole = regions, None
            self._before, self.number = self.number, next(self._numbers)
            self._waiters.wake()

    async def changed(self, after: int, seconds: float) -> bool:
        """Wait until there are pieces of another number than ``after``, at most so many seconds. Whether there are."""
        return (self.number != after and bool(self.regions)) or await self._waiters.wait(seconds)

    def since(self, after: int) -> bytes:
        """As JSON, what a reader needs who has the pieces of number ``after``: the last change, or everything."""
        if after == self._before != self.number:
            return self._change
        if self._whole is None:
            self._whole = msgspec.json.encode(changes({}, self.regions))
        return self._whole


def changes(before: Regions, after: Regions) -> dict[str, dict[str, object]]:
    """By region: the pieces that are new or different (``set``), and the keys of all pieces (``order``) where pieces
    came, went or moved. A region without a change is left out."""
    found: dict[str, dict[str, object]] = {}
    for region, pieces in after.items():
        old = before.get(region)
        if old is None:
            found[region] = {"set": pieces, "order": list(pieces)}
            continue
        if old is pieces:
            continue
        different = {key: piece for key, piece in pieces.items() if old.get(key) != piece}
        change: dict[str, object] = {"set": different} if different else {}
        if list(old) != list(pieces):
            change["order"] = list(pieces)
        if change:
            found[region] = change
    return found


class TopicBoard:
    """All topics. While a topic has readers, it is made anew every ``seconds``.

    Args:
        clock: the source of time.
        seconds: between two makings of a topic.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._topics: dict[str, Topic] = {}
        self._numbers = itertools.count(1)

    @property
    def readers(self) -> int:
        """Number of open pages that follow a topic."""
        return sum(topic.readers for topic in self._topics.values())

    def topic(self, key: str, make: MakeRegions) -> Topic:
        """The topic with this key; ``make`` makes its pieces where it is new."""
        topic = self._topics.pop(key, None) or Topic(make, self._numbers)
        self._topics[key] = topic  # at the end: it was asked for last
        if len(self._topics) > MOST_TOPICS:
            idle = next((name for name, one in self._topics.items() if not one.readers and name != key), None)
            if idle is not None:
                del self._topics[idle]
        return topic

    def follow(self, topic: Topic) -> None:
        """One reader more."""
        topic.readers += 1
        if topic.running is None:
            topic.running = asyncio.get_running_loop().create_task(self._run(topic), name="a topic of the console")

    def leave(self, topic: Topic) -> None:
        """One reader less."""
        topic.readers -= 1
        if not topic.readers and topic.running is not None:
            topic.running.cancel()
            topic.running = None

    async def _run(self, topic: Topic) -> None:
        while True:
            try:
                await topic.refresh()
            except SlotreeveError as error:
                log.debug("a page of the console stays as it is: %s", error)
            except Exception:
                log.exception("a page of the console stays as it is")
            await self._clock.sleep(self._seconds)

    async def stop(self) -> None:
        """End all."""
        running = [topic.running for topic in self._topics.values() if topic.running is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._topics.clear()
