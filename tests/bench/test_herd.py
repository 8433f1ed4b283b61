"""What a herd publishes and watches."""

from __future__ import annotations

from slotreeve_bench.herd import HerdPlan


def test_the_clients_of_a_herd_share_the_services_evenly() -> None:
    plan = HerdPlan(clients=100, registrations=10, subscriptions=10)
    published = [name for number in range(plan.clients) for name in plan.publishes(number)]
    assert len(published) == plan.published == 1000
    assert {published.count(name) for name in set(published)} == {20}
    assert all(len(set(plan.watches(number))) == 10 for number in range(plan.clients))
