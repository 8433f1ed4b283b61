"""Choosers, against choosers that look at all providers each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_client.choosers import Chooser, RoundRobin, WeightedRandom, ZoneFirst
from slotreeve_client.provider import Provider
from slotreeve_protocol.instance import Instance

from tests.client.selections import PROVIDERS, Service, provider

STATES = st.lists(PROVIDERS, min_size=1, max_size=4)
SEEDS = st.integers(0, 99)


def weight(one: Provider) -> int:
    return one.instance.weight if one.instance is not None else 100


def with_traffic(providers: Sequence[Provider]) -> list[Provider]:
    return list(providers) if all(weight(one) == 0 for one in providers) else [one for one in providers if weight(one)]


def dumb_weighted(providers: Sequence[Provider], rng: random.Random) -> Provider | None:
    pool = [one for one in with_traffic(providers) for _ in range(weight(one) or 1)]
    return pool[rng.randrange(len(pool))] if pool else None


def dumb_zone_first(providers: Sequence[Provider], rng: random.Random, enough: int) -> Provider | None:
    near = [one for one in with_traffic(providers) if one.zone == "east"]
    return dumb_weighted(near if len(near) >= enough else with_traffic(providers), rng)


@given(STATES, SEEDS)
def test_weighted_random_chooses_what_the_dumb_one_chooses(states: list[tuple[Provider, ...]], seed: int) -> None:
    service, twin = Service(), random.Random(seed)
    chooser = WeightedRandom(service, random.Random(seed))
    for state in states:
        service.become(state)
        for _ in range(9):
            assert chooser.choose() == dumb_weighted(state, twin)


@given(STATES, SEEDS, st.integers(1, 3))
def test_zone_first_chooses_what_the_dumb_one_chooses(
    states: list[tuple[Provider, ...]], seed: int, enough: int
) -> None:
    service, twin = Service(), random.Random(seed)
    chooser = ZoneFirst(service, random.Random(seed), "east", enough)
    for state in states:
        service.become(state)
        for _ in range(9):
            assert chooser.choose() == dumb_zone_first(state, twin, enough)


@given(STATES, SEEDS)
def test_round_robin_chooses_each_once_before_any_again(states: list[tuple[Provider, ...]], seed: int) -> None:
    service = Service()
    chooser = RoundRobin(service, random.Random(seed))
    last: str | None = None
    for state in states:
        service.become(state)
        ids = [one.register_id for one in with_traffic(state)]
        for _ in range(2):
            turn = [chosen.register_id for _ in ids if (chosen := chooser.choose()) is not None]
            assert sorted(turn) == ids
            if last is not None and ids:
                assert turn[0] == min([i for i in ids if i > last] or ids)
            last = turn[-1] if turn else last


@given(PROVIDERS, SEEDS)
def test_an_instance_of_weight_0_is_chosen_only_where_all_have_0(providers: tuple[Provider, ...], seed: int) -> None:
    service, rng = Service(providers), random.Random(seed)
    for chooser in (WeightedRandom(service, rng), RoundRobin(service, rng), ZoneFirst(service, rng, "east")):
        for _ in range(20):
            chosen = chooser.choose()
            assert chosen is None if not providers else chosen in with_traffic(providers)


def test_weights_are_shares_of_the_traffic() -> None:
    service = Service([provider(name, Instance("a", weight=n)) for name, n in {"a": 1, "b": 3, "c": 0}.items()])
    chooser = WeightedRandom(service, random.Random(1))
    counts = Counter(chosen.register_id for _ in range(4000) if (chosen := chooser.choose()))
    assert counts.keys() == {"a", "b"}
    assert 2.7 < counts["b"] / counts["a"] < 3.3


def test_clients_do_not_all_begin_with_the_same_provider() -> None:
    service = Service([provider(name, Instance("a")) for name in "abcdefgh"])
    firsts = {RoundRobin(service, random.Random(seed)).choose() for seed in range(50)}
    assert len(firsts) == 8


@pytest.mark.parametrize("kind", ["weighted", "round robin", "zone first"])
def test_a_chooser_looks_at_its_source_only_after_a_change(kind: str) -> None:
    service, rng = Service([provider(name, Instance("a", zone="east")) for name in "ab"]), random.Random(1)
    choosers: dict[str, Chooser] = {
        "weighted": WeightedRandom(service, rng),
        "round robin": RoundRobin(service, rng),
        "zone first": ZoneFirst(service, rng, "east"),
    }
    chooser = choosers[kind]
    assert service.reads == 0
    assert {chosen.register_id for _ in range(50) if (chosen := chooser.choose())} == {"a", "b"}
    assert service.reads == 1
    service.become([])
    assert [chooser.choose() for _ in range(9)] == [None] * 9
    assert service.reads == 2


def test_no_provider_at_all_cannot_be_enough() -> None:
    with pytest.raises(ModelError, match="enough is 0; expected 1 or more"):
        ZoneFirst(Service(), random.Random(1), "east", 0)
