"""Balancers compared on traces: every (balancer, assigner, trace, size, seed) is a cell, and a task of Spark's."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from slotreeve.errors import ConfigError
from slotreeve.offers import Port
from slotreeve.ports import Assigner, Balancer

from slotreeve_spark import shipping
from slotreeve_spark.compare.cells import CellResult, run_cells
from slotreeve_spark.compare.competition import Criterion
from slotreeve_spark.compare.guard import CellLimits
from slotreeve_spark.compare.replay import Replay, Replayed
from slotreeve_spark.compare.traces import KINDS, MembershipTrace, check, generate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAME = "namesake"
"""As an assigner: the one of the balancer's name if there is one, else ``default``."""

CRITERIA = (
    Criterion("moves", "places that changed hands", rewards_rest=True),
    Criterion("leader_moves", "leaders that changed", rewards_rest=True),
    Criterion("copies", "copies of slots that had to be made", rewards_rest=True),
    Criterion(
        "excess_leader_moves",
        "leaders that changed beyond what an even table costs at least; less: it is uneven",
        rewards_rest=True,
    ),
    Criterion(
        "excess_copies", "copies beyond what an even table costs at least; less: it is uneven", rewards_rest=True
    ),
    Criterion("uneven_share", "farthest distance of a server from its fair share, in fair shares, in the end"),
    Criterion("leader_spread", "most minus fewest leaders by server, in the end"),
    Criterion("follower_spread", "most minus fewest followers by server, in the end"),
    Criterion("load_spread", "load of the busiest server over the mean, in the end"),
    Criterion("worst_leader_spread", "most minus fewest leaders, at worst"),
    Criterion("balance_seconds", "seconds until balanced", rewards_rest=True),
    Criterion("slot_seconds_without_leader", "slots x seconds without a leader"),
    Criterion("unready_slot_seconds", "slots x seconds led by a server without the data"),
    Criterion("decision_ms", "milliseconds a decision", measured=True, rewards_rest=True),
)


@dataclass(frozen=True)
class BalancerQuestion:
    """What is to be compared.

    Attributes:
        balancers, assigners: names; each balancer is played with each assigner (:data:`SAME` is none of its own).
        sizes: (slots, servers) of the clusters; servers count for generated traces only.
        seeds: from 0 on.
        traces: read or recorded ones; empty: the generated ones named in ``kinds``.
        kinds: names of generated traces.
        limits: of one cell.
        options: settings of the balancers; each balancer is played with each of them.
    """

    balancers: tuple[str, ...]
    assigners: tuple[str, ...] = (SAME,)
    sizes: tuple[tuple[int, int], ...] = ((256, 20),)
    replicas: int = 2
    seeds: int = 3
    traces: tuple[MembershipTrace, ...] = ()
    kinds: tuple[str, ...] = tuple(KINDS)
    round_seconds: float = 1.0
    limits: CellLimits = field(default_factory=CellLimits)
    options: tuple[Mapping[str, object], ...] = ({},)

    def __post_init__(self) -> None:
        shipping.must_be_known(Port.BALANCER, self.balancers)
        shipping.must_be_known(Port.ASSIGNER, [name for name in self.assigners if name != SAME])
        if unknown := sorted(set(self.kinds) - KINDS.keys()):
            raise ConfigError(
                f"there is no generated trace {unknown[0]!r}, and no file of that name; there are: {'; '.join(KINDS)}"
            )
        for name, options in itertools.product(self.balancers, self.options):
            shipping.check_options(Port.BALANCER, name, options)
        for trace in self.traces:
            check(trace, f"trace {trace.name!r}")


@dataclass(frozen=True)
class BalancerCell:
    """One task. ``trace`` is the index of a given trace, or the name of a generated one."""

    balancer: str
    options: Mapping[str, object]
    assigner: str
    trace: int | str
    slots: int
    servers: int
    seed: int

    @property
    def competitor(self) -> str:
        """Balancer, assigner if it is not of the same name, and options."""
        name = self.balancer if self.balancer == self.assigner else f"{self.balancer} + {self.assigner}"
        return " ".join([name, *(f"{key}={value}" for key, value in self.options.items())])


@dataclass(frozen=True)
class _Work:
    """What a task does with a cell; goes to the executors."""

    asked: BalancerQuestion = field(repr=False)

    def __call__(self, cell: BalancerCell) -> Replayed:
        assigner = shipping.build(Port.ASSIGNER, cell.assigner, cell.slots, cell.seed)
        balancer = shipping.build(Port.BALANCER, cell.balancer, cell.slots, cell.seed, cell.options)
        assert isinstance(assigner, Assigner)
        assert isinstance(balancer, Balancer)
        trace = (
            self.asked.traces[cell.trace]
            if isinstance(cell.trace, int)
            else generate(cell.trace, cell.servers, cell.seed)
        )
        replay = Replay(assigner, balancer, cell.slots, self.asked.replicas, self.asked.round_seconds)
        return replay.play(trace, cell.seed)


def cells(asked: BalancerQuestion) -> list[BalancerCell]:
    """Every cell of the comparison, in order."""
    traces: Sequence[int | str] = list(range(len(asked.traces))) if asked.traces else list(asked.kinds)
    return [
        BalancerCell(balancer, options, assigner, trace, slots, servers, seed)
        for (slots, servers), trace, seed, (balancer, assigner), options in itertools.product(
            asked.sizes, traces, range(asked.seeds), _pairs(asked), asked.options
        )
    ]


def _pairs(asked: BalancerQuestion) -> list[tuple[str, str]]:
    assigners = set(shipping.installed().names(Port.ASSIGNER))
    pairs = (
        (balancer, (balancer if balancer in assigners else "default") if assigner == SAME else assigner)
        for balancer, assigner in itertools.product(asked.balancers, asked.assigners)
    )
    return list(dict.fromkeys(pairs))


COLUMNS = (
    "competitor string, options string, balancer string, assigner string, plugin string, trace string, "
    "slots int, servers int, replicas int, round_seconds double, seed int, status string, error string, "
    "changes int, leader_moves int, follower_moves int, moves int, copies int, least_leader_moves int, "
    "least_copies int, excess_leader_moves int, excess_copies int, rounds int, longest_rounds int, "
    "balance_seconds double, interrupted int, ended boolean, uneven_share double, "
    "leader_spread int, follower_spread int, load_spread double, "
    "worst_leader_spread int, slot_seconds_without_leader double, unready_slot_seconds double, violations int, "
    "first_violation string, decision_ms double, slowest_decision_ms double, "
    "timeline array<struct<at_seconds: double, moves: int>>"
)
"""Of the results: one row a cell; the figures are :class:`~slotreeve_spark.compare.replay.Replayed`'s. status: ``ok``,
``invalid`` (violations), ``failed`` or ``timed out``; without figures in the last two cases, and error says why."""


def compare(session: SparkSession, asked: BalancerQuestion) -> DataFrame:
    """Play every cell; one row each in the columns of :data:`COLUMNS`. Nothing runs until the frame is used."""
    names = tuple(trace.name for trace in asked.traces)

    def row(cell: BalancerCell, result: CellResult[Replayed]) -> dict[str, object]:
        figures = result.value
        status = "invalid" if figures is not None and figures.violations else result.status
        row: dict[str, object] = {
            "competitor": cell.competitor,
            "options": json.dumps(dict(cell.options)),
            "balancer": cell.balancer,
            "assigner": cell.assigner,
            "plugin": shipping.source_of(Port.BALANCER, cell.balancer),
            "trace": names[cell.trace] if isinstance(cell.trace, int) else cell.trace,
            "slots": cell.slots,
            "servers": len(asked.traces[cell.trace].servers) if isinstance(cell.trace, int) else cell.servers,
            "replicas": asked.replicas,
            "round_seconds": asked.round_seconds,
            "seed": cell.seed,
            "status": status,
            "error": result.error,
        }
        if figures is not None:
            row |= msgspec.structs.asdict(figures)
            row["error"] = figures.first_violation
            row["excess_leader_moves"] = figures.leader_moves - figures.least_leader_moves
            row["excess_copies"] = figures.copies - figures.least_copies
            row["timeline"] = [{"at_seconds": at, "moves": moves} for at, moves in figures.timeline]
        return row

    return run_cells(session, cells(asked), _Work(asked), row, COLUMNS, asked.limits)
