"""Who waits until everything that a client has published so far is stored. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotreeve.errors import ClientClosed

from slotreeve_client.publication import Publication


class Flushes:
    """Those who wait, each for what had no answer when it began to wait.

    What is published later holds nobody up. A later version of the same registration counts for an earlier one, because
    of several quick versions only the last one may be sent.

    Attributes:
        waiting: the versions that each of them lacks; what is answered last is most often the last one.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], dict[Publication, int]] = {}

    async def wait(self, versions: dict[Publication, int]) -> None:
        """Wait until each of these is over. Raises ClientClosed."""
        if not versions:
            return
        ended = asyncio.get_running_loop().create_future()
        self.waiting[ended] = versions
        try:
            await ended
        finally:
            del self.waiting[ended]

    def look(self, is_over: Callable[[Publication, int], bool]) -> None:
        """Something was answered. Each version is looked at until it is over: what that costs does not grow with the
        number of those that are not."""
        for ended, versions in self.waiting.items():
            while versions:
                publication, version = versions.popitem()
                if not is_over(publication, version):
                    versions[publication] = version
                    break
            if not versions and not ended.done():
                ended.set_result(None)

    def close(self, error: ClientClosed) -> None:
        """The client is closed."""
        for ended in self.waiting:
            if not ended.done():
                ended.set_exception(error)
