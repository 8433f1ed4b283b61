"""``even`` with loads: leaders trade slots until none has much more than its share of the load."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve import Context, Limits, Server, SlotLoad, SlotTable
from slotreeve.clock import LoopClock
from slotreeve.ports import LoadAware, aware_of
from slotreeve_balancer import slotreeve_balancers
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import LoadAwareEvenBalancer
from slotreeve_balancer.even_loads import BUSY
from slotreeve_balancer.options import EvenBalancerOptions
from slotreeve_conformance.tables import Situation, complete_tables
from slotreeve_conformance.virtual_time import run

Loads = dict[int, SlotLoad]


def named(count: int) -> list[Server]:
    return [Server(f"data-{n:03}") for n in range(count)]


def fresh(slots: int, servers: list[Server], replicas: int) -> SlotTable:
    plan = EvenAssigner().assign(SlotTable.unassigned(slots), servers, Limits(replicas))
    assert plan is not None
    return plan.table


def steps(table: SlotTable, servers: list[Server], replicas: int, loads: Loads) -> Iterator[SlotTable]:
    balancer = aware_of(LoadAwareEvenBalancer(EvenBalancerOptions(loads="records")), loads)
    while (plan := balancer.balance(table, servers, Limits(replicas))) is not None:
        yield (table := plan.table)


def parts(table: SlotTable, servers: list[Server], loads: Loads) -> dict[str, float]:
    """Load that each server leads, by its fair share."""
    led = dict.fromkeys([server.name for server in servers], 0)
    for slot in table.slots:
        led[slot.leader or ""] += loads.get(slot.id, SlotLoad()).records
    weight, total = sum(server.weight for server in servers), sum(led.values())
    return {server.name: led[server.name] / (total * server.weight / weight) for server in servers} if total else {}


def squares(table: SlotTable, servers: list[Server], loads: Loads) -> float:
    found = parts(table, servers, loads)
    return sum(server.weight * found[server.name] ** 2 for server in servers) if found else 0.0


def holders(table: SlotTable) -> list[frozenset[str | None]]:
    return [frozenset((slot.leader, *slot.followers)) for slot in table.slots]


def counts(table: SlotTable) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for slot in table.slots:
        found[slot.leader] = found.get(slot.leader, 0) + 1
    return found


SOME_LOADS = st.dictionaries(st.integers(0, 39), st.builds(SlotLoad, st.integers(0, 1_000)), max_size=40)


@settings(derandomize=True, max_examples=150)
@given(complete_tables(most_slots=40, most_servers=6), SOME_LOADS)
def test_each_trade_lowers_the_sum_of_squares_and_changes_neither_holders_nor_the_number_of_led_slots(
    situation: Situation, loads: Loads
) -> None:
    table, servers, limits = situation
    for even in steps(table, servers, limits.replicas, {}):
        table = even
    before = table
    for after in steps(table, servers, limits.replicas, loads):
        assert squares(after, servers, loads) < squares(table, servers, loads)
        table = after
    assert holders(table) == holders(before)
    assert counts(table) == counts(before)


@pytest.mark.parametrize(("slots", "servers", "seed"), [(64, 4, 1), (256, 12, 2), (1_024, 30, 3)])
def test_where_a_few_slots_have_most_of_the_load_at_least_half_of_what_is_too_much_goes_to_others(
    slots: int, servers: int, seed: int
) -> None:
    rng, live = random.Random(seed), named(servers)
    loads = {slot: SlotLoad(rng.randrange(1, 10)) for slot in range(slots)}
    for slot in rng.sample(range(slots), 2 * servers):
        loads[slot] = SlotLoad(rng.randrange(50, 5 * slots // servers))
    table = fresh(slots, live, 3)
    before = max(parts(table, live, loads).values())
    tables = list(steps(table, live, 3, loads))
    after = max(parts(tables[-1], live, loads).values())
    assert len(tables) <= 8
    assert before > BUSY
    assert after - 1 < (before - 1) / 2, f"seed {seed}"


@pytest.mark.parametrize(("servers", "replicas", "seed"), [(6, 2, 4), (4, 3, 5), (9, 3, 7), (12, 2, 6)])
def test_small_changes_of_load_move_next_to_nothing_once_it_is_spread(servers: int, replicas: int, seed: int) -> None:
    rng, live = random.Random(seed), named(servers)
    loads = {slot: SlotLoad(rng.choice([1_000, 1_000, 20_000])) for slot in range(128)}
    for slot in rng.sample(range(128), 6):
        loads[slot] = SlotLoad(rng.randrange(40_000, 90_000))
    table, moves = fresh(128, live, replicas), list[int]()
    for _ in range(40):
        noisy = {slot: SlotLoad(round(load.records * rng.uniform(0.92, 1.08))) for slot, load in loads.items()}
        after = [table, *steps(table, live, replicas, noisy)][-1]
        moves.append(sum(one.leader != other.leader for one, other in zip(table.slots, after.slots, strict=True)))
        table = after
    assert moves[0] > 0
    assert sum(moves[1:]) <= 6, f"seed {seed}: {moves}"


def test_a_slot_that_is_more_than_a_share_by_itself_goes_to_nobody_in_turn() -> None:
    live = named(3)
    table = fresh(12, live, 2)
    loads = {0: SlotLoad(1_000), **{slot: SlotLoad(1) for slot in range(1, 12)}}
    tables = list(steps(table, live, 2, loads))
    assert len(tables) <= 1
    assert not list(steps(tables[-1] if tables else table, live, 2, loads))


@pytest.mark.parametrize(("loads", "looks"), [("ignore", False), ("records", True), ("bytes", True), ("writes", True)])
def test_even_looks_at_loads_only_if_it_is_told_to(loads: str, looks: bool) -> None:
    (offer,) = [offer for offer in slotreeve_balancers() if offer.name == "even"]

    async def scenario(rng: random.Random) -> None:
        built = offer.build(EvenBalancerOptions.model_validate({"loads": loads}), Context("", 4, LoopClock(), rng))
        assert isinstance(built, LoadAware) is looks

    run(scenario, seed=1)
