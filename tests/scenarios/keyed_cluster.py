"""A simulated cluster whose processes have keys, and in which the client ``shop`` has few rights."""

from __future__ import annotations

import random
from collections.abc import Iterable

from slotreeve.keys import KeyRing, Principal
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_keys import SimulatedTrust


class ShopMay(SimulatedTrust):
    """The client ``shop`` has these rights; all others have all."""

    def __init__(self, rights: Iterable[str]) -> None:
        super().__init__()
        self._rights = tuple(rights)

    def holder(self, key: str) -> Principal | None:
        found = super().holder(key)
        return found._replace(rights=self._rights) if found is not None and found.name == "shop" else found

    def with_rights(self, rights: Iterable[str]) -> ShopMay:
        """Trusts the same keys, and gives the client other rights."""
        other = ShopMay(rights)
        for each in self.all():
            other.named(each.name)
        return other


class KeyedCluster(SimulatedCluster):
    """Args:
    rights: of the client ``shop``.
    """

    def __init__(
        self, rng: random.Random, rights: Iterable[str], meta: int = 1, session: int = 2, **settings: object
    ) -> None:
        every = {key.replace("__", "."): value for key, value in settings.items()}
        super().__init__(rng, meta=meta, data=2, session=session, settings=every)
        self.trust = ShopMay(rights)

    def keys(self, name: str) -> KeyRing | None:
        return KeyRing(self.trust.keys_of(name).own, self.trust, lambda: self.trust)
