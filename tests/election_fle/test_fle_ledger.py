"""What a server has on disk: epochs, log, snapshot; crashes at every byte, damage, and a dumb twin."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import ElectionError, StorageError
from slotreeve_election_fle.disk import EPOCHS, SNAPSHOT, TAKING_OVER
from slotreeve_election_fle.entries import Entry, items_of
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.vote import epoch_of, make_zxid
from slotreeve_machines.storage import DirectoryStorage, MemoryStorage

from tests.election_fle.durable import DurableLedger


def entry(counter: int, key: str = "k", epoch: int = 1, value: bytes = b"v") -> Entry:
    return Entry(make_zxid(epoch, counter), key, value, counter)


def history(ledger: Ledger) -> list[Entry]:
    return list(ledger.entries_after(0))


def commit(ledger: DurableLedger, zxid: int) -> None:
    ledger.commit(zxid)
    ledger.save(ledger.snapshot_if_due())


def test_s76_epochs_are_durable_and_only_rise() -> None:
    storage = MemoryStorage()
    ledger = DurableLedger(storage, 100)
    assert (ledger.accepted_epoch, ledger.current_epoch) == (0, 0)
    ledger.save(ledger.accept(1))
    assert (DurableLedger(storage, 100).accepted_epoch, DurableLedger(storage, 100).current_epoch) == (1, 0)
    ledger.save(ledger.enter(1))
    assert DurableLedger(storage, 100).current_epoch == 1
    with pytest.raises(ElectionError, match="cannot be accepted again"):
        ledger.save(ledger.accept(1))
    with pytest.raises(ElectionError, match="epoch 2 was not accepted"):
        ledger.save(ledger.enter(2))


def test_s83_a_refused_write_leaves_the_epochs_on_the_disk_as_they_were() -> None:
    storage = MemoryStorage()
    ledger = DurableLedger(storage, 100)
    storage.failure = "No space left on device"
    with pytest.raises(StorageError, match="No space left"):
        ledger.save(ledger.accept(1))
    storage.failure = None
    assert DurableLedger(storage, 100).accepted_epoch == 0


def test_only_committed_entries_are_in_the_table() -> None:
    ledger = DurableLedger(MemoryStorage(), 100)
    ledger.save(ledger.accept(1))
    ledger.save(ledger.append([entry(1, "a"), entry(2, "b")]))
    assert ledger.table == {}
    assert [key for key, _ in ledger.commit(entry(1).zxid)] == ["a"]
    assert [key for key, _ in ledger.commit(make_zxid(9, 9))] == ["b"]


def test_a_committed_entry_is_never_rolled_back() -> None:
    ledger = DurableLedger(MemoryStorage(), 100)
    ledger.save(ledger.accept(1))
    ledger.save(ledger.append([entry(1), entry(2), entry(3)]))
    commit(ledger, entry(2).zxid)
    with pytest.raises(ElectionError, match="would roll back"):
        ledger.save(ledger.keep_and_append(entry(1).zxid, []))
    ledger.save(ledger.keep_and_append(entry(2).zxid, [entry(4)]))
    assert [e.zxid for e in history(ledger)] == [entry(n).zxid for n in (1, 2, 4)]


@given(st.data())
@settings(max_examples=60)
def test_a_restarted_ledger_equals_a_plain_list_and_a_dictionary(data: st.DataObject) -> None:
    """The dumb twin: every entry in a list, every commit replayed from the beginning."""
    storage = MemoryStorage()
    every = data.draw(st.integers(1, 6), "snapshot every")
    ledger = DurableLedger(storage, every)
    ledger.save(ledger.accept(1))
    ledger.save(ledger.enter(1))
    twin: list[Entry] = []
    committed = counter = 0
    for _ in range(data.draw(st.integers(1, 25), "steps")):
        action = data.draw(st.sampled_from(["append", "commit", "roll back", "restart"]))
        if action == "append":
            new = [entry(counter + i + 1, f"k{(counter + i) % 3}") for i in range(data.draw(st.integers(1, 3)))]
            counter += len(new)
            ledger.save(ledger.append(new))
            twin += new
        elif action == "commit" and twin:
            committed = max(committed, data.draw(st.integers(0, len(twin))))
            if committed:
                commit(ledger, twin[committed - 1].zxid)
        elif action == "roll back":
            keep = data.draw(st.integers(committed, len(twin)))
            ledger.save(ledger.keep_and_append(twin[keep - 1].zxid if keep else 0, []))
            del twin[keep:]
        elif action == "restart":
            ledger = DurableLedger(storage, every)
            if committed:
                commit(ledger, twin[committed - 1].zxid)
        assert ledger.last_zxid == (twin[-1].zxid if twin else 0)
        assert ledger.table == {e.key: e.outcome() for e in twin[:committed]}
    whole = DurableLedger(MemoryStorage(), 10_000)
    whole.save(whole.accept(1))
    whole.save(whole.append(twin))
    assert whole.last_chain == ledger.last_chain


def test_an_append_cut_at_any_byte_loses_only_that_append() -> None:
    storage = MemoryStorage()
    ledger = DurableLedger(storage, 100)
    ledger.save(ledger.accept(1))
    ledger.save(ledger.enter(1))
    ledger.save(ledger.append([entry(1)]))
    before = storage.files["log-0"]
    ledger.save(ledger.append([entry(2, value=b"second")]))
    after = storage.files["log-0"]
    for length in range(len(before), len(after)):
        for padding in (b"", b"\0" * 40):
            storage.files["log-0"] = after[:length] + padding
            assert history(DurableLedger(storage, 100)) == [entry(1)]
    storage.files["log-0"] = after
    assert len(history(DurableLedger(storage, 100))) == 2


def used_directory(every: int = 2) -> MemoryStorage:
    storage = MemoryStorage()
    ledger = DurableLedger(storage, every)
    ledger.save(ledger.accept(1))
    ledger.save(ledger.enter(1))
    for counter in range(1, 6):
        ledger.save(ledger.append([entry(counter)]))
        commit(ledger, entry(counter).zxid)
    return storage


@pytest.mark.parametrize("name", [EPOCHS, SNAPSHOT, "log-2"])
def test_one_changed_bit_anywhere_is_found_and_the_file_is_named(name: str) -> None:
    storage = used_directory()
    whole = storage.files[name]
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 0x10
        storage.files[name] = bytes(changed)
        with pytest.raises(StorageError, match=f"var/meta-1/{name}: .*move its data directory away"):
            DurableLedger(storage, 2, "var/meta-1")


@pytest.mark.parametrize("name", [EPOCHS, SNAPSHOT, "log-2"])
def test_a_missing_file_of_a_used_directory_is_not_taken_for_a_first_start(name: str) -> None:
    storage = used_directory()
    storage.remove(name)
    with pytest.raises(StorageError, match=r"is missing.*move its data directory away"):
        DurableLedger(storage, 2, "var/meta-1")


def test_an_older_epochs_file_put_back_is_found() -> None:
    storage = MemoryStorage()
    ledger = DurableLedger(storage, 100)
    ledger.save(ledger.accept(1))
    old = storage.files[EPOCHS]
    ledger.save(ledger.accept(2))
    accepted = storage.files[EPOCHS]
    ledger.save(ledger.enter(2))
    ledger.save(ledger.append([entry(1, epoch=2)]))
    storage.files[EPOCHS] = old
    with pytest.raises(StorageError, match=r"names 1 as the highest accepted epoch.*an older file was put back"):
        DurableLedger(storage, 100)
    storage.files[EPOCHS] = accepted
    with pytest.raises(StorageError, match=r"names 0 as the last epoch.*writes of epoch 2: an older file was put back"):
        DurableLedger(storage, 100)


@given(st.lists(st.tuples(st.sampled_from(["accept", "enter", "write"]), st.booleans()), max_size=20))
def test_no_older_epochs_file_lets_a_directory_vote_as_if_it_had_not_followed_the_leader_of_its_last_write(
    steps: list[tuple[str, bool]],
) -> None:
    """Whichever earlier file is put back, and whenever the server was killed meanwhile."""
    storage, counter = MemoryStorage(), 0
    ledger = DurableLedger(storage, 100)
    older = [storage.files[EPOCHS]]
    for step, is_restarted in steps:
        if step == "accept":
            ledger.save(ledger.accept(ledger.accepted_epoch + 1))
        elif step == "enter":
            ledger.save(ledger.enter(ledger.accepted_epoch))
        elif ledger.current_epoch:
            counter += 1
            ledger.save(ledger.append([entry(counter, epoch=ledger.current_epoch)]))
        older.append(storage.files[EPOCHS])
        if is_restarted:
            ledger = DurableLedger(storage, 100)
    for put_back in older:
        storage.files[EPOCHS] = put_back
        with suppress(StorageError):  # which the other tests look at
            again = DurableLedger(storage, 100)
            assert again.current_epoch >= epoch_of(again.last_zxid)


def test_a_server_that_is_killed_while_it_takes_a_leaders_history_over_starts_again() -> None:
    """Its log then holds writes of an epoch that it has not followed yet."""
    ends = []
    for writes in range(20):
        storage = StopsAfter(writes)
        try:
            ledger = DurableLedger(storage, 100)
            ledger.save(ledger.accept(5))
            ledger.save(ledger.take_over_from(entry(1, epoch=4).zxid))
            ledger.save(ledger.append([entry(1, epoch=4)]))
            ledger.save(ledger.enter(5))
        except StorageError:
            pass
        storage.left = 1_000
        again = DurableLedger(storage, 100)
        ends.append((again.current_epoch, epoch_of(again.last_zxid)))
        if again.current_epoch:
            assert TAKING_OVER not in storage.files
    assert set(ends) == {(0, 0), (0, 4), (5, 4)}


class StopsAfter(MemoryStorage):
    """Carries out so many writes and then none: a crash between two of them."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    def _check_writable(self, name: str) -> None:
        super()._check_writable(name)
        self.left -= 1
        if self.left < 0:
            raise StorageError("the power failed")


def test_a_crash_between_any_two_writes_loses_no_acknowledged_entry() -> None:
    for writes in range(40):
        storage = StopsAfter(writes)
        acknowledged: list[Entry] = []
        committed = 0
        try:
            ledger = DurableLedger(storage, 2)
            ledger.save(ledger.accept(1))
            ledger.save(ledger.enter(1))
            for counter in range(1, 8):
                ledger.save(ledger.append([entry(counter)]))
                acknowledged.append(entry(counter))
                commit(ledger, entry(counter).zxid)
                committed = counter
        except StorageError:
            pass
        storage.left = 1_000
        again = DurableLedger(storage, 2)
        again.commit(make_zxid(9, 0))
        assert again.last_zxid >= (acknowledged[-1].zxid if acknowledged else 0)
        assert committed == 0 or again.table["k"].version >= committed


def test_a_whole_state_is_installed_and_survives() -> None:
    source = DurableLedger(MemoryStorage(), 100)
    source.save(source.accept(1))
    source.save(source.append([entry(1, "a"), entry(2, "b"), entry(3, "c")]))
    source.commit(entry(2).zxid)
    storage = MemoryStorage()
    target = DurableLedger(storage, 100)
    target.save(target.accept(1))
    target.save(target.enter(1))
    chain = source.chain_at(source.committed_zxid)
    assert chain is not None
    rest = source.entries_after(source.committed_zxid)
    writes, changes = target.install(source.committed_zxid, chain, items_of(source.table), rest)
    target.save(writes)
    assert [key for key, _ in changes] == ["a", "b"]
    for ledger in (target, DurableLedger(storage, 100)):
        assert (ledger.last_zxid, ledger.last_chain, ledger.table) == (
            source.last_zxid,
            source.last_chain,
            source.table,
        )


def test_it_works_on_a_real_directory(tmp_path: Path) -> None:
    storage = DirectoryStorage.open(tmp_path / "meta-1")
    ledger = DurableLedger(storage, 3, str(tmp_path / "meta-1"))
    ledger.save(ledger.accept(1))
    ledger.save(ledger.enter(1))
    for counter in range(1, 9):
        ledger.save(ledger.append([entry(counter)]))
        commit(ledger, entry(counter).zxid)
    storage.close()
    storage = DirectoryStorage.open(tmp_path / "meta-1")
    assert DurableLedger(storage, 3).last_zxid == entry(8).zxid
    storage.close()
