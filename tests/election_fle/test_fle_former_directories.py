"""Directories of the version before vote rights were in them, and before logs were whitened, are taken over.

``golden/directories_of_0_1.json`` was written by that version: three servers elected meta-3, wrote ``k0`` to ``k5``
with eight zeros each, elected meta-2 after its death, wrote ``k0`` and ``last``, and were killed.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from slotreeve_conformance.election_directories import Files, put
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_election_fle.disk import Disk
from slotreeve_election_fle.effects import Effect, Send
from slotreeve_election_fle.events import Event, PeerConnected, Received
from slotreeve_election_fle.frames import read_frames
from slotreeve_election_fle.identity import Identity, Owner
from slotreeve_election_fle.ledger import Ledger
from slotreeve_election_fle.member import Member
from slotreeve_election_fle.messages import Greeting, Hears
from slotreeve_election_fle.place import Place
from slotreeve_election_fle.quorum import Quorum
from slotreeve_election_fle.timing import FleTiming
from slotreeve_machines.driver import Started, Tick
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.test_fle_lost_votes import votes

Play = Callable[..., None]
NAMES = ["meta-1", "meta-2", "meta-3"]
WRITTEN = {**{f"k{n}": b"zeros" + bytes(8) + b"%d" % n for n in range(1, 6)}, "k0": b"second term", "last": b"one"}


def former(name: str) -> Files:
    held = json.loads((Path(__file__).parent / "golden" / "directories_of_0_1.json").read_text())
    return {file: bytes.fromhex(content) for file, content in held[name].items()}


def holds_all(ensemble: Ensemble, name: str) -> None:
    state = ensemble.election(name).state
    found = {key: held.value for key in WRITTEN if (held := state.read(key)) is not None}
    assert found == WRITTEN


def test_servers_with_directories_of_the_former_version_elect_and_keep_everything(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        for name in NAMES:
            put(ensemble, name, former(name))
        await ensemble.start()
        leader = await ensemble.agreed(within_seconds=3.0)
        assert ensemble.election(leader).leadership().term == 3  # two were led before
        await ensemble.write(leader, "new", b"1")
        await asyncio.sleep(0.5)
        for name in NAMES:
            holds_all(ensemble, name)
            assert votes(ensemble, name)
        for name in NAMES:
            ensemble.kill(name)
        await ensemble.start()
        holds_all(ensemble, await ensemble.agreed(within_seconds=3.0))

    play(scenario)


@pytest.mark.parametrize("lost", NAMES)
def test_two_of_them_are_a_quorum_and_one_that_is_lost_then_is_not_counted(play: Play, lost: str) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        for name in NAMES:
            if name != lost:
                put(ensemble, name, former(name))
        await ensemble.start()
        leader = await ensemble.agreed(within_seconds=3.0)
        assert leader != lost
        await asyncio.sleep(0.5)
        holds_all(ensemble, lost)
        assert votes(ensemble, lost)  # a leader has admitted it
        ensemble.kill(leader)
        holds_all(ensemble, await ensemble.leader(within_seconds=3.0))

    play(scenario)


def test_its_log_is_rewritten_at_the_start_so_that_the_former_version_cannot_read_it_any_more() -> None:
    storage = MemoryStorage()
    storage.files = former("meta-1")
    before = storage.files["log-1"]
    content = Disk(storage).read_ledger()
    assert [entry.key for entry in content.entries] == ["k5", "k0", "last"]
    assert storage.files["log-1"] != before
    again, cut = read_frames(storage.files["log-1"], "log-1", "")
    assert [entry[1] for payload in again for entry in msgspec.msgpack.decode(payload)] == ["k5", "k0", "last"]
    assert cut == 0


@pytest.mark.parametrize("tells", [True, False])
def test_a_server_of_the_former_version_is_not_told_what_it_does_not_understand(tells: bool) -> None:
    storage = MemoryStorage()
    storage.files = former("meta-2")
    disk, chance = Disk(storage), random.Random(1)
    content = disk.read_ledger()
    record = disk.read_identity(Owner("meta-2", NAMES), content.accepted_epoch, chance)
    member = Member(Place(1, False, Quorum([0, 1, 2]), FleTiming()), Ledger(content, 1_000), Identity(record), chance)
    effects: list[Effect] = []
    greeting = Greeting(1, NAMES, record.peers[0].directory, 2, 0, False, tells=tells)
    events: list[Event] = [Started(), PeerConnected(0), Received(0, greeting), *[Tick()] * 10]
    for seconds, event in enumerate(events):
        effects += member.step(event, seconds / 5)
    told = [each for each in effects if isinstance(each, Send) and isinstance(each.message, Hears)]
    assert bool(told) == tells
