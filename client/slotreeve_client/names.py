"""The data info ids of the names that users give. Pure."""

from __future__ import annotations

from slotreeve.model.data_info import DataInfo

KNOWN_IDS = 100_000
"""Most data info ids that are remembered."""


class ServiceNames:
    """Remembers data info ids, because parsing a name costs more than sending a record."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def id_of(self, service: str) -> str:
        """The data info id of a service; ``service`` is that, or a data id alone. Raises ModelError."""
        known = self._ids.get(service)
        if known is None:
            if len(self._ids) >= KNOWN_IDS:
                self._ids.clear()
            known = self._ids[service] = DataInfo.parse(service).id
        return known
