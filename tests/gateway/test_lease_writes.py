"""Leases that callers of a gateway register one by one go to the registry in few messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest
from slotreeve.errors import Backpressure, ClientError, RequestTimeout
from slotreeve_client import Lease, LeaseAnswers
from slotreeve_gateway import lease_writes
from slotreeve_gateway.lease_writes import LeaseWrites
from slotreeve_protocol.instance import Instance
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_simulator.simulated_gateway import SimulatedGateway

from tests.gateway.gateways import with_cluster

SERVICE = "com.example.Many#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


class RecordingEnd:
    """The registry as the writes see it; it answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.go_on = asyncio.Event()
        self.answers = LeaseAnswers()
        self.error: Exception | None = None

    async def _answer(self, lease_ids: list[str]) -> LeaseAnswers:
        self.asked.append(lease_ids)
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        return self.answers

    async def register_many(self, leases: Iterable[Lease]) -> LeaseAnswers:
        return await self._answer([lease.lease_id for lease in leases])

    async def renew_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        return await self._answer([lease_id for ids in leases.values() for lease_id in ids])

    async def deregister_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        return await self._answer([lease_id for ids in leases.values() for lease_id in ids])


def test_what_comes_while_a_message_is_under_way_goes_together_into_the_next_one() -> None:
    async def body() -> None:
        end = RecordingEnd()
        writes = LeaseWrites(end)
        asked = [asyncio.create_task(writes.renew(SERVICE, "first"))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked += [asyncio.create_task(writes.renew(SERVICE, f"later-{number}")) for number in range(500)]
        await asyncio.sleep(0)
        end.answers.unknown = {SERVICE: {"later-7"}}
        end.go_on.set()

        known = await asyncio.gather(*asked)

        assert [len(ids) for ids in end.asked] == [1, 500]
        assert [number for number, is_known in enumerate(known) if not is_known] == [8]

    asyncio.run(body())


def test_an_unanswered_lease_and_a_failed_message_reach_those_who_asked_and_nobody_else() -> None:
    async def body() -> None:
        end = RecordingEnd()
        writes = LeaseWrites(end)
        end.go_on.set()
        end.answers = LeaseAnswers(unanswered={SERVICE: {"slow"}}, reason="the leader does not answer")
        slow, good = await asyncio.gather(
            writes.deregister(SERVICE, "slow"), writes.deregister(SERVICE, "good"), return_exceptions=True
        )
        assert isinstance(slow, RequestTimeout)
        assert good is True

        end.error = ClientError("no way")
        for failed in await asyncio.gather(*(writes.renew(SERVICE, "a") for _ in range(3)), return_exceptions=True):
            assert isinstance(failed, ClientError)
        end.error = None
        assert await writes.renew(SERVICE, "a"), "the next one is sent again"

    asyncio.run(body())


def test_a_caller_that_goes_away_harms_nobody_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        end = RecordingEnd()
        writes = LeaseWrites(end)
        first = asyncio.create_task(writes.renew(SERVICE, "first"))
        await asyncio.sleep(0.01)
        gone, stays = (asyncio.create_task(writes.renew(SERVICE, name)) for name in ("gone", "stays"))
        await asyncio.sleep(0.01)
        monkeypatch.setattr(lease_writes, "MOST_WAITING", 2)
        with pytest.raises(Backpressure):
            await writes.renew(SERVICE, "too many")
        gone.cancel()
        end.go_on.set()

        assert await first
        assert await stays

    asyncio.run(body())


def test_a_thousand_registrations_at_once_are_all_stored() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        instances = [Instance(f"10.0.{number // 250}.{number % 250}", 80) for number in range(1_000)]
        await asyncio.gather(*(gateway.registry.register("many", instance) for instance in instances))

        seen = {instance.id for instance in (await gateway.registry.view("many")).instances}
        assert seen == {instance.id for instance in instances}
        assert all(await asyncio.gather(*(gateway.registry.renew("many", instance.id) for instance in instances)))
        assert await gateway.registry.deregister("many", instances[0].id)
        assert not await gateway.registry.renew("many", instances[0].id)

    with_cluster(body)
