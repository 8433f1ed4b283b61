"""Which instance a request of a framework goes to, and what the SDK imports of frameworks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from random import Random

import pytest
from slotreeve_client import Health, Instance, Provider, RoundRobin, WeightedRandom
from slotreeve_client.routes import Route
from slotreeve_client.selection import ProviderSource
from slotreeve_protocol.envelope import encode_instance


class FixedSource:
    def __init__(self, *instances: Instance | None) -> None:
        self.changes = 1
        self.instances = tuple(
            Provider(f"{n}", "", (b"bytes" if each is None else encode_instance(each),))
            for n, each in enumerate(instances)
        )


def weighted(source: ProviderSource) -> WeightedRandom:
    return WeightedRandom(source, Random(1))


def order(route: Route) -> Sequence[str]:
    tried: list[str] = []
    while (provider := route.choose(tried)) is not None:
        tried.append(provider.register_id)
    return tried


@pytest.mark.parametrize("make", [weighted, lambda source: RoundRobin(source, Random(1))])
def test_each_instance_that_gets_traffic_is_tried_once_whatever_its_weight(make: object) -> None:
    assert callable(make)
    source = FixedSource(*(Instance("10.0.0.1", 80 + n, weight=weight) for n, weight in enumerate((0, 1, 60_000, 1))))
    for _ in range(50):
        assert sorted(order(Route(source, "http", make))) == ["1", "2", "3"]


def test_only_instances_of_the_scheme_or_of_none_that_have_a_port_are_chosen() -> None:
    source = FixedSource(
        Instance("10.0.0.1", 80, scheme="http"),
        Instance("10.0.0.2", 443, scheme="https"),
        Instance("10.0.0.3", 80),
        Instance("10.0.0.4", 0, scheme="http"),
        None,
        Instance("10.0.0.5", 80, scheme="http", health=Health.CRITICAL),
    )
    assert sorted(order(Route(source, "http", weighted))) == ["0", "2", "5"], "health is for the filter before it"
    assert sorted(order(Route(source, "https", weighted))) == ["1", "2"]


def test_the_client_imports_no_framework_and_slotreeve_testing_no_spark_and_no_hypothesis() -> None:
    lines = (
        "import sys, slotreeve_client\n"
        "tops = lambda: {name.partition('.')[0] for name in sys.modules}\n"
        "assert not tops() & {'httpx', 'grpc', 'starlette', 'uvicorn'}, tops()\n"
        "import slotreeve_client.asgi_registration\n"
        "assert not tops() & {'httpx', 'grpc', 'starlette', 'uvicorn'}, tops()\n"
        "import slotreeve_testing\n"
        "assert not tops() & {'pyspark', 'hypothesis', 'pandas', 'numpy', 'pytest', 'httpx', 'grpc'}, tops()\n"
    )
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
