"""The operator's overrides as one client follows them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from slotreeve.errors import ModelError
from slotreeve_protocol.overrides import Override, Overrides

log = logging.getLogger("slotreeve.client")


class OverridesInForce:
    """The newest overrides that can be read."""

    __slots__ = ("_overrides",)

    def __init__(self) -> None:
        self._overrides: Overrides | None = None

    def take(self, value: bytes | None) -> None:
        """A newer value has arrived. One that cannot be read is logged, and the overrides before it stay in force."""
        try:
            self._overrides = Overrides.decode(value)
        except ModelError as error:
            log.error("%s; the overrides before it stay in force", error)
            if self._overrides is None:
                self._overrides = Overrides()

    def of(self, data_info_id: str) -> Mapping[str, Override] | None:
        """The overrides of one service by the id of the instance; None before the first value, which may be that there
        are none, has arrived."""
        return self._overrides.of(data_info_id) if self._overrides is not None else None
