"""Which messages take a vote from a server, and how a cluster recovers that has lost too many directories."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
import slotreeve_election_fle
from slotreeve.errors import ConfigError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Context, Election, Hello
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.election import FleElection
from slotreeve_election_fle.messages import FORMAT, Distrust, Greeting, to_opaque
from slotreeve_machines.storage import MemoryStorage

from tests.election_fle.test_fle_peers import Stranger

Play = Callable[..., None]
MEMBERS = ["meta-1", "meta-2", "meta-3"]
OBSERVER = Greeting(FORMAT, MEMBERS, "d", 0, 0, True)
VOTER = Greeting(FORMAT, MEMBERS, "d", 0, 0, False)


def built(**options: object) -> Callable[[Context], Election]:
    def build(context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions.model_validate(options), context)

    return build


def votes(ensemble: Ensemble, name: str) -> bool:
    election = ensemble.election(name)
    assert isinstance(election, FleElection)
    assert election._member is not None
    return election._member._votes


def greeting_of(ensemble: Ensemble, name: str) -> Greeting:
    election = ensemble.election(name)
    assert isinstance(election, FleElection)
    assert election._member is not None
    return election._member._identity.greeting(election._member._ledger.accepted_epoch, False)


async def connection_as(ensemble: Ensemble, to: str, name: str) -> Connection:
    transport = ensemble.network.transport(VirtualClock(), f"endpoint of {name}")
    hello = Hello("ensemble", name, Role.META, f"{name}@1")
    return await transport.connect(f"{to}:7712", hello, Stranger(), 1.0)


@pytest.mark.parametrize("is_led", [True, False], ids=["in a led cluster", "alone"])
@pytest.mark.parametrize(
    ("name", "greeting"),
    [("stranger", OBSERVER), ("stranger", VOTER), ("stranger", None), ("meta-3", None)],
    ids=["an observer", "a stranger that claims to vote", "a stranger without a greeting", "a voter without one"],
)
def test_only_a_voter_that_has_greeted_takes_a_servers_vote(
    play: Play, is_led: bool, name: str, greeting: Greeting | None
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        await ensemble.start("meta-1", *["meta-2"] * is_led)
        await asyncio.sleep(1.0)
        connection = await connection_as(ensemble, "meta-1", name)
        if greeting is not None:
            connection.send(to_opaque(greeting))
        connection.send(to_opaque(Distrust("because")))
        await asyncio.sleep(0.1)
        assert votes(ensemble, "meta-1")

    play(scenario)


def test_a_voter_takes_the_vote_of_a_server_that_looks_for_a_leader_but_ends_no_leadership(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.agreed()
        greeting = greeting_of(ensemble, "meta-2")
        for name in ensemble.names:
            ensemble.kill(name)
        await ensemble.start("meta-1")
        connection = await connection_as(ensemble, "meta-1", "meta-2")
        connection.send(to_opaque(greeting))
        connection.send(to_opaque(Distrust("because")))
        await asyncio.sleep(0.1)
        assert not votes(ensemble, "meta-1")
        connection.close("done")
        await ensemble.start("meta-2", "meta-3")
        assert await ensemble.agreed() == "meta-3"
        await asyncio.sleep(0.5)
        assert votes(ensemble, "meta-1")  # the leader has admitted it
        connection = await connection_as(ensemble, "meta-1", "meta-2")
        connection.send(to_opaque(greeting_of(ensemble, "meta-2")))
        connection.send(to_opaque(Distrust("because")))
        await asyncio.sleep(1.0)
        assert votes(ensemble, "meta-1")
        assert ensemble.leading() == ["meta-3"]

    play(scenario)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("leader_dies", [True, False])
def test_two_of_three_that_keep_nothing_on_disk_are_restarted_and_the_survivors_state_lives_on(
    play: Play, leader_dies: bool, seed: int
) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        await ensemble.write(leader, "k", b"v")
        await asyncio.sleep(0.2)
        term = ensemble.election(leader).leadership().term
        survivor = next(name for name in ensemble.names if (name != leader) is leader_dies)
        victims = [name for name in ensemble.names if name != survivor]
        for name in victims:
            ensemble.kill(name)
        await asyncio.sleep(random.Random(seed).choice([0.0, 0.1, 1.0]))
        await ensemble.start(*victims)
        again = await ensemble.agreed(within_seconds=6.0)
        assert ensemble.election(again).leadership().term > term
        for name in ensemble.names:
            held = ensemble.election(name).state.read("k")
            assert held is not None
            assert held.value == b"v"
        await ensemble.write(again, "k", b"w")
        await asyncio.sleep(3.0)
        assert all(votes(ensemble, name) for name in ensemble.names)
        ensemble.kill("meta-1")  # no server is needed for ever
        await ensemble.leader(within_seconds=3.0)

    play(scenario, seed=seed, build=built(ephemeral=True))


@pytest.mark.parametrize("recovers", [True, False])
def test_an_operator_lets_servers_vote_that_have_lost_their_directories(play: Play, recovers: bool) -> None:
    build = [built(data_dir="data")]

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        await ensemble.write(await ensemble.agreed(), "k", b"v")
        await asyncio.sleep(0.2)
        for name in ensemble.names:
            ensemble.kill(name)
            if name != "meta-1":
                ensemble.storages[name] = MemoryStorage(name)
        build[0] = built(data_dir="data", recover_lost_votes=recovers)
        await ensemble.start()
        if not recovers:
            await asyncio.sleep(10.0)
            assert not ensemble.leading()
            return
        await ensemble.agreed(within_seconds=6.0)
        await asyncio.sleep(3.0)
        for name in ensemble.names:
            ensemble.kill(name)
        build[0] = built(data_dir="data")  # the option is for one restart
        await ensemble.start()
        leader = await ensemble.agreed()
        held = ensemble.election(leader).state.read("k")
        assert held is not None
        assert held.value == b"v"

    play(scenario, build=lambda context: build[0](context))


def test_lost_votes_do_not_count_while_a_voter_is_missing(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.start()
        leader = await ensemble.agreed()
        first, second = (name for name in ensemble.names if name != leader)
        ensemble.network.partition([leader], [first, second])
        ensemble.kill(first)
        ensemble.storages[first] = MemoryStorage(first)
        await ensemble.start(first)
        await asyncio.sleep(5.0)
        assert ensemble.leading() == []
        ensemble.network.heal()
        await ensemble.agreed()

    play(scenario, build=built(data_dir="data", recover_lost_votes=True))


def test_several_meta_servers_without_a_directory_are_refused_unless_that_is_meant(play: Play) -> None:
    async def scenario(ensemble: Ensemble) -> None:
        with pytest.raises(ConfigError, match=r"election\.fle\.data_dir: is not set.*ephemeral = true"):
            await ensemble.start("meta-1")

    play(scenario, build=built())
    play(lambda ensemble: ensemble.start("meta-1"), nodes=1, build=built())
    play(lambda ensemble: ensemble.start("meta-1"), build=built(ephemeral=True))
