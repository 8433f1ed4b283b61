"""The balancers shown in the documentation work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

from slotreeve import Limits, Offer, Server, Slot, SlotTable
from slotreeve.invariants import check_table
from slotreeve.ports import Balancer

from tests.balancer.recorded import spread

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_the_balancer_in_the_manual_is_the_one_of_the_example() -> None:
    example = ROOT / "examples/third_party_balancer/slotreeve_round_table/balancer.py"
    blocks = BLOCK.findall((ROOT / "docs/balancing.md").read_text())
    assert example.read_text() in blocks


def test_the_balancer_in_the_readme_ends_even_and_stays_valid() -> None:
    (text,) = [block for block in BLOCK.findall((ROOT / "README.md").read_text()) if "slotreeve_balancers" in block]
    namespace: dict[str, object] = {}
    exec(text, namespace)
    hook = namespace["slotreeve_balancers"]
    assert callable(hook)
    (offer,) = hook()
    assert isinstance(offer, Offer)
    balancer = offer.build(None, None)  # type: ignore[arg-type]  # it needs neither
    assert isinstance(balancer, Balancer)
    servers = [Server(name) for name in "abcd"]
    table = SlotTable(1, tuple(Slot(number, "a", 1, ("b", "c")) for number in range(16)))
    while (plan := balancer.balance(table, servers, Limits(3))) is not None:
        check_table(plan.table, servers, 3)
        table = plan.table
    assert spread(table, servers)[:2] == [4, 4]
