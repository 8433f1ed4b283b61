"""What the clients of a session server may do, by their keys."""

from __future__ import annotations

from functools import lru_cache

from slotreeve.errors import Forbidden
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve.model.rights import Right, Rights

KNOWN_PERMITS = 1_000


class Permit:
    """What the holder of a client's key may do."""

    def __init__(self, principal: Principal) -> None:
        self._name, self._rights = principal.name, Rights(principal.rights)

    def allows(self, right: Right, data_info_id: str) -> bool:
        """Whether it has this right for a service."""
        return self._rights.hold(right, data_info_id)

    def check(self, right: Right, data_info_id: str) -> None:
        """Refuse what it may not do.

        Raises:
            Forbidden: names the right that it lacks.
        """
        if not self.allows(right, data_info_id):
            raise Forbidden(f"the key of {self._name!r} lacks the right {right}:{data_info_id}")


@lru_cache(KNOWN_PERMITS)
def permit_of(principal: Principal | None) -> Permit | None:
    """The permit of a peer; None where it may do everything: no keys are used, or it has the key of a gateway, whose
    callers have tokens, or of a tool."""
    return Permit(principal) if principal is not None and principal.role is Role.CLIENT else None
