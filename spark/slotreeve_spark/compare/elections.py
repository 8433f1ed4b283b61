"""Elections compared in simulation: every (back-end, nodes, scenario, seed) is a cell on virtual time of its own.

A cell starts an ensemble, then takes the leader away several times. Back-ends are installed elections that talk over
the memory transport, and ``lock``: the lock election on a table in memory, whose database is never down.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from slotreeve.errors import ConfigError
from slotreeve.offers import Port

from slotreeve_spark import shipping
from slotreeve_spark.compare.cells import CellResult, run_cells
from slotreeve_spark.compare.competition import Criterion
from slotreeve_spark.compare.guard import CellLimits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from slotreeve_conformance.election_backend import ElectionBackend
    from slotreeve_conformance.ensemble import Ensemble

LOCK = "lock"
LONGEST_FAIL_OVER_SECONDS = 60.0
CALM_SECONDS = 1.0
SCENARIOS = ("killed", "frozen", "cut off", "resigned")
"""How the leader is taken away. Frozen and cut off it comes back as soon as another leads, killed it is restarted."""

CRITERIA = (
    Criterion("elect_seconds", "seconds until the first leader"),
    Criterion("fail_over_seconds", "seconds without a leader after it was taken away, mean"),
    Criterion("longest_seconds", "the longest of these"),
    Criterion("unavailable_share", "share of the whole time without a leader"),
    Criterion("leaders", "changes of leader for each that was asked for"),
    Criterion("messages", "packets (fle) or statements (lock) a second"),
)


class Elected(msgspec.Struct):
    """What came of one cell. Seconds are virtual, the same on every run.

    Attributes:
        elect_seconds: from the start of all nodes until one leads.
        fail_over_seconds, longest_seconds: from the loss of the leader until another leads, mean and longest.
        fail_overs: each of them.
        unavailable_share: of the whole run, the time without a leader.
        leaders: terms with a leader, for each one that was needed; 1 is ideal.
        messages: packets on the network and statements at the database, for each virtual second.
        violations: broken invariants (I1, I2, I3). first_violation: what was seen.
    """

    elect_seconds: float = 0.0
    fail_over_seconds: float = 0.0
    longest_seconds: float = 0.0
    fail_overs: list[float] = []
    unavailable_share: float = 0.0
    leaders: float = 0.0
    messages: float = 0.0
    violations: int = 0
    first_violation: str | None = None


@dataclass(frozen=True)
class ElectionQuestion:
    """What is to be compared.

    Attributes:
        backends: names of installed elections, or ``lock``.
        nodes: sizes of ensembles.
        scenarios: of :data:`SCENARIOS`.
        seeds: from 0 on.
        rounds: how often a leader is taken away in a cell.
        options: a back-end's options, by its name.
        limits: of one cell.
    """

    backends: tuple[str, ...]
    nodes: tuple[int, ...] = (3,)
    scenarios: tuple[str, ...] = SCENARIOS
    seeds: int = 3
    rounds: int = 10
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    limits: CellLimits = field(default_factory=CellLimits)

    def __post_init__(self) -> None:
        shipping.must_be_known(Port.ELECTION, [name for name in self.backends if name != LOCK])
        if unknown := sorted(set(self.scenarios) - set(SCENARIOS)):
            raise ConfigError(f"there is no scenario {unknown[0]!r}; there are: {', '.join(SCENARIOS)}")
        if min(self.nodes, default=0) < 2:
            raise ConfigError("--nodes: an ensemble whose leader is taken away has at least 2 nodes")


@dataclass(frozen=True)
class ElectionCell:
    """One task."""

    backend: str
    nodes: int
    scenario: str
    seed: int


def cells(asked: ElectionQuestion) -> list[ElectionCell]:
    """Every cell of the comparison, in order."""
    return [
        ElectionCell(backend, nodes, scenario, seed)
        for nodes, scenario, seed, backend in itertools.product(
            asked.nodes, asked.scenarios, range(asked.seeds), asked.backends
        )
    ]


COLUMNS = (
    "competitor string, plugin string, nodes int, scenario string, seed int, rounds int, status string, error string, "
    "elect_seconds double, fail_over_seconds double, longest_seconds double, fail_overs array<double>, "
    "unavailable_share double, leaders double, messages double, violations int, first_violation string"
)
"""Of the results: one row a cell; the figures are :class:`Elected`'s, status and error as for balancers."""


def compare(session: SparkSession, asked: ElectionQuestion) -> DataFrame:
    """Run every cell; one row each in the columns of :data:`COLUMNS`. Nothing runs until the frame is used."""

    def row(cell: ElectionCell, result: CellResult[Elected]) -> dict[str, object]:
        figures = result.value
        row: dict[str, object] = {
            "competitor": cell.backend,
            "plugin": _plugin(cell.backend),
            "nodes": cell.nodes,
            "scenario": cell.scenario,
            "seed": cell.seed,
            "rounds": asked.rounds,
            "status": "invalid" if figures is not None and figures.violations else result.status,
            "error": result.error,
        }
        if figures is not None:
            row |= msgspec.structs.asdict(figures)
            row["error"] = figures.first_violation
        return row

    work = functools.partial(simulate, rounds=asked.rounds, options=asked.options)
    return run_cells(session, cells(asked), work, row, COLUMNS, asked.limits)


def _plugin(backend: str) -> str:
    if backend == LOCK:
        return f"slotreeve {importlib.metadata.version('slotreeve')}, simulated table"
    return shipping.source_of(Port.ELECTION, backend)


def simulate(cell: ElectionCell, rounds: int, options: Mapping[str, Mapping[str, object]]) -> Elected:
    """Play one cell to its end.

    Raises:
        PluginError: the back-end cannot be built.
        AssertionError: there was no leader within a virtual minute.
    """
    from slotreeve_conformance.ensemble import Ensemble

    backend = _backend(cell.backend, options.get(cell.backend, {}))
    traffic, found = _Traffic(), Elected()

    async def main(rng: random.Random) -> None:
        began = asyncio.get_running_loop().time()
        store = await backend.open_store()
        network = backend.network()
        traffic.count(network)
        names = [f"meta-{number}" for number in range(1, cell.nodes + 1)]
        async with Ensemble(backend.build, network, names, backend.clock(), rng, backend.died) as ensemble:
            await _play(ensemble, cell.scenario, rounds, rng, found)
            seconds = asyncio.get_running_loop().time() - began
            found.messages = (traffic.packets + _statements(backend)) / seconds
            found.unavailable_share = (found.elect_seconds + sum(found.fail_overs)) / seconds
            try:
                ensemble.check()
            except AssertionError as error:
                found.violations += len(str(error).split("; "))
                found.first_violation = str(error).split("; ")[0]
        if store is not None:
            await store.close()

    backend.run(main, cell.seed)
    return found


async def _play(ensemble: Ensemble, scenario: str, rounds: int, rng: random.Random, found: Elected) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await ensemble.start()
    await ensemble.leader(within_seconds=LONGEST_FAIL_OVER_SECONDS)
    found.elect_seconds = loop.time() - began
    terms = set[int]()
    for number in range(rounds):
        old = await ensemble.agreed(within_seconds=LONGEST_FAIL_OVER_SECONDS)
        await ensemble.write(old, "round", b"%d" % number)
        await asyncio.sleep(CALM_SECONDS + rng.uniform(0.0, CALM_SECONDS))
        old = await ensemble.agreed(within_seconds=LONGEST_FAIL_OVER_SECONDS)
        others = [name for name in ensemble.names if name != old]
        terms |= _terms(ensemble)
        lost = loop.time()
        await _take_away(ensemble, scenario, old, others)
        await ensemble.leader(among=others, within_seconds=LONGEST_FAIL_OVER_SECONDS)
        found.fail_overs.append(loop.time() - lost)
        await _bring_back(ensemble, scenario, old)
    terms |= _terms(ensemble)
    found.leaders = len(terms) / (rounds + 1)
    found.fail_over_seconds = sum(found.fail_overs) / rounds
    found.longest_seconds = max(found.fail_overs)


async def _take_away(ensemble: Ensemble, scenario: str, leader: str, others: list[str]) -> None:
    if scenario == "killed":
        ensemble.kill(leader)
    elif scenario == "frozen":
        ensemble.freeze(leader)
    elif scenario == "cut off":
        ensemble.network.partition([leader], others)
    else:
        await ensemble.election(leader).resign()


async def _bring_back(ensemble: Ensemble, scenario: str, leader: str) -> None:
    if scenario == "killed":
        await ensemble.start(leader)
    elif scenario == "frozen":
        ensemble.thaw(leader)
    elif scenario == "cut off":
        ensemble.network.heal()


def _terms(ensemble: Ensemble) -> set[int]:
    return {r.term for name in ensemble.running for r in ensemble.reports(name) if r.leader is not None}


class _Traffic:
    """Counts packets, by way of the delay that the network asks for each."""

    def __init__(self) -> None:
        self.packets = 0

    def count(self, network: object) -> None:
        delay = network.delay_seconds  # type: ignore[attr-defined]

        def counted(source: str, target: str) -> float:
            self.packets += 1
            seconds: float = delay(source, target)
            return seconds

        network.delay_seconds = counted  # type: ignore[attr-defined]


def _statements(backend: ElectionBackend) -> int:
    database = getattr(backend, "database", None)
    return int(database.statements) if database is not None else 0


def _backend(name: str, options: Mapping[str, object]) -> ElectionBackend:
    """An installed election on the memory transport, or the lock election on a simulated table."""
    from slotreeve_conformance.election_backend import InstalledBackend

    if name == LOCK:
        from slotreeve_spark.compare.lock_backend import LockBackend

        return LockBackend()
    backend = InstalledBackend()
    backend.name, backend.options = name, options
    return backend
