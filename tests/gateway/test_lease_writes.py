"""Leases that callers of a gateway register one by one go to the registry in few messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest
from slotreeve.errors import Backpressure, ClientError, RequestTimeout
from slotreeve.model.data_info import DataInfo
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


def test_a_message_that_is_not_answered_holds_up_only_what_concerns_its_own_leases() -> None:
    async def body() -> None:
        end = RecordingEnd()
        writes = LeaseWrites(end)
        stuck = [asyncio.create_task(writes.renew(SERVICE, name)) for name in ("dead", "with it")]
        await asyncio.sleep(0.01)
        again = asyncio.create_task(writes.renew(SERVICE, "dead"))
        others = [asyncio.create_task(writes.renew(SERVICE, f"other-{number}")) for number in range(50)]
        await asyncio.sleep(5 * lease_writes.NEXT_SECONDS)
        assert [sorted(ids) for ids in end.asked] == [["dead", "with it"], sorted(f"other-{n}" for n in range(50))]
        end.go_on.set()
        assert all(await asyncio.gather(*stuck, *others, again))
        assert end.asked[2:] == [["dead"]]

    asyncio.run(body())


def test_callers_of_other_slots_do_not_wait_while_a_slot_has_no_leader() -> None:
    async def body(cluster: SimulatedCluster) -> None:
        gateway = SimulatedGateway(cluster, "gateway-1")
        names = [f"com.example.S{number}" for number in range(40)]
        await asyncio.gather(*(gateway.registry.register(name, Instance("10.0.0.1", 80)) for name in names))
        rows, slot_of = cluster.views()[0].table.slots, cluster.session("session-1").core.registrations.slot
        holders = {name: rows[slot_of(DataInfo.parse(name).id)].holders for name in names}
        well = [name for name in names if "data-1" not in holders[name]]
        assert 0 < len(well) < len(names)
        cluster.freeze("data-1")
        before = [asyncio.create_task(gateway.registry.register(name, Instance("10.0.0.1", 80))) for name in names]
        await asyncio.sleep(0.01)
        waited: list[float] = []
        for number in range(10):
            began = asyncio.get_running_loop().time()
            await gateway.registry.register(well[number % len(well)], Instance(f"10.0.1.{number}", 80))
            waited.append(asyncio.get_running_loop().time() - began)
        assert max(waited) < 2 * lease_writes.NEXT_SECONDS
        assert not all(task.done() for task in before), "the slots of data-1 have no leader yet"
        await asyncio.gather(*before, return_exceptions=True)

    with_cluster(body)


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
