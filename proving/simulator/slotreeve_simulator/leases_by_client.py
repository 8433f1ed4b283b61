"""A caller of leases that is a client of the registry itself."""

from __future__ import annotations

import asyncio

from slotreeve_client import Client, Subscription
from slotreeve_protocol.leases import lease_id_of

from slotreeve_simulator.lease_watch import LeaseWatch


class LeasesByClient:
    """Implements :class:`slotreeve_simulator.lease_callers.LeaseUse` for leases of one service."""

    def __init__(self, client: Client, service: str, watch: LeaseWatch) -> None:
        self._client, self._service, self._watch = client, service, watch
        self.seen: set[str] = set()
        client.subscribe(service, self._changed)

    def _changed(self, subscription: Subscription) -> None:
        present = {lease_id_of(instance.register_id) for instance in subscription.instances}
        self._watch.seen(subscription.data_info_id, subscription.version, self.seen, present)
        self.seen = present

    async def register(self, lease_id: str, ttl: float) -> None:
        """See LeaseUse."""
        await self._client.leases.register(self._service, lease_id, "x", ttl_seconds=ttl)

    async def renew(self, lease_ids: list[str]) -> tuple[set[str], set[str]]:
        """See LeaseUse."""
        answers = await self._client.leases.renew_many({self._service: lease_ids})
        return set().union(*answers.unknown.values()), set().union(*answers.unanswered.values())

    async def end(self, lease_id: str) -> None:
        """See LeaseUse."""
        await self._client.leases.deregister(self._service, lease_id)

    async def follow(self) -> None:
        """See LeaseUse: pushes come by themselves."""
        await asyncio.get_running_loop().create_future()
