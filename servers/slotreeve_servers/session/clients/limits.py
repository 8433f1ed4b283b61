"""What one client of a session server may have, and how often it may ask. Pure: time is an argument."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Hashable

from slotreeve.errors import LimitReached
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.meta_messages import MOST_KEYS
from slotreeve_protocol.overrides import OVERRIDES_KEY
from slotreeve_protocol.provided import check_config_key

from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.settings import SessionSettings

log = logging.getLogger("slotreeve.session")

WEIGHTS_PER_MEGABYTE = 512
"""A record weighs 1, and 1 more for each 2 KiB (:attr:`slotreeve.model.publisher.Publisher.weight`)."""
FOR_ALL = frozenset({OVERRIDES_KEY})
"""The keys that every client goes by, without being told to watch them: all may, and they do not count."""
BURST_SECONDS = 2.0
"""A client that was silent may ask at once as much as it may in this time (a token bucket)."""


class ClientLimits:
    """The limits of all clients alike.

    Attributes:
        rules: those in force.
        hit: how often something was refused because of a limit.
    """

    def __init__(self, rules: SessionSettings) -> None:
        self.rules = rules
        self.hit = 0
        self._connections: Counter[str] = Counter()
        # By the holder of the key: how many requests it may make at once, as of then; who has asked last is the last.
        self._buckets: OrderedDict[Hashable, list[float]] = OrderedDict()

    @property
    def most_weight(self) -> int:
        """What the records of a client may weigh together; :meth:`check_registration` says the rest."""
        return WEIGHTS_PER_MEGABYTE * self.rules.most_megabytes

    def is_near_most(self, client: ConnectedClient, records: int) -> bool:
        """Whether the last of so many more records may be one too many, so that each must be looked at by
        :meth:`check_registration`. It costs next to nothing."""
        return len(client.records) + records > self.rules.most_registrations

    def check_registration(self, client: ConnectedClient, former: Publisher | None, weight: int) -> None:
        """Refuse a live record that is one too many, or too much. ``former``: the client's of the same registration.

        Raises:
            LimitReached: names the setting.
        """
        rules = self.rules
        if former is None and len(client.records) >= rules.most_registrations:
            self._refuse(client, f"{rules.most_registrations} registrations", "most_registrations")
        grown = weight - (former.weight if former is not None else 0)
        if grown > 0 and client.weight + grown > self.most_weight:
            self._refuse(client, f"{rules.most_megabytes} MiB of payloads", "most_megabytes")

    def check_subscription(self, client: ConnectedClient, data_info_id: str) -> None:
        """Refuse a service that is one too many.

        Raises:
            LimitReached: names the setting.
        """
        if data_info_id not in client.watched:
            self._check_watched(client)

    def check_watch(self, client: ConnectedClient, key: str) -> None:
        """Refuse a key of the provided configuration that is one too many, or can be none.

        Raises:
            LimitReached: names the setting.
            ModelError: the key is blank or too long.
        """
        check_config_key(key)
        if key not in client.configs and key not in FOR_ALL:
            self._check_watched(client)
            if len(client.configs) - len(client.configs & FOR_ALL) >= MOST_KEYS:
                self._refuse(client, f"{MOST_KEYS} watched keys of the configuration")

    def _check_watched(self, client: ConnectedClient) -> None:
        most, watched = self.rules.most_subscriptions, len(client.watched) + len(client.configs)
        if watched >= most and watched - len(client.configs & FOR_ALL) >= most:
            self._refuse(client, f"{most} subscriptions", "most_subscriptions")

    def check_request(self, client: ConnectedClient, attended: float, weight: int = 1) -> None:
        """Count a lookup, a list, a request about leases or the end of what is not here, of all clients with one key
        together: to connect again, or more often, gives nobody more. ``attended``: seconds on the clock that stands
        still while this process does. ``weight``: as many requests as it counts for; what is too much for the present
        is owed.

        Raises:
            LimitReached: the client asks too often; names the setting.
        """
        rate, buckets, holder = self.rules.most_requests_per_second, self._buckets, client.peer.holder
        most = max(1.0, rate * BURST_SECONDS)
        bucket = buckets.get(holder)
        if bucket is None:
            bucket = buckets[holder] = [most, attended]
        else:
            buckets.move_to_end(holder)
        left = min(most, bucket[0] + rate * (attended - bucket[1]))
        bucket[0], bucket[1] = max(left - weight, -most) if left >= 1 else left, attended
        for _ in range(2 if len(buckets) > 1 else 0):  # more go than come, and no request pays for many
            if rate * (attended - next(iter(buckets.values()))[1]) > 2 * most:
                buckets.popitem(last=False)  # it is full again
        if left < 1:
            self._refuse(client, f"{rate:g} requests a second", "most_requests_per_second")

    def opened(self, client: ConnectedClient) -> None:
        """A client has connected with a key. :meth:`closed` must follow, unless this raises.

        Raises:
            LimitReached: so many are connected with that key that this one must go; names the setting.
        """
        proven = client.peer.proven
        if proven is None or client.permit is None:
            return
        if self._connections[proven.name] >= self.rules.most_connections_of_key:
            most = self.rules.most_connections_of_key
            self._refuse(client, f"{most} connections with one key", "most_connections_of_key")
        self._connections[proven.name] += 1

    def closed(self, client: ConnectedClient) -> None:
        """The connection has ended."""
        proven = client.peer.proven
        if proven is None or client.permit is None:
            return
        self._connections[proven.name] -= 1
        if not self._connections[proven.name]:
            del self._connections[proven.name]

    def _refuse(self, client: ConnectedClient, what: str, setting: str = "") -> None:
        self.hit += 1
        where = f" (session.{setting})" if setting else ""
        reason = f"a client may have {what} at a session server{where}"
        if not client.is_limited:
            client.is_limited = True
            log.warning("%s at %s is refused something: %s", client.peer.node, client.peer.address, reason)
        raise LimitReached(reason)
