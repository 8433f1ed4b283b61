"""One registration of a provider, for its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slotreeve.errors import ClientClosed, ModelError, RegistrationError, SlotreeveError
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, payload_bytes
from slotreeve.model.text import check_text


class Publication:
    """The registration that one call of ``publish`` made. Use it from the client's event loop only.

    Attributes:
        register_id: id of the registration, unique in the cluster.
        data_info_id: the service.
        zone: where the provider runs.
        version: number of times it was published or unpublished, by its owner or because a version was refused.
        acknowledged_version: the newest version that the slot's leader has acknowledged; 0 before the first.
        acknowledged_data: the payload of that version.
        data: the payload now; None once unpublished. Where a version is refused, it is again the one before it.
        refused: why what was published last was refused, where what was published before it is visible still; None
            where it was not.
        ended: why nothing can be published any more; None while it can.
        is_sent: whether any session server may know of it.
    """

    __slots__ = (
        "_changed",
        "_waiters",
        "acknowledged_data",
        "acknowledged_version",
        "data",
        "data_info_id",
        "ended",
        "is_sent",
        "refused",
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
        self.acknowledged_data: tuple[bytes, ...] | None = None
        self.ended: SlotreeveError | None = None
        self.refused: RegistrationError | None = None
        self.is_sent = False
        self._changed = changed
        self._waiters: dict[asyncio.Future[None], int] | None = None

    def republish(self, *data: bytes | str) -> None:
        """Replace the payload. Of several quick calls only the last one may be sent.

        Raises:
            ModelError: the payload is too large.
            RegistrationError: the registration was unpublished or refused.
            ClientClosed: the client was closed.
        """
        self.check()
        self.data, self.refused = payload(data), None
        self.version += 1
        self._changed(self)

    def unpublish(self) -> None:
        """End the registration.

        Raises:
            RegistrationError: the registration was unpublished or refused before.
            ClientClosed: the client was closed.
        """
        self.check()
        self.data = self.refused = None
        self.version += 1
        self._changed(self)

    def check(self) -> None:
        """Raise RegistrationError or ClientClosed if nothing can be published under this registration any more."""
        if self.ended is not None:
            raise self.ended.with_traceback(None)  # raised before, perhaps: it would keep all frames since
        if self.data is None:
            raise RegistrationError(f"{self.register_id} of {self.data_info_id} was unpublished; publish it again")

    @property
    def is_acknowledged(self) -> bool:
        """True if the slot's leader holds what was published last."""
        return self.acknowledged_version == self.version and self.refused is None

    async def acknowledged(self) -> None:
        """Wait until the slot's leader holds the present version (or a later one).

        Raises:
            RegistrationError: the server refused the registration, or this version of it, which is taken back then;
                the message says why.
            ClientClosed: the client was closed before.
        """
        if (error := self.ended or self.refused) is not None:
            raise error.with_traceback(None)
        if self.is_acknowledged:
            return
        waiter = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = {}
        self._waiters[waiter] = self.version
        try:
            await waiter
        finally:
            if self._waiters is not None:
                self._waiters.pop(waiter, None)

    def settle(self, version: int, data: tuple[bytes, ...] | None) -> None:
        """For the client's core: the slot's leader holds ``version``, whose payload this is."""
        # Acknowledgements may arrive out of order, because a session server may send a batch a second time.
        if version > self.acknowledged_version:
            self.acknowledged_version, self.acknowledged_data = version, data
        if self._waiters is not None:
            self._end_waits(range(version + 1))

    def take_back(self, taken: int, data: tuple[bytes, ...], error: RegistrationError) -> None:
        """For the client's core: the server has refused the present version. It has taken version ``taken`` before,
        with this payload, which takes its place as the next version: that is newer than whatever another server may
        have."""
        self._end_waits(range(taken + 1, self.version + 1), error)
        self.data, self.refused = data, error
        self.version += 1

    def end(self, error: ClientClosed | RegistrationError) -> None:
        """For the client's core: the registration was refused, or the client was closed."""
        self.ended = error
        self._end_waits(range(self.version + 1), error)

    def _end_waits(self, versions: range, error: ClientClosed | RegistrationError | None = None) -> None:
        """End the waits for these versions."""
        left = {}
        for waiter, version in (self._waiters or {}).items():
            if version not in versions:
                left[waiter] = version
            elif waiter.done():
                continue  # its caller has been cancelled
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(None)
        self._waiters = left or None


def payload(data: tuple[bytes | str, ...]) -> tuple[bytes, ...]:
    """The parts of a payload as bytes; text is encoded in UTF-8.

    Raises:
        ModelError: they are more than :data:`slotreeve.model.publisher.MAX_PAYLOAD_BYTES` together, one is neither text
            nor bytes, or it is a text that UTF-8 cannot encode.
    """
    parts = tuple([_encoded(part) for part in data])
    size = payload_bytes(parts)
    if size > MAX_PAYLOAD_BYTES:
        raise ModelError(
            f"{size} bytes, in {len(parts)} parts, are too many for one registration; {MAX_PAYLOAD_BYTES} is the limit"
        )
    return parts


def _encoded(part: object) -> bytes:
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part)
    check_text("a part of the payload", part, MAX_PAYLOAD_BYTES)
    return str(part).encode()
