"""Peers that are no voters say whatever they like: nothing of it counts, and no server loses its vote or its state."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import pytest
import slotreeve_election_fle
from msgspec.structs import replace
from slotreeve.errors import TransportError
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Context, Election, Hello
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.simulated import seeds
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.messages import (
    Admitted,
    AtWork,
    Commit,
    Distrust,
    EpochAck,
    FleMessage,
    FollowerInfo,
    LeaderInfo,
    NewLeader,
    NewLeaderAck,
    Notification,
    NotLeading,
    PeerPing,
    PeerPong,
    Propose,
    ProposeAck,
    SendWhole,
    StoodDown,
    SyncPart,
    SyncProgress,
    to_opaque,
)
from slotreeve_election_fle.vote import State, Vote

from tests.election_fle.soak.test_fle_chaos import QUIET_SECONDS, survive
from tests.election_fle.test_fle_lost_votes import greeting_of, votes
from tests.election_fle.test_fle_peers import Stranger

Play = Callable[..., None]
NO_MEMBER, MEMBER = "stranger", "meta-3"
QUIET_OF_A_NAMESAKE = 30.0
"""Whoever has a member's name takes that member's place at one server after the other, so that it is late."""


class LoudStranger:
    """Connects to one server after the other under ``name``, and sends messages of every kind with numbers that fit
    the present epoch, or are far ahead of it. ``greets``: it says first that it is an observer of these members.

    Attributes:
        sent: number of messages.
        without_vote: the servers whose votes did not count at some moment.
    """

    def __init__(self, ensemble: Ensemble, name: str, greets: bool, rng: random.Random) -> None:
        self._ensemble, self._name, self._greets, self._rng = ensemble, name, greets, rng
        self._transport = ensemble.network.transport(VirtualClock(), f"endpoint of a loud {name}")
        self.sent = 0
        self.without_vote: set[str] = set()

    async def talk(self) -> None:
        """Go on until cancelled."""
        while True:
            with suppress(TransportError):
                await self._visit(self._rng.choice(self._ensemble.names))
            await asyncio.sleep(self._rng.choice([0.001, 0.01, 0.1]))

    async def _visit(self, server: str) -> None:
        hello = Hello("ensemble", self._name, Role.META, f"{self._name}@1")
        connection = await self._transport.connect(f"{server}:7712", hello, Stranger(), 1.0)
        if self._greets and server in self._ensemble.running:  # it may have been killed meanwhile
            greeting = greeting_of(self._ensemble, server)
            self._say(connection, replace(greeting, directory="d", accepted_epoch=self._number(), observer=True))
        for _ in range(self._rng.randrange(30)):
            self._say(connection, self._message())
            await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.001, 0.05]))
            self.without_vote.update(name for name in self._ensemble.running if not votes(self._ensemble, name))
        if self._rng.random() < 0.5:
            connection.close("done")

    def _say(self, connection: Connection, message: FleMessage) -> None:
        connection.send(to_opaque(message))
        self.sent += 1

    def _number(self) -> int:
        epochs = [self._ensemble.election(name).leadership().term for name in self._ensemble.running] or [0]
        return max(epochs) + self._rng.choice([-1, 0, 0, 1, 2, 1_000])

    def _message(self) -> FleMessage:
        epoch, number = max(0, self._number()), self._rng.randrange(5)
        zxid = (epoch << 32) + number
        sid = self._rng.randrange(1, len(self._ensemble.names) + 2)
        messages: list[FleMessage] = [
            Distrust("because"),
            Distrust("because"),
            Notification(Vote(sid, zxid, epoch, number, self._rng.choice(list(State)))),
            FollowerInfo(number, epoch, True),
            LeaderInfo(number, epoch),
            EpochAck(number, epoch, True, epoch, zxid),
            SyncPart(number, epoch, [], []),
            NewLeader(number, epoch, True, zxid, 0, zxid, 0),
            NewLeaderAck(number, epoch, zxid),
            SendWhole(number, epoch),
            Propose(epoch, zxid, []),
            ProposeAck(epoch, zxid),
            Commit(epoch, zxid),
            PeerPing(epoch, number),
            PeerPong(epoch, number),
            StoodDown(epoch, "because"),
            NotLeading(number),
            Admitted(number, epoch),
            AtWork(number),
            SyncProgress(number, epoch, number),
        ]
        return self._rng.choice(messages)


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize(
    ("name", "greets"),
    [(NO_MEMBER, True), (NO_MEMBER, False), (MEMBER, False)],
    ids=["an observer", "a stranger without a greeting", "a member's name without a greeting"],
)
def test_loud_strangers_break_no_invariant_and_take_no_vote_under_random_faults(
    play: Play, name: str, greets: bool, seed: int
) -> None:
    options = FleOptions(data_dir="data", snapshot_every_writes=20, weights={"meta-5": 0})

    def build(context: Context) -> Election:
        return slotreeve_election_fle.build(options, context)

    async def scenario(ensemble: Ensemble) -> None:
        await ensemble.begin()
        stranger = LoudStranger(ensemble, name, greets, random.Random(seed))
        talking = asyncio.get_running_loop().create_task(stranger.talk())
        await survive(ensemble, seed, QUIET_OF_A_NAMESAKE if name == MEMBER else QUIET_SECONDS)
        assert not talking.done()
        talking.cancel()
        assert stranger.sent > 100
        assert not stranger.without_vote

    play(scenario, nodes=5, seed=seed, build=build)
