"""Which peers may take part: greetings, lost disks, strangers, and bytes that mean nothing (docs/fle.md, E and F)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pytest
import slotreeve_election_fle
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import MalformedFrame, StorageError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Context, Election, Hello, Message
from slotreeve_conformance.election_backend import Wires
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.connections import MOST_STRANGERS
from slotreeve_election_fle.disk import IDENTITY, Disk
from slotreeve_election_fle.effects import SaveIdentity
from slotreeve_election_fle.election import FleElection
from slotreeve_election_fle.identity import MOST_FORMER, Identity, Owner
from slotreeve_election_fle.messages import (
    FORMAT,
    TOPIC,
    Greeting,
    Notification,
    from_opaque,
    to_opaque,
)
from slotreeve_election_fle.records import PeerRecord
from slotreeve_election_fle.vote import NOBODY, State, Vote
from slotreeve_machines.storage import MemoryStorage
from slotreeve_protocol.general_messages import Done, Opaque

from tests.election_fle.conftest import build

Play = Callable[..., None]
MEMBERS = ["meta-1", "meta-2", "meta-3"]


class Stranger:
    """The other end of an election connection, played by a test."""

    def __init__(self) -> None:
        self.messages: list[object] = []
        self.ended = ""

    def opened(self, connection: Connection) -> None:
        pass

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        assert isinstance(message, Opaque)
        self.messages.append(from_opaque(message))

    def closed(self, connection: Connection, reason: str) -> None:
        self.ended = reason


async def connect(
    ensemble: Ensemble, to: str, name: str = "stranger", role: Role = Role.META
) -> tuple[Stranger, Connection]:
    stranger, clock = Stranger(), VirtualClock()
    transport = ensemble.network.transport(clock, f"endpoint of {name}")
    hello = Hello("ensemble", name, role, f"{name}@1")
    return stranger, await transport.connect(f"{to}:7712", hello, stranger, 1.0)


async def led(ensemble: Ensemble) -> str:
    await ensemble.start()
    return await ensemble.agreed()


def test_s40_s41_s42_s47_bytes_that_mean_nothing_do_no_harm(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        _, connection = await connect(ensemble, leader)
        for message in (Opaque(TOPIC, b""), Opaque(TOPIC, b"\xc1" * 20), Opaque("other", b"\x90"), Done()):
            connection.send(message)
        connection.send(to_opaque(Notification(Vote(99, -1, -(1 << 62), 1 << 62, State.LEADING))))
        await asyncio.sleep(1.0)
        assert not connection.closed
        assert ensemble.leading() == [leader]
        assert len(ensemble.reports(leader)) == 1

    play(scenario)


def test_s35_an_observer_that_asks_gets_the_leader_and_its_epoch(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        term = ensemble.election(leader).leadership().term
        stranger, connection = await connect(ensemble, leader)
        connection.send(to_opaque(Greeting(FORMAT, MEMBERS, "d", 0, 0, True)))
        connection.send(to_opaque(Notification(Vote(NOBODY, NOBODY, NOBODY, 1))))
        await asyncio.sleep(0.1)
        (answer,) = (m for m in stranger.messages if isinstance(m, Notification))
        assert (answer.vote.leader, answer.vote.state, answer.vote.peer_epoch) == (2, State.LEADING, term)

    play(scenario)


@pytest.mark.parametrize("role", sorted(set(Role) - {Role.META}))
@pytest.mark.parametrize("name", ["stranger", MEMBERS[0]])
def test_who_is_no_meta_server_learns_nothing_and_takes_nobodys_place(play: Play, role: Role, name: str) -> None:
    """A key of another role than meta may give its holder any name, and none that it may read the meta state."""

    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        term = ensemble.election(leader).leadership().term
        for _ in range(20):
            stranger, _ = await connect(ensemble, leader, name, role)
            await asyncio.sleep(0.2)
            assert f"this is a {role}" in stranger.ended
            assert stranger.messages == []
        assert (await ensemble.agreed(), ensemble.election(leader).leadership().term) == (leader, term)

    play(scenario)


def test_before_its_greeting_a_message_of_a_peer_does_not_count(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        stranger, connection = await connect(ensemble, leader)
        connection.send(to_opaque(Notification(Vote(NOBODY, NOBODY, NOBODY, 1))))
        await asyncio.sleep(0.1)
        assert [type(message) for message in stranger.messages] == [Greeting]

    play(scenario)


@pytest.mark.parametrize(
    ("peer", "reason"),
    [
        (Greeting(FORMAT, ["meta-1", "meta-9"], "d", 0, 0, True), "the meta servers are"),
        (Greeting(FORMAT + 1, MEMBERS, "d", 0, 0, True), "have format"),
        (Greeting(FORMAT, MEMBERS, "d", 0, 0, True, "meta-1=2"), "weighed equally here and meta-1=2 there"),
    ],
)
def test_a_peer_with_another_configuration_is_refused_with_the_reason(play: Play, peer: Greeting, reason: str) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        stranger, connection = await connect(ensemble, leader)
        connection.send(to_opaque(peer))
        await asyncio.sleep(0.1)
        assert reason in stranger.ended

    play(scenario)


def test_s59_a_connection_under_the_own_name_is_refused(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        stranger, _ = await connect(ensemble, leader, name=leader)
        await asyncio.sleep(0.1)
        assert "is the name of this node" in stranger.ended
        assert ensemble.leading() == [leader]

    play(scenario)


def test_a_cut_connection_is_dialled_again_and_the_member_rejoins(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        other = next(name for name in ensemble.names if name != leader)
        ensemble.network.cut(leader, other)
        await asyncio.sleep(0.3)
        assert await ensemble.agreed() == leader
        assert [report.cause for report in ensemble.reports(other)][-2] == "connection lost"

    play(scenario)


def test_what_a_server_keeps_does_not_grow_with_the_strangers_that_come_and_go(play: Play) -> None:
    def kept(ensemble: Ensemble, name: str) -> int:
        election = ensemble.election(name)
        assert isinstance(election, FleElection)
        member, connections = election._member, election._connections
        assert member is not None
        parts = [*vars(member).values(), *vars(connections).values(), *vars(member._role).values()]
        return sum(len(part) for part in parts if isinstance(part, dict | set | list))

    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        other = next(name for name in ensemble.names if name != leader)
        ensemble.kill(leader)
        ensemble.kill(next(name for name in ensemble.names if name not in (leader, other)))
        await asyncio.sleep(1.0)  # the last one looks for a leader
        before = kept(ensemble, other)
        for number in range(40):
            _, connection = await connect(ensemble, other, f"stranger {number}")
            connection.send(to_opaque(Greeting(FORMAT, MEMBERS, f"d{number}", number, 0, True)))
            connection.send(to_opaque(Notification(Vote(NOBODY, NOBODY, NOBODY, number))))
            await asyncio.sleep(0.02)
            connection.close("done")
        await asyncio.sleep(0.1)
        assert kept(ensemble, other) <= before + 2

    play(scenario)


def test_only_so_many_strangers_are_connected_at_a_time(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        leader = await led(ensemble)
        strangers = [await connect(ensemble, leader, f"stranger {number}") for number in range(MOST_STRANGERS + 3)]
        await asyncio.sleep(0.1)
        assert [bool(stranger.ended) for stranger, _ in strangers] == [False] * MOST_STRANGERS + [True] * 3
        assert "no members are connected already" in strangers[-1][0].ended
        strangers[0][1].close("done")
        await asyncio.sleep(0.1)
        again, _ = await connect(ensemble, leader, "one more")
        await asyncio.sleep(0.1)
        assert not again.ended
        assert await ensemble.agreed() == leader

    play(scenario)


def test_an_older_copy_of_a_directory_is_not_trusted_by_a_leader_that_knows_only_its_acknowledgement(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        await ensemble.start("meta-1", "meta-3")
        assert await ensemble.agreed() == "meta-3"
        older = dict(ensemble.storages["meta-1"].files)
        await ensemble.election("meta-3").resign()  # the same connections carry the next term
        leader = await ensemble.agreed()
        survivor = "meta-3" if leader == "meta-1" else leader
        ensemble.kill("meta-1")
        ensemble.storages["meta-1"].files = older
        await ensemble.start("meta-1")
        await asyncio.sleep(0.2)
        assert f"server {0} has lost its promises" in caplog.text
        assert survivor in ensemble.running

    play(scenario)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(body: bytes) -> None:
    try:
        message = from_opaque(Opaque(TOPIC, body))
    except MalformedFrame:
        return
    assert from_opaque(to_opaque(message)) == message


# --- identities ------------------------------------------------------------------------------------------------------


class Known:
    """A server's identity on a disk."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        seed: int = 0,
        members: Sequence[str] = MEMBERS,
        weighing: str = "",
    ) -> None:
        self._disk = Disk(storage or MemoryStorage(), "var/meta-1")
        owner = Owner("meta-1", members, weighing)
        accepted = self._disk.read_ledger().accepted_epoch
        self.identity = Identity(self._disk.read_identity(owner, accepted, random.Random(seed)))

    def trusts(self, peer: Greeting) -> bool:
        """As server 2 greets."""
        if not self.identity.trusts(2, peer):
            return False
        self.save(self.identity.remember(2, peer))
        return True

    def save(self, writes: Iterable[SaveIdentity]) -> None:
        for write in writes:
            self._disk.write(write)


def of_directory(directory: str, accepted_epoch: int, admitted_term: int = 0) -> Greeting:
    return Greeting(FORMAT, MEMBERS, directory, accepted_epoch, admitted_term, False)


def test_a_peer_is_trusted_as_long_as_it_keeps_its_directory() -> None:
    storage = MemoryStorage()
    assert Known(storage).trusts(of_directory("d1", 5))
    assert Known(storage).trusts(of_directory("d1", 5))
    assert not Known(storage).trusts(of_directory("d2", 0))


def test_a_new_directory_is_trusted_once_a_leader_has_admitted_it_and_the_old_one_no_more() -> None:
    known = Known()
    assert known.trusts(of_directory("d1", 5))
    assert known.trusts(of_directory("d2", 6, admitted_term=6))
    assert not known.trusts(of_directory("d1", 5))


def test_a_directory_that_was_replaced_is_refused_for_ever() -> None:
    storage = MemoryStorage()
    assert Known(storage).trusts(of_directory("d1", 5))
    assert Known(storage).trusts(of_directory("d2", 6, admitted_term=6))
    assert Known(storage).trusts(of_directory("d3", 6, admitted_term=6))
    again = Known(storage).identity
    for directory in ("d1", "d2"):
        assert "start it with the newer one" in str(again.replaced(2, of_directory(directory, 7, admitted_term=7)))
    assert again.replaced(2, of_directory("d3", 6)) is None
    assert again.replaced(2, of_directory("d4", 0)) is None
    assert "has a copy of the data directory of meta-3" in str(again.replaced(1, of_directory("d1", 5)))


def test_who_has_met_the_newer_directory_itself_learns_all_the_same_which_one_it_replaced() -> None:
    storage = MemoryStorage()
    known = Known(storage)
    assert known.trusts(of_directory("d2", 1, admitted_term=1))
    known.save(known.identity.learn(0, {2: PeerRecord("d2", 1, ["d1"])}))
    again = Known(storage).identity
    assert "start it with the newer one" in str(again.replaced(2, of_directory("d1", 1, admitted_term=1)))
    assert again.replaced(2, of_directory("d2", 1, admitted_term=1)) is None
    assert again.learn(0, {2: PeerRecord("d2", 1, ["d1"])}) == []


def test_a_server_hands_on_which_directories_its_own_one_has_replaced() -> None:
    storage = MemoryStorage()
    replaced = Known(storage, seed=2)
    directory = replaced.identity.greeting(1, False).directory
    replaced.save(replaced.identity.learn(0, {0: PeerRecord("", 1, ["d1"])}))
    replaced.save(replaced.identity.regain_vote(1))
    told = Known(storage).identity.greeting(1, False)
    assert told.known[0].former == ["d1"]
    newcomer = Known(members=MEMBERS, seed=3).identity
    assert newcomer.trusts(0, told)
    newcomer.remember(0, told)
    newcomer.learn(1, told.known)
    assert "start it with the newer one" in str(newcomer.replaced(0, of_directory("d1", 1, admitted_term=1)))
    assert newcomer.knows(0, directory)


@pytest.mark.parametrize(
    ("known", "is_foreign"),
    [
        (None, False),
        (PeerRecord("", 3, ["x1"]), False),
        (PeerRecord("x2", 3, ["x1"]), True),
        (PeerRecord("x2", 3, ["x1", "d0"]), False),
        (PeerRecord("d0", 1), False),
        (PeerRecord("own", 1), False),
        (PeerRecord("newer", 3, ["own"]), False),
    ],
)
@pytest.mark.parametrize("has_vote", [True, False])
def test_who_has_met_this_server_with_none_of_its_directories_is_of_another_cluster(
    known: PeerRecord | None, is_foreign: bool, has_vote: bool
) -> None:
    server = Known().identity
    own = server.greeting(1, False).directory
    server.learn(0, {0: PeerRecord("", 1, ["d0"])})
    if has_vote:
        server.regain_vote(1)
    if known is not None:
        former = [own if each == "own" else each for each in known.former]
        known = PeerRecord(own if known.directory == "own" else known.directory, known.admitted_term, former)
    peer = msgspec.structs.replace(
        of_directory("d1", 5, admitted_term=9), known={0: known} if known is not None else {}
    )
    assert server.is_foreign(0, peer) == (is_foreign and has_vote)


@pytest.mark.parametrize("recovers", [False, True], ids=["usual", "recover_lost_votes"])
@pytest.mark.parametrize("others", [["meta-1", "meta-3"], ["meta-3"], ["meta-1"]], ids=", ".join)
def test_the_directory_of_a_namesake_in_another_cluster_brings_nothing_of_it(
    play: Play, others: list[str], recovers: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def recovering(context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions(data_dir="data", recover_lost_votes=recovers), context)

    foreign: dict[str, bytes] = {}

    async def elsewhere(ensemble: Ensemble) -> None:
        await ensemble.begin()
        await ensemble.start()
        for term in range(4):
            leader = await ensemble.agreed()
            await ensemble.write(leader, "whose", b"staging %d" % term)
            await ensemble.election(leader).resign()
        await asyncio.sleep(1.0)
        foreign.update(ensemble.storages["meta-2"].files)

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        await ensemble.start()
        await ensemble.write(await ensemble.agreed(), "whose", b"prod")
        await asyncio.sleep(0.5)
        for name in MEMBERS:
            ensemble.kill(name)
        own, ensemble.storages["meta-2"].files = ensemble.storages["meta-2"].files, dict(foreign)
        await ensemble.start("meta-2", *others)
        await asyncio.sleep(3.0)
        assert "knows this server by another data directory" in caplog.text
        assert set(ensemble.leading()) <= set(others)
        assert len(ensemble.leading()) == len(others) - 1, "alone they are no quorum"
        ensemble.kill("meta-2")
        ensemble.storages["meta-2"].files = own
        await ensemble.start(*(name for name in MEMBERS if name not in others))
        await ensemble.agreed()
        await asyncio.sleep(0.5)
        for name in MEMBERS:
            held = ensemble.election(name).state.read("whose")
            assert held is not None
            assert held.value == b"prod"

    play(elsewhere, seed=2)
    play(scenario, build=recovering)


def test_only_so_many_replaced_directories_are_remembered() -> None:
    known = Known()
    for number in range(MOST_FORMER + 3):
        assert known.trusts(of_directory(f"d{number}", number + 1, admitted_term=number + 1))
    assert known.identity.replaced(2, of_directory("d1", 9)) is None
    assert known.identity.replaced(2, of_directory("d2", 9)) is not None


def test_an_older_copy_of_a_directory_is_not_trusted() -> None:
    known = Known()
    assert known.trusts(of_directory("d1", 5))
    assert not known.trusts(of_directory("d1", 4))


def test_a_lost_vote_stays_lost_over_a_restart_until_it_is_regained() -> None:
    storage = MemoryStorage()
    known = Known(storage)
    directory = known.identity.greeting(0, False).directory
    known.save(known.identity.lose_vote())
    assert not Known(storage, seed=1).identity.may_vote
    known.save(known.identity.regain_vote(7))
    again = Known(storage, seed=1).identity
    assert again.may_vote
    assert again.greeting(9, False) == Greeting(FORMAT, MEMBERS, directory, 9, 7, False, tells=True)


def test_a_directory_of_other_members_is_refused_and_says_how_to_change_them() -> None:
    storage = MemoryStorage()
    known = Known(storage)
    known.save(known.identity.regain_vote(1))
    with pytest.raises(StorageError, match=r"var/meta-1/identity: .*meta-1, meta-2, meta-3.*names meta-1, meta-9"):
        Known(storage, members=["meta-1", "meta-9"])


def test_a_directory_of_other_weights_is_refused_and_says_how_to_change_them() -> None:
    storage = MemoryStorage()
    known = Known(storage)
    known.save(known.identity.regain_vote(1))
    with pytest.raises(StorageError, match=r"var/meta-1/identity: .*weighed equally.*make it meta-1=2; to change them"):
        Known(storage, weighing="meta-1=2")


def test_one_changed_bit_of_the_identity_is_found() -> None:
    storage = MemoryStorage()
    Known(storage)
    whole = storage.files[IDENTITY]
    for position in range(len(whole)):
        storage.files[IDENTITY] = whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
        with pytest.raises(StorageError, match=r"var/meta-1/identity: .*stop this node"):
            Known(storage)


@pytest.mark.parametrize("seed", range(3))
def test_servers_whose_directories_became_new_one_after_the_other_count_each_other(seed: int) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        await asyncio.sleep(0.3)
        ensemble.kill("meta-2")
        ensemble.storages["meta-2"] = MemoryStorage("meta-2")
        await asyncio.sleep(1.0)
        ensemble.kill("meta-3")
        ensemble.storages["meta-3"] = MemoryStorage("meta-3")
        await ensemble.start("meta-2")
        await asyncio.sleep(0.3)
        ensemble.kill("meta-1")
        ensemble.storages["meta-1"] = MemoryStorage("meta-1")
        await ensemble.start("meta-3")
        await asyncio.sleep(3.0)
        await ensemble.start("meta-1")
        leader = await ensemble.agreed(within_seconds=20.0)
        await asyncio.sleep(30.0)
        ensemble.kill(leader)
        await ensemble.leader(within_seconds=20.0)

    async def main(rng: random.Random) -> None:
        """Everything that was ever stored is lost once, so terms begin anew: the invariants are not checked."""
        async with Ensemble(build, Wires(), MEMBERS, VirtualClock(), rng) as ensemble:
            await scenario(ensemble)

    run(main, seed)
