"""The balancers shown in the documentation work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from slotreeve import Limits, Offer, Server, SlotTable
from slotreeve.invariants import check_table
from slotreeve.ports import Balancer
from slotreeve_balancer.even_assigner import EvenAssigner

from tests.balancer.recorded import spread

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_balancer_in_the_manual_is_the_one_of_the_example() -> None:
    example = ROOT / "examples/third_party_balancer/slotreeve_round_table/balancer.py"
    blocks = BLOCK.findall((ROOT / "docs/balancing.md").read_text())
    assert example.read_text() in blocks


def readme_balancer() -> Balancer:
    (text,) = [block for block in BLOCK.findall((ROOT / "README.md").read_text()) if "slotreeve_balancers" in block]
    namespace: dict[str, object] = {}
    exec(text, namespace)
    hook = namespace["slotreeve_balancers"]
    assert callable(hook)
    (offer,) = hook()
    assert isinstance(offer, Offer)
    balancer = offer.build(None, None)  # type: ignore[arg-type]  # it needs neither
    assert isinstance(balancer, Balancer)
    return balancer


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("change", [-1, 1, 2])
def test_the_balancer_in_the_readme_makes_a_good_cluster_whoever_dies_or_joins(
    count: int, replicas: int, change: int
) -> None:
    balancer, assigner = readme_balancer(), EvenAssigner()
    before = [Server(f"data-{number}") for number in range(count)]
    after = before[1:] if change < 0 else [*before, *(Server(f"new-{number}") for number in range(change))]
    first = assigner.assign(SlotTable.unassigned(64), before, Limits(replicas))
    assert first is not None
    second = assigner.assign(first.table, after, Limits(replicas))
    table, steps = first.table if second is None else second.table, 0
    while (plan := balancer.balance(table, after, Limits(replicas))) is not None:
        check_table(plan.table, after, replicas)
        table, steps = plan.table, steps + 1
    least_led, most_led, least_followed, most_followed = spread(table, after)
    assert most_led - least_led <= 1
    assert most_followed - least_followed <= 1
    assert steps <= 10
