"""One registration of a provider, as its owner sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotreeve.errors import ClientClosed, ModelError, RegistrationError, SlotreeveError
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES


class Publication:
    """What one call of ``publish`` registered. Use from the client's event loop only.

    Attributes:
        register_id: its id, unique in the cluster.
        data_info_id: the service.
        version: how often it was published or unpublished.
        acknowledged_version: the newest version that the slot's leader is known to hold.
        data: what is published now; None once unpublished.
    """

    __slots__ = (
        "_changed",
        "_waiters",
        "acknowledged_version",
        "data",
        "data_info_id",
        "ended",
        "register_id",
        "version",
        "zone",
    )

    def __init__(
        self,
        register_id: str,
        data_info_id: str,
        zone: str,
        data: tuple[bytes, ...],
        changed: Callable[[Publication], None],
    ) -> None:
        self.register_id, self.data_info_id, self.zone = register_id, data_info_id, zone
        self.data: tuple[bytes, ...] | None = data
        self.version = 1
        self.acknowledged_version = 0
        self.ended: SlotreeveError | None = None
        self._changed = changed
        self._waiters: list[asyncio.Future[None]] | None = None

    def republish(self, *data: bytes | str) -> None:
        """Replace what is published. Rapid calls may be merged: the last one always arrives.

        Raises:
            ModelError: it is too much.
            RegistrationError: it was unpublished or refused.
            ClientClosed: the client was closed.
        """
        self._check()
        self.data = boxes(data)
        self.version += 1
        self._changed(self)

    def unpublish(self) -> None:
        """End the registration.

        Raises:
            RegistrationError: it was unpublished or refused before.
            ClientClosed: the client was closed.
        """
        self._check()
        self.data = None
        self.version += 1
        self._changed(self)

    def _check(self) -> None:
        if self.ended is not None:
            raise self.ended
        if self.data is None:
            raise RegistrationError(f"{self.register_id} of {self.data_info_id} was unpublished; publish anew")

    @property
    def is_acknowledged(self) -> bool:
        """True while nothing is on its way: the slot's leader holds the present version."""
        return self.acknowledged_version == self.version

    async def acknowledged(self) -> None:
        """Wait until the slot's leader holds the present version (or a later one).

        Raises:
            RegistrationError: the server refused it; the message says why.
            ClientClosed: the client was closed before.
        """
        if self.ended is not None:
            raise self.ended
        if self.is_acknowledged:
            return
        waiter = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        await waiter

    def settle(self, version: int) -> None:
        """The client's core: ``version`` is stored."""
        # Acknowledgements of two versions may overtake each other: a batch that was sent again comes last.
        self.acknowledged_version = max(self.acknowledged_version, version)
        if self._waiters is not None and version == self.version:
            waiters, self._waiters = self._waiters, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def end(self, error: ClientClosed | RegistrationError) -> None:
        """The client's core: nothing more will come of it."""
        self.ended = error
        waiters, self._waiters = self._waiters or [], None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)


def boxes(data: tuple[bytes | str, ...]) -> tuple[bytes, ...]:
    """What is published, as bytes (text in UTF-8).

    Raises:
        ModelError: it is more than :data:`slotreeve.model.publisher.MAX_PAYLOAD_BYTES`.
    """
    encoded = tuple([box.encode() if isinstance(box, str) else bytes(box) for box in data])
    size = sum(map(len, encoded))
    if size > MAX_PAYLOAD_BYTES:
        raise ModelError(f"{size} bytes are too many for one registration; {MAX_PAYLOAD_BYTES} is the limit")
    return encoded
