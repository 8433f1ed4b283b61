"""One registered instance, for its owner."""

from __future__ import annotations

from typing import Unpack

from slotreeve_protocol.envelope import decode_instance, encode_instance
from slotreeve_protocol.instance import Health, Instance, InstanceChanges

from slotreeve_client.publication import Publication


class InstancePublication:
    """The registration that one call of ``register`` made. Use it from the client's event loop only.

    Attributes:
        publication: the registration of the instance as bytes; do not republish it.
    """

    __slots__ = ("_data", "_instance", "publication")

    def __init__(self, publication: Publication, instance: Instance) -> None:
        self.publication = publication
        self._data, self._instance = publication.data, instance

    @property
    def instance(self) -> Instance:
        """The instance now. Where the server refuses a change, it is again the one before it, which others still
        see."""
        data = self.publication.data
        if data is not None and data is not self._data:
            self._data, self._instance = data, decode_instance(data) or self._instance
        return self._instance

    @property
    def register_id(self) -> str:
        """Id of the registration, unique in the cluster. It differs after each start of the process; the id of the
        instance does not."""
        return self.publication.register_id

    @property
    def data_info_id(self) -> str:
        """The service."""
        return self.publication.data_info_id

    def update(self, **changes: Unpack[InstanceChanges]) -> None:
        """Give these fields of the instance other values. Nothing is sent where they have them already. Id and zone
        stay: something elsewhere is another instance. A change that the server refuses is taken back as a whole:
        :meth:`acknowledged` raises until the next change, which starts from the instance that others still see.

        Raises:
            ModelError: a value is wrong, or the instance is too large. Nothing has changed.
            RegistrationError: the registration was unpublished, or refused from the first.
            ClientClosed: the client was closed.
        """
        self.publication.check()
        instance = self.instance.changed(**changes)
        if instance != self._instance or self.publication.refused is not None:
            self.publication.republish(encode_instance(instance))
            self._data, self._instance = self.publication.data, instance

    def set_health(self, health: Health, note: str = "") -> None:
        """Say how the instance is, and for people why. Raises as :meth:`update`."""
        self.update(health=health, health_note=note)

    def unpublish(self) -> None:
        """End the registration.

        Raises:
            RegistrationError: the registration was unpublished or refused before.
            ClientClosed: the client was closed.
        """
        self.publication.unpublish()

    @property
    def is_acknowledged(self) -> bool:
        """True if the slot's leader holds the instance as it is now, and the last change was not refused."""
        return self.publication.is_acknowledged

    async def acknowledged(self) -> None:
        """Wait until the slot's leader holds the instance as it is now (or a later one).

        Raises:
            RegistrationError: the server refused the registration, or the last change of it, which is taken back then;
                the message says why.
            ClientClosed: the client was closed before.
        """
        await self.publication.acknowledged()
