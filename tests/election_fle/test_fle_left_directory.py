"""A new ensemble from one directory that is left of another, and what the old one's servers can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ConnectionLost, ElectionError, StorageError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Context, Hello
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_fle.disk import EPOCHS, IDENTITY, Disk
from slotreeve_election_fle.effects import DiskWrite, SaveEpochs
from slotreeve_election_fle.election import FleElection
from slotreeve_election_fle.entries import Entry
from slotreeve_election_fle.identity import Identity, Owner
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.left_directory import HIGHEST_EPOCH, SKIPPED_EPOCHS, LeftDirectory
from slotreeve_election_fle.messages import FORMAT, Greeting, to_opaque
from slotreeve_election_fle.vote import epoch_of
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.conftest import build
from tests.election_fle.test_fle_peers import Stranger

Play = Callable[..., None]
MEMBERS = ["meta-1", "meta-2", "meta-3"]
META_1 = Owner("meta-1", MEMBERS)


def forced(files: dict[str, bytes], name: str = "second") -> dict[str, bytes]:
    """The files of a directory that is the beginning of the ensemble ``name``."""
    storage = MemoryStorage()
    storage.files = dict(files)
    LeftDirectory(storage.open(), "left").begin_ensemble(name)
    return storage.files


async def lose_all_but_the_first(ensemble: Ensemble) -> dict[str, dict[str, bytes]]:
    """Run, write, stop for good; the directories as they were."""
    await ensemble.start()
    leader = await ensemble.agreed()
    for number in range(20):
        await ensemble.write(leader, f"k{number % 3}", b"%d" % number)
    await asyncio.sleep(0.2)
    for name in ensemble.names:
        ensemble.kill(name)
    return {name: dict(storage.files) for name, storage in ensemble.storages.items()}


async def begin_anew(ensemble: Ensemble, files: dict[str, bytes], *names: str) -> None:
    """Each of these starts with a copy of the forced directory."""
    for name in names:
        ensemble.storages[name] = MemoryStorage(name)
        ensemble.storages[name].files = dict(files)
    await ensemble.start(*names)


def read(ensemble: Ensemble, name: str, key: str) -> bytes | None:
    held = ensemble.election(name).state.read(key)
    return None if held is None else held.value


def votes(ensemble: Ensemble, name: str) -> bool:
    election = ensemble.election(name)
    assert isinstance(election, FleElection)
    assert election._member is not None
    return election._member._votes


@pytest.mark.parametrize("seed", seeds(2))
def test_a_new_ensemble_has_the_state_and_terms_above_all_that_the_lost_servers_may_have_had(
    play: Play, seed: int
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        old = await lose_all_but_the_first(ensemble)
        before = Disk(_memory(old["meta-1"])).read_ledger()
        await begin_anew(ensemble, forced(old["meta-1"]), *MEMBERS)
        leader = await ensemble.agreed()
        assert ensemble.election(leader).leadership().term > before.accepted_epoch + SKIPPED_EPOCHS
        assert [read(ensemble, leader, f"k{n}") for n in range(3)] == [b"18", b"19", b"17"]
        await ensemble.write(leader, "k0", b"after")
        ensemble.kill(leader)
        again = await ensemble.agreed()
        assert read(ensemble, again, "k0") == b"after"

    play(scenario, seed=seed)


@pytest.mark.parametrize("absent", ["meta-2", "meta-3"])
def test_a_server_with_a_directory_of_the_old_ensemble_is_refused_and_changes_nothing(
    play: Play, absent: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        old = await lose_all_but_the_first(ensemble)
        others = [name for name in MEMBERS if name != absent]
        await begin_anew(ensemble, forced(old["meta-1"]), *others)
        leader = await ensemble.agreed()
        term = ensemble.election(leader).leadership().term
        ensemble.storages[absent] = _memory(old[absent])
        ensemble.storages[absent].crash()
        await ensemble.start(absent)
        for number in range(20):
            await ensemble.write(leader, "k0", b"again %d" % number)
            await asyncio.sleep(0.1)
        assert ensemble.election(leader).leadership().term == term
        assert ensemble.election(absent).leadership().leader is None
        assert read(ensemble, absent, "k0") != b"again 19"
        assert "from before slotreeve election force-new-cluster" in caplog.text
        ensemble.kill(absent)
        ensemble.storages[absent] = MemoryStorage(absent)  # as the message says
        await ensemble.start(absent)
        assert await ensemble.agreed() == leader
        assert read(ensemble, absent, "k0") == b"again 19"
        await until_it_votes(ensemble, absent)

    play(scenario)


async def until_it_votes(ensemble: Ensemble, name: str) -> None:
    for _ in range(500):
        if votes(ensemble, name) and await ensemble.agreed():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{name} was not admitted")


def test_an_empty_directory_belongs_to_the_new_ensemble_from_then_on(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        old = await lose_all_but_the_first(ensemble)
        await begin_anew(ensemble, forced(old["meta-1"]), "meta-1", "meta-2")
        ensemble.storages["meta-3"] = MemoryStorage("meta-3")
        await ensemble.start("meta-3")
        await until_it_votes(ensemble, "meta-3")
        ensemble.kill("meta-3")
        ensemble.kill("meta-2")
        await ensemble.start("meta-3")
        await ensemble.agreed()  # it counts for the quorum
        ensemble.kill("meta-1")
        ensemble.storages["meta-2"] = _memory(old["meta-2"])
        ensemble.storages["meta-2"].crash()
        await ensemble.start("meta-2")
        await asyncio.sleep(5.0)
        assert ensemble.leading() == []  # one of the new ensemble and one of the old one are no quorum

    play(scenario)


def test_an_old_server_that_runs_elsewhere_cuts_the_connection_of_the_new_one_with_its_name_once(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        old = await lose_all_but_the_first(ensemble)
        await begin_anew(ensemble, forced(old["meta-1"]), *MEMBERS)
        await ensemble.agreed()
        owner = Owner("meta-3", MEMBERS)
        greeting = Identity(Disk(_memory(old["meta-3"])).read_identity(owner, 1, random.Random(0))).greeting(1, False)
        ends = []
        for _ in range(5):
            stranger = Stranger()
            connection = await connected(ensemble, "meta-1", "meta-3", stranger)
            with contextlib.suppress(ConnectionLost):  # it may have been closed at once
                connection.send(to_opaque(greeting))
            await asyncio.sleep(1.0)
            ends.append(stranger.ended)
            assert await ensemble.agreed()
        assert all("from before slotreeve election force-new-cluster" in end for end in ends)
        assert len([r for r in ensemble.reports("meta-1") if r.leader is None]) <= 1

    play(scenario)


async def connected(ensemble: Ensemble, to: str, name: str, handler: Stranger) -> Connection:
    transport = ensemble.network.transport(VirtualClock(), f"endpoint of {name} elsewhere")
    hello = Hello("ensemble", name, Role.META, f"{name}@elsewhere")
    return await transport.connect(f"{to}:7712", hello, handler, 1.0)


def test_a_server_that_met_the_old_ensemble_first_and_joins_the_new_one_greets_the_old_one_again(play: Play) -> None:
    """Both are refused by each other then; before, an old and a new server could have been counted together."""

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start("meta-1")
        await asyncio.sleep(0.1)
        old, new = Stranger(), Stranger()
        connection = await connected(ensemble, "meta-1", "meta-3", old)
        connection.send(to_opaque(Greeting(FORMAT, MEMBERS, "d3", 7, 0, False)))
        await asyncio.sleep(0.1)
        assert not old.ended
        connection = await connected(ensemble, "meta-1", "meta-2", new)
        connection.send(to_opaque(Greeting(FORMAT, MEMBERS, "d2", 9, 0, False, "", "second")))
        await asyncio.sleep(0.1)
        assert not new.ended
        assert "has joined an ensemble" in old.ended
        connection = await connected(ensemble, "meta-1", "meta-3", old)
        connection.send(to_opaque(Greeting(FORMAT, MEMBERS, "d3", 7, 0, False)))
        await asyncio.sleep(0.1)
        assert "from before slotreeve election force-new-cluster" in old.ended

    play(scenario)


# --- a directory -----------------------------------------------------------------------------------------------------


def _memory(files: dict[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage()
    storage.files = dict(files)
    return storage.open()


def used(accepted: int, current: int, entries: Sequence[Entry], committed: int) -> MemoryStorage:
    """A directory that a server has used; a snapshot holds the first ``committed`` entries."""
    storage = MemoryStorage().open()
    disk = Disk(storage)
    ledger = Ledger(disk.read_ledger(), snapshot_every=max(1, committed))
    disk.read_identity(META_1, 1, random.Random(1))
    disk.write(SaveEpochs(accepted, current))
    for write in (*ledger.append(entries), *_committed(ledger, entries, committed)):
        disk.write(write)
    return storage


def _committed(ledger: Ledger, entries: Sequence[Entry], committed: int) -> Sequence[DiskWrite]:
    if not committed:
        return ()
    ledger.commit(entries[committed - 1].zxid)
    return ledger.snapshot_if_due()


@given(
    st.integers(1, 50),
    st.integers(0, 12),
    st.integers(0, 12),
    st.lists(st.sampled_from("abc"), min_size=12, max_size=12),
)
def test_a_forced_directory_has_the_same_history_to_the_last_write_whether_it_was_acknowledged_or_not(
    epoch: int, count: int, committed: int, keys: list[str]
) -> None:
    entries = [Entry((epoch << 32) + n + 1, keys[n], b"%d" % n, n + 1) for n in range(count)]
    storage = used(epoch + 1, epoch, entries, min(committed, count))
    before = dict(storage.files)
    directory = LeftDirectory(storage, "left")
    found = directory.history()
    assert storage.files == before
    assert (found.accepted_epoch, found.current_epoch, found.keys) == (epoch + 1, epoch, len(set(keys[:count])))
    assert found.last_zxid == (entries[-1].zxid if entries else 0)
    directory.begin_ensemble("second")
    changed = {name for name in before if storage.files[name] != before[name]}
    assert changed == {EPOCHS, IDENTITY}
    assert storage.files.keys() == before.keys()
    content = Disk(storage).read_ledger()
    assert content.accepted_epoch == epoch + 1 + SKIPPED_EPOCHS
    assert content.current_epoch == epoch
    ledger = Ledger(content, 1_000)
    old = Ledger(Disk(_memory(before)).read_ledger(), 1_000)
    assert (ledger.last_zxid, ledger.last_chain) == (old.last_zxid, old.last_chain)


def test_the_first_start_of_a_copy_gives_it_members_and_an_identity_of_its_own() -> None:
    files = forced(used(4, 4, [Entry(4 << 32 | 1, "k", b"v", 1)], 0).files)
    first = Disk(_memory(files)).read_identity(Owner("a", ["a", "b"], "a=2"), 5, random.Random(1))
    storage = _memory(files)
    second = Disk(storage).read_identity(Owner("a", ["a", "b"], "a=2"), 5, random.Random(2))
    assert first.directory != second.directory
    assert (first.members, first.weighing, first.ensemble, first.peers) == (["a", "b"], "a=2", "second", {})
    assert Disk(storage).read_identity(Owner("a", ["a", "b"], "a=2"), 5, random.Random(3)) == second


def test_a_crash_before_the_last_step_leaves_a_directory_of_the_old_ensemble() -> None:
    storage = used(4, 4, [Entry(4 << 32 | 1, "k", b"v", 1)], 0)
    before = Disk(storage).read_identity(META_1, 1, random.Random(0))
    whole = forced(storage.files)
    storage.files[EPOCHS] = whole[EPOCHS]
    assert Disk(storage).read_ledger().accepted_epoch == 4 + SKIPPED_EPOCHS
    assert Disk(storage).read_identity(META_1, 1, random.Random(0)) == before


def test_a_directory_can_be_forced_again() -> None:
    files = forced(forced(used(4, 4, [], 0).files), "third")
    storage = _memory(files)
    assert Disk(storage).read_ledger().accepted_epoch == 4 + 2 * SKIPPED_EPOCHS
    assert Disk(storage).read_identity(META_1, 1, random.Random(0)).ensemble == "third"


def test_a_directory_without_state_is_refused() -> None:
    with pytest.raises(StorageError, match="left: this is no data directory"):
        LeftDirectory(MemoryStorage().open(), "left").history()
    storage = MemoryStorage().open()
    Disk(storage).read_ledger()
    Disk(storage).read_identity(META_1, 1, random.Random(0))
    with pytest.raises(StorageError, match="left: its server has never followed a leader"):
        LeftDirectory(storage, "left").history()


def test_a_damaged_directory_is_refused_and_stays_as_it_is() -> None:
    storage = used(4, 4, [Entry(4 << 32 | n, "k", b"v", n) for n in (1, 2)], 0)
    log = next(name for name in storage.files if name.startswith("log-"))
    storage.files[log] = storage.files[log][:30] + b"\xff" + storage.files[log][31:]
    before = dict(storage.files)
    with pytest.raises(StorageError, match=f"left/{log}: is damaged"):
        LeftDirectory(storage, "left").begin_ensemble("second")
    assert storage.files == before


def test_a_directory_whose_epochs_are_used_up_is_refused() -> None:
    storage = used(HIGHEST_EPOCH - SKIPPED_EPOCHS, 4, [], 0)
    with pytest.raises(StorageError, match="no higher ones are left"):
        LeftDirectory(storage, "left").begin_ensemble("second")
    assert epoch_of((HIGHEST_EPOCH << 32) + 1) == HIGHEST_EPOCH


def test_a_process_that_cannot_open_directories_says_so(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        context = Context("east", 256, VirtualClock(), random.Random(0), "a", {"a": "a:1"})
        transport = ensemble.network.transport(VirtualClock(), "a")
        election = build(dataclasses.replace(context, transport=transport))
        assert isinstance(election, FleElection)
        with pytest.raises(ElectionError, match="cannot open directories"):
            election.left_directory("left")

    play(scenario)


def test_a_copy_of_the_forced_directory_that_is_put_there_once_more_is_admitted_again(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        directory = forced((await lose_all_but_the_first(ensemble))["meta-1"])
        await begin_anew(ensemble, directory, *ensemble.names)
        await ensemble.write(await ensemble.agreed(), "k0", b"after")
        await asyncio.sleep(0.5)
        ensemble.kill("meta-1")
        await begin_anew(ensemble, directory, "meta-1")
        await ensemble.agreed()
        await asyncio.sleep(1.0)
        assert votes(ensemble, "meta-1")
        assert read(ensemble, "meta-1", "k0") == b"after"

    play(scenario)
