"""How fast assigners and balancers are, and how much they move: ``python proving/benchmarks/balancing.py``.

Prints one JSON object: the parameters, and for each plugin the medians of some runs. A fresh assignment, then a tenth
more servers balanced in to the end; all time is computing, for nothing is copied here.
"""

from __future__ import annotations

import argparse
import functools
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from slotreeve import Limits, Plan, Server, SlotTable
from slotreeve.ports import Assigner, Balancer
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.default_balancer import DefaultBalancer
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, DefaultBalancerOptions, EvenBalancerOptions
from slotreeve_cli.scenarios import spread

T = TypeVar("T")
SIZES = [(256, 2, 10), (1_024, 3, 100), (16_384, 3, 1_000)]
"""Slots, replicas, servers at first; the recorded times of the original are for these."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    figures = []
    for slots, replicas, count in SIZES:
        servers = [Server(f"data-{number:04}") for number in range(count + count // 10)]
        for name, assigner, balancer in plugins():
            figures.append(
                {
                    "plugin": name,
                    "slots": slots,
                    "replicas": replicas,
                    "servers": count,
                    "added": count // 10,
                }
                | measured(assigner, balancer, SlotTable.unassigned(slots), servers, count, Limits(replicas), runs)
            )
    print(json.dumps({"runs": runs, "python": platform.python_version(), "figures": figures}, indent=1))


def plugins() -> list[tuple[str, Assigner, Balancer]]:
    default = DefaultAssigner(DefaultAssignerOptions())
    return [
        ("default, as the original", default, DefaultBalancer(DefaultBalancerOptions(), demoted_follows=False)),
        ("default, on a server", default, DefaultBalancer(DefaultBalancerOptions(), demoted_follows=True)),
        ("even", EvenAssigner(), EvenBalancer(EvenBalancerOptions())),
    ]


def measured(
    assigner: Assigner,
    balancer: Balancer,
    empty: SlotTable,
    servers: list[Server],
    count: int,
    limits: Limits,
    runs: int,
) -> dict[str, object]:
    assign_seconds, balance_seconds = list[float](), list[float]()
    for _ in range(runs):
        seconds, assigned = timed(lambda: assigner.assign(empty, servers[:count], limits))
        assert assigned is not None
        assign_seconds.append(seconds)
        seconds, plans = timed(functools.partial(balanced, balancer, assigned.table, servers, limits))
        balance_seconds.append(seconds)
    moves = [move for plan in plans for move in plan.moves]
    return {
        "assign_seconds": round(statistics.median(assign_seconds), 4),
        "balance_seconds": round(statistics.median(balance_seconds), 4),
        "steps": len(plans),
        "leader_moves": sum(move.kind == "leader" for move in moves),
        "follower_moves": sum(move.kind == "follower" and move.source is not None for move in moves),
        "spread": spread(plans[-1].table, servers),
    }


def balanced(balancer: Balancer, table: SlotTable, servers: list[Server], limits: Limits) -> list[Plan]:
    plans: list[Plan] = []
    while (plan := balancer.balance(table, servers, limits)) is not None:
        plans.append(plan)
        table = plan.table
    return plans


def timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


if __name__ == "__main__":
    main()
