"""The client's copies of services, and the overrides of the instances in them. Pure."""

from __future__ import annotations

from slotreeve_client.callbacks import Callbacks
from slotreeve_client.overriding import OverridesInForce
from slotreeve_client.subscription import Watched
from slotreeve_client.wants import ServiceKey


class WatchedServices:
    """All services that one client subscribed to.

    Args:
        callbacks: runs the functions of the user.

    Attributes:
        by_key: the copies by data info id and scope.
        in_force: the operator's overrides.
    """

    __slots__ = ("_callbacks", "by_key", "in_force")

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self.by_key: dict[ServiceKey, Watched] = {}
        self.in_force = OverridesInForce()

    def add(self, key: ServiceKey) -> Watched:
        """A copy of another service, empty as yet."""
        watched = self.by_key[key] = Watched(*key, self.in_force)
        return watched

    def announce(self, watched: Watched) -> None:
        """A copy has changed: its callbacks are due, unless it is not to be seen yet."""
        if watched.is_ready:
            for subscription in list(watched.subscriptions):
                if subscription.changed():
                    self._callbacks.add(subscription)

    def overrides_arrived(self, value: bytes | None) -> None:
        """The operator has changed the overrides, or the client knows them for the first time."""
        self.in_force.take(value)
        for watched in list(self.by_key.values()):
            if watched.follow_overrides():
                self.announce(watched)

    def forget_versions(self) -> None:
        """Versions are counted anew: of each service the next whole state counts. What there is stays until then."""
        for watched in self.by_key.values():
            watched.copy.forget_version()

    def close(self) -> None:
        """No further change comes."""
        for watched in self.by_key.values():
            for subscription in watched.subscriptions:
                subscription.close()
