"""The keys of the processes of a scenario: each has one, and all trust all."""

from __future__ import annotations

import hashlib

from slotreeve.key_files import ALL_RIGHTS
from slotreeve.keys import KEY_LENGTH, KeyPair, KeyRing, Principal, TrustedKeys
from slotreeve.model.nodes import Role

NAMED_AFTER = (Role.META, Role.DATA, Role.SESSION, Role.GATEWAY)


class SimulatedTrust(TrustedKeys):
    """Trusts the key of every process that has ever been named here. A key is a digest of the name of its process."""

    def __init__(self) -> None:
        super().__init__({})

    def keys_of(self, name: str) -> KeyRing:
        """The keys of a process: servers and gateways are named after their roles, tools end in theirs, and all
        others are clients."""
        key = self._principal(name).key
        return KeyRing(KeyPair(key, key), self)

    def named(self, name: str) -> list[Principal]:
        """As in the base class; each name has one key."""
        return [self._principal(name)]

    def _principal(self, name: str) -> Principal:
        role = next((role for role in NAMED_AFTER if name.startswith(f"{role}-")), Role.CLIENT)
        role = Role.TOOL if name.endswith(f"-{Role.TOOL}") else role
        key = hashlib.sha256(name.encode()).hexdigest()[:KEY_LENGTH]
        rights = ALL_RIGHTS if role is Role.CLIENT else ()
        return self._by_key.setdefault(key, Principal(name, role, key, rights))
