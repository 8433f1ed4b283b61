"""Meta servers with two elections that the test sets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from slotreeve.errors import (
    ElectionError,
    PluginError,
    SlotreeveError,
    StaleTerm,
    StorageError,
    VersionConflict,
)
from slotreeve.ports import Election, Leadership, Message
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import SwapOrder, SwapStep
from slotreeve_servers.meta.swap.election_in_use import ElectionInUse
from slotreeve_servers.meta.swap.swap import Swap
from slotreeve_servers.meta.swap.swap_steps import SwapSteps
from slotreeve_servers.node.supervisor import Supervisor

from tests.servers.scripted_election import ScriptedElection, ScriptedState


class FencedState(ScriptedState):
    """As scripted, but a write needs the term of its election and the version that it expects."""

    def __init__(self, election: FencedElection) -> None:
        super().__init__()
        self._election = election
        self.failure: SlotreeveError | None = None

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if term != self._election.current.term:
            raise StaleTerm(f"{term} is not {self._election.current.term}")
        found = self.values.get(key)
        if expected_version is not None and expected_version != (found.version if found else 0):
            raise VersionConflict(f"{key}: not {expected_version}")
        return self.store(key, value, term).version


class FencedElection(ScriptedElection):
    """An election in which this node leads in a term, once it was started."""

    def __init__(self, term: int) -> None:
        super().__init__()
        self._state = FencedState(self)
        self._term = term
        self.is_stopped = False
        self.trial = ""

    @property
    def state(self) -> FencedState:
        assert isinstance(self._state, FencedState)
        return self._state

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        self.current = Leadership("meta-1", self._term, True, float("inf"), "elected")
        changed(self.current)

    async def stop(self) -> None:
        self.is_stopped = True

    async def try_out(self) -> str:
        if self.trial:
            raise StorageError(self.trial)
        return "good"


class TwoElections:
    """Implements BackEnds: ``new`` is built from the script, as often as it is asked for."""

    def __init__(self) -> None:
        self.new = FencedElection(3)
        self.failure: SlotreeveError | None = None

    def build(self, name: str) -> Election:
        if self.failure is not None:
            raise self.failure
        if name != "new":
            raise PluginError(f"no election {name}")
        return self.new

    def names(self) -> Sequence[str]:
        return ["new", "old"]


class Followers:
    """Implements the other meta servers of a swap: they take orders, or refuse steps."""

    def __init__(self) -> None:
        self.names = ["meta-2"]
        self.orders: list[SwapOrder] = []
        self.refused: SwapStep | None = None

    async def ask(self, name: str, message: Message, seconds: float) -> Message:
        assert isinstance(message, SwapOrder)
        self.orders.append(message)
        if message.step is self.refused:
            raise ElectionError(f"{name}: refused")
        return Done()

    @property
    def steps(self) -> list[SwapStep]:
        return [order.step for order in self.orders]


class Scene:
    """The leader of the election ``old`` in term 7, which can go over to ``new``."""

    def __init__(self) -> None:
        self.clock, self.old, self.elections, self.others = (
            VirtualClock(),
            FencedElection(7),
            TwoElections(),
            Followers(),
        )
        self.supervisor = Supervisor(self.clock)
        self.election = ElectionInUse("old", self.old, self.elections, self.clock, self.supervisor)
        self.steps = SwapSteps(self.election, self.clock)
        self.swap = Swap("meta-1", self.election, self.steps, self.others, self.clock)
        self.reported: list[Leadership] = []

    @property
    def new(self) -> FencedElection:
        return self.elections.new


def play(story: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(_rng: random.Random) -> None:
        scene = Scene()
        await scene.election.start(scene.reported.append)
        await story(scene)
        await scene.election.stop()
        assert not scene.supervisor.failures
        await scene.supervisor.stop()

    run(main)
