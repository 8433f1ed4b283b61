"""Leases that are registered, renewed and left to end while faults go on (I16)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from slotreeve.errors import SlotreeveError
from slotreeve.model.data_info import DataInfo
from slotreeve.model.nodes import Role
from slotreeve_client import Client, ClientOptions, Provider, Subscription, connect
from slotreeve_harness.processes import LocalCluster
from slotreeve_protocol.leases import lease_suffix

from slotreeve_chaos.history import HistoryRecorder
from slotreeve_chaos.lease_keepers import REQUEST_SECONDS, ChaosKeeper, ClientKeeper, GatewayKeeper
from slotreeve_chaos.workload import Expected

SERVICES, LEASES_OF_EACH = 10, 6
TTL_SECONDS = 6.0
RENEW_SECONDS = TTL_SECONDS / 3
LAPSE_SHARE = 0.03
"""How often, at a round of renewals, one lease of a service is left to end and another one is registered."""
SUBSCRIBER = "leases-subscriber"


@dataclass
class _Kept:
    """A lease that is renewed; ``sequence`` is its payload."""

    lease_id: str
    sequence: int
    is_registered: bool = False


class ChaosLeases:
    """Leases of several services: those of one half are kept by a client, those of the other through gateways. Another
    client sees them. What fails is tried again at the next round."""

    def __init__(
        self,
        cluster: LocalCluster,
        options: ClientOptions,
        recorder: HistoryRecorder,
        rng: random.Random,
    ) -> None:
        options = options.model_copy(update={"request_seconds": REQUEST_SECONDS})
        self._client: Client = connect(*cluster.session_addresses, options=options)
        self._subscriber: Client = connect(*cluster.session_addresses, options=options)
        self._gateways = {server.name: server.address for server in cluster.of(Role.GATEWAY)}
        self._over_http = GatewayKeeper(list(self._gateways.values()), rng)
        self._recorder, self._rng = recorder, rng
        self._kept = {f"chaos.leased.{number}": list[_Kept]() for number in range(SERVICES)}
        self._numbers = iter(range(1_000_000))
        self._tasks: list[asyncio.Task[None]] = []
        self._is_ending = False

    async def begin(self) -> None:
        """Register and subscribe everything, then keep renewing."""
        for service, kept in self._kept.items():
            kept.extend(self._new() for _ in range(LEASES_OF_EACH))
            self._recorder.append("subscribed", subscriber=SUBSCRIBER, service=service)
            await self._subscriber.subscribe(service, self._seen).ready()
            keeper = self._over_http if len(self._tasks) % 2 else ClientKeeper(self._client)
            self._tasks.append(asyncio.get_running_loop().create_task(self._keep(keeper, service, kept)))
        await self._all_registered()

    async def end(self) -> Expected:
        """Let no lease end from here on, wait until all are registered; returns them. They are renewed until
        :meth:`close`."""
        self._is_ending = True
        await self._all_registered()
        return {
            service: {one.lease_id + _suffix(service): one.sequence for one in kept}
            for service, kept in self._kept.items()
        }

    async def close(self) -> None:
        """Renew no longer."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(self._client.close(), self._subscriber.close())

    async def look(self) -> None:
        """Record what each gateway shows of the services that are kept through gateways. Raises ClientError: one does
        not answer."""
        for name, address in self._gateways.items():
            for service in list(self._kept)[1::2]:
                index, shown = await self._over_http.providers(address, service)
                self._recorder.append("subscribed", subscriber=name, service=service)
                self._recorder.append("seen", subscriber=name, service=service, version=index, instances=shown)

    async def _all_registered(self) -> None:
        while not all(one.is_registered for kept in self._kept.values() for one in kept):
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)

    def _new(self) -> _Kept:
        return _Kept(f"lease-{next(self._numbers)}", 1)

    async def _keep(self, keeper: ChaosKeeper, service: str, kept: list[_Kept]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + RENEW_SECONDS
            for one in kept:
                if not one.is_registered:
                    await self._register(keeper, service, one)
            await self._renew(keeper, service, kept)
            if not self._is_ending and self._rng.random() < LAPSE_SHARE * len(kept):
                left = kept.pop(0)
                self._recorder.append("lapses", register_id=left.lease_id + _suffix(service))
                kept.append(self._new())
            await asyncio.sleep(max(0.05, due - loop.time()))

    async def _register(self, keeper: ChaosKeeper, service: str, one: _Kept) -> None:
        register_id, sent = one.lease_id + _suffix(service), self._recorder.now
        try:
            await keeper.register(service, one.lease_id, one.sequence, TTL_SECONDS)
        except SlotreeveError:
            return
        one.is_registered = True
        fields = {"register_id": register_id, "service": service, "ttl": TTL_SECONDS, "sent": sent}
        self._recorder.append("leased", **fields)

    async def _renew(self, keeper: ChaosKeeper, service: str, kept: list[_Kept]) -> None:
        registered = {one.lease_id: one for one in kept if one.is_registered}
        sent = self._recorder.now
        try:
            unknown = await keeper.renew(service, list(registered))
        except SlotreeveError:
            return
        for lease_id in unknown:
            one = registered.pop(lease_id)
            self._recorder.append("unknown", register_id=lease_id + _suffix(service))
            one.sequence, one.is_registered = one.sequence + 1, False
        renewed = [lease_id + _suffix(service) for lease_id in registered]
        self._recorder.append("renewed", register_ids=renewed, sent=sent)

    def _seen(self, subscription: Subscription) -> None:
        self._recorder.append(
            "seen",
            subscriber=SUBSCRIBER,
            service=subscription.data_info_id.partition("#")[0],
            version=subscription.version,
            instances={provider.register_id: _sequence(provider) for provider in subscription.instances},
        )


def _sequence(provider: Provider) -> int:
    instance = provider.instance
    return int(provider.data[0] if instance is None else instance.metadata["sequence"])


def _suffix(service: str) -> str:
    return lease_suffix(DataInfo.parse(service).id)
