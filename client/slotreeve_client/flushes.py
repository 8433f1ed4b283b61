"""Who waits until everything that a client has published so far is stored. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Container

from slotreeve.errors import ClientClosed


class Flushes:
    """Those who wait, each for what had no answer when it began to wait.

    What is published later holds nobody up. A later version of the same registration counts for an earlier one, because
    of several quick versions only the last one may be sent.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], dict[str, int]] = {}

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    async def wait(self, versions: dict[str, int]) -> None:
        """Wait until each of these registrations has its version, or a later one, stored or refused for good. Raises
        ClientClosed."""
        if not versions:
            return
        ended = asyncio.get_running_loop().create_future()
        self._waiting[ended] = versions
        try:
            await ended
        finally:
            del self._waiting[ended]

    def stored(self, register_id: str, version: int) -> None:
        """The slot's leader holds this version of a registration."""
        for ended, versions in self._waiting.items():
            if versions.get(register_id, version + 1) <= version:
                self._done(ended, versions, register_id)

    def refused(self, register_id: str, taken: int) -> None:
        """The server does not take what came after this version of a registration; 0: it takes none."""
        for ended, versions in self._waiting.items():
            if versions.get(register_id, 0) > taken:
                self._done(ended, versions, register_id)

    def sent_again(self, register_ids: Container[str]) -> None:
        """There is another connection, over which these registrations are sent. The others need no answer."""
        for ended, versions in self._waiting.items():
            for register_id in [one for one in versions if one not in register_ids]:
                self._done(ended, versions, register_id)

    def close(self, error: ClientClosed) -> None:
        """The client is closed."""
        for ended in self._waiting:
            if not ended.done():
                ended.set_exception(error)

    def _done(self, ended: asyncio.Future[None], versions: dict[str, int], register_id: str) -> None:
        del versions[register_id]
        if not versions and not ended.done():
            ended.set_result(None)
