"""A directory that is tried out, or opened, while this node may lead in another election."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest
import slotreeve_election_fle
from slotreeve.clock import MachineClock
from slotreeve.ports import Context
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.disk import TRIAL, Disk
from slotreeve_election_fle.election import FleElection
from slotreeve_machines.storage import DirectoryStorage, MemoryStorage
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport


def test_a_directory_is_tried_out_and_read_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, replace = set[int](), DirectoryStorage.replace

    def noted(storage: DirectoryStorage, name: str, content: bytes) -> None:
        threads.add(threading.get_ident())
        replace(storage, name, content)

    monkeypatch.setattr(DirectoryStorage, "replace", noted)

    def election() -> FleElection:
        clock, members = MachineClock(), {"meta-1": "meta-1:7702"}
        transport = MemoryTransport(clock, "meta-1", MemoryNetwork())
        context = Context(
            "c", 16, clock, random.Random(1), "meta-1", members, transport, open_storage=DirectoryStorage.open
        )
        made = slotreeve_election_fle.build(FleOptions(data_dir=str(tmp_path / "state")), context)
        assert isinstance(made, FleElection)
        return made

    async def main() -> None:
        assert "can be written" in await election().try_out()
        started = election()
        await started.start(lambda _: None)
        await started.stop()

    asyncio.run(main())
    assert threads
    assert threading.get_ident() not in threads


def test_a_trial_that_was_cut_short_leaves_a_new_directory_new() -> None:
    storage = MemoryStorage()
    opened = storage.open()
    opened.replace(TRIAL, b"0")
    assert Disk(opened).read_ledger().accepted_epoch == 0
    assert TRIAL not in opened.names()
