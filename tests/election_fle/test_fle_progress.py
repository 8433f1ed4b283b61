"""Clusters with much to send over slow connections, and with very many writes at once, on virtual time."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
import slotreeve_election_fle
from slotreeve.errors import NotLeader
from slotreeve.ports import Context, Election
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.effects import AppendToLog, SaveEpochs, Written
from slotreeve_election_fle.election import WRITES_A_TURN
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.events import WriteAsked
from slotreeve_election_fle.ledger import Ledger, LedgerContent
from slotreeve_election_fle.proposals import Proposals
from slotreeve_election_fle.vote import epoch_of, make_zxid
from slotreeve_machines.storage import MemoryStorage
from slotreeve_transport_memory.network import MemoryNetwork

Play = Callable[..., None]
MIB = 1024 * 1024
RNG = random.Random(1)


def logged(storage: MemoryStorage, epoch: int, values: Sequence[bytes]) -> None:
    """What the directory of a server holds that has logged ``values`` under the leader of ``epoch``."""
    disk = Disk(storage)
    disk.read_ledger()
    disk.write(SaveEpochs(epoch, epoch))
    disk.write(AppendToLog([Entry(make_zxid(epoch, n + 1), f"k{n}", value, 1) for n, value in enumerate(values)]))


def narrow(ensemble: Ensemble, bytes_per_second: float) -> None:
    assert isinstance(ensemble.network, MemoryNetwork)
    ensemble.network.bytes_per_second = bytes_per_second


def changes_of_leader(ensemble: Ensemble) -> int:
    return sum(report.leading for name in ensemble.running for report in ensemble.reports(name))


@pytest.mark.parametrize(
    "values", [[RNG.randbytes(128 * 1024) for _ in range(64)], [RNG.randbytes(8 * MIB)]], ids=["64 values", "one value"]
)
@pytest.mark.parametrize("bytes_per_second", [6e6, 1e6])
def test_a_history_that_takes_longer_to_send_than_a_handshake_is_sent_once(
    play: Play, values: list[bytes], bytes_per_second: float
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        logged(ensemble.storages["meta-1"], 1, values)
        narrow(ensemble, bytes_per_second)
        await ensemble.start("meta-1", "meta-2")
        assert await ensemble.agreed(within_seconds=2.0 + 12 * MIB / bytes_per_second) == "meta-1"
        assert ensemble.election("meta-1").leadership().term == 2
        held = ensemble.election("meta-2").state.read("k0")
        assert held is not None
        assert held.value == values[0]

    play(scenario)


def test_a_follower_that_lacks_much_returns_at_once_and_without_a_change_of_leader(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        await ensemble.start("meta-1", "meta-2")
        leader = await ensemble.agreed()
        for number in range(40):
            await ensemble.write(leader, f"k{number}", RNG.randbytes(MIB // 4))
        narrow(ensemble, 3e6)
        await ensemble.start("meta-3")
        for number in range(60):
            await ensemble.write(leader, f"meanwhile-{number}", b"v")
            await asyncio.sleep(0.1)
        assert changes_of_leader(ensemble) == 1
        assert await ensemble.agreed(within_seconds=1.0) == leader
        assert not [record for record in caplog.records if "hanging up" in record.message]
        follower = next(name for name in ("meta-1", "meta-2") if name != leader)
        ensemble.kill(follower)  # now the other one is needed
        await ensemble.write(leader, "k", b"v")
        assert len(ensemble.election("meta-3").state.keys()) >= 100

    play(scenario)


def test_a_server_of_weight_zero_with_a_longer_history_prevents_no_leader_and_is_rolled_back(play: Play) -> None:
    def build(context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions(data_dir="data", weights={"meta-3": 0}), context)

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        logged(ensemble.storages["meta-3"], 4, [b"never acknowledged"])
        assert isinstance(ensemble.network, MemoryNetwork)
        ensemble.network.delay_seconds = lambda source, to: 0.004 if "meta-1" in (source, to) else 0.0005
        await ensemble.start()
        leader = await ensemble.agreed(within_seconds=2.0)
        assert leader != "meta-3"
        await ensemble.write(leader, "k", b"v")
        await asyncio.sleep(0.5)
        assert ensemble.election("meta-3").state.read("k0") is None
        assert ensemble.election(leader).leadership().term <= 6

    play(scenario, build=build)


@pytest.mark.parametrize("observes", [True, False])
def test_a_server_that_has_accepted_a_much_higher_epoch_costs_one_change_of_leader_at_most(
    play: Play, observes: bool
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        await ensemble.start("meta-1", "meta-2")
        await ensemble.agreed()
        disk = Disk(ensemble.storages["meta-3"])
        disk.read_ledger()
        disk.write(SaveEpochs(500, 0))
        await ensemble.start("meta-3", observe_only=observes)
        await asyncio.sleep(3.0)
        await ensemble.agreed(within_seconds=2.0)
        assert changes_of_leader(ensemble) == (1 if observes else 2)

    play(scenario)


def test_ten_thousand_concurrent_writes_pass_without_a_change_of_leader(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        await asyncio.gather(*(ensemble.write(leader, f"k{number % 3000}", b"v") for number in range(10_000)))
        await asyncio.sleep(1.0)
        assert changes_of_leader(ensemble) == 1

    play(scenario)


def test_one_turn_of_the_event_loop_takes_a_bounded_number_of_writes_in_their_order(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start("meta-1")
        state = ensemble.election("meta-1").state
        refused: list[int] = []

        async def ask(number: int) -> None:
            with pytest.raises(NotLeader):
                await state.write("k", b"v", None, 0)
            refused.append(number)

        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(ask(number)) for number in range(1_000)]
        most = 0
        while len(refused) < len(tasks):
            before = len(refused)
            await asyncio.sleep(0)
            most = max(most, len(refused) - before)
        assert most == WRITES_A_TURN
        assert refused == list(range(1_000))

    play(scenario)


@pytest.fixture
def without_garbage_collection() -> Iterator[None]:
    """What other tests have left in memory makes one collection longer than what a test measures."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_garbage_collection")
def test_the_time_to_take_a_write_does_not_grow_with_the_number_that_waits() -> None:
    def seconds(count: int) -> float:
        writes = Proposals(Ledger(LedgerContent(accepted_epoch=3), 1_000), 3)
        began = time.process_time()
        for token in range(count):
            assert writes.ask(WriteAsked(token, f"k{token}", b"v", None, 3)) is None
        return time.process_time() - began

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.001)  # if it grew, this would be 100 times as long


def test_batches_of_many_small_writes_are_bounded_too() -> None:
    ledger = Ledger(LedgerContent(accepted_epoch=3), 100_000)
    writes = Proposals(ledger, 3)
    for token in range(5_000):
        writes.ask(WriteAsked(token, "k", b"", None, 3))
    sizes = []
    while writes.is_ready:
        batch = writes.take_batch()
        sizes.append(len(batch))
        ledger.append(batch)
        ledger.commit(ledger.last_zxid)
        versions = [answer.version for answer in writes.committed() if isinstance(answer, Written)]
        assert versions == [entry.version for entry in batch]
    assert sizes == [2_000, 2_000, 1_000]
    assert epoch_of(ledger.last_zxid) == 3
