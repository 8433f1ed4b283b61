"""Generous limits, several times what is measured (proving/benchmarks/balancing.py): they catch a lost algorithm, not
noise."""

from __future__ import annotations

import time

import pytest
from slotreeve import Limits, Server, SlotTable
from slotreeve.ports import Assigner, Balancer
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.default_balancer import DefaultBalancer
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, DefaultBalancerOptions, EvenBalancerOptions

SERVERS = [Server(f"data-{number:04}") for number in range(1_100)]


@pytest.mark.parametrize(
    ("assigner", "balancer"),
    [
        (DefaultAssigner(DefaultAssignerOptions()), DefaultBalancer(DefaultBalancerOptions(), demoted_follows=True)),
        (EvenAssigner(), EvenBalancer(EvenBalancerOptions())),
    ],
    ids=["default", "even"],
)
def test_a_thousand_servers_are_assigned_and_a_hundred_more_balanced_in_seconds(
    assigner: Assigner, balancer: Balancer
) -> None:
    started = time.perf_counter()
    plan = assigner.assign(SlotTable.unassigned(16_384), SERVERS[:1_000], Limits(3))
    assert time.perf_counter() - started < 3
    started = time.perf_counter()
    while plan is not None:
        table = plan.table
        plan = balancer.balance(table, SERVERS, Limits(3))
    assert time.perf_counter() - started < 6
