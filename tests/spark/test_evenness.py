"""How far from even a table is, by weight and as far as zones allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve import Limits, Server, Slot, SlotTable
from slotreeve_balancer.even_assigner import EvenAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import EvenBalancerOptions
from slotreeve_spark.compare.evenness import copies_shares, followed, led, spread, uneven_share


def table(*rows: tuple[str, tuple[str, ...]]) -> SlotTable:
    return SlotTable(1, tuple(Slot(number, leader, 1, held) for number, (leader, held) in enumerate(rows)))


ABC = [Server("a"), Server("b"), Server("c")]


def test_a_table_within_rounding_of_the_fair_shares_is_even() -> None:
    assert uneven_share(table(("a", ("b",)), ("b", ("c",)), ("c", ("a",)), ("a", ("b",))), ABC, 2) == 0


def test_a_server_without_slots_makes_a_table_uneven_by_its_whole_share() -> None:
    rows = table(*([("a", ("b",))] * 3 + [("b", ("a",))] * 3))
    assert uneven_share(rows, ABC, 2) == 1.0
    assert uneven_share(rows, ABC[:2], 2) == 0
    assert spread(led(rows), ABC) == 3
    assert spread(followed(rows), ABC) == 3


def test_a_fair_share_is_by_weight() -> None:
    servers = [Server("a", weight=3.0), Server("b", weight=1.0)]
    assert uneven_share(table(("a", ()), ("a", ()), ("a", ()), ("b", ())), servers, 1) == 0
    assert uneven_share(table(("a", ()), ("a", ()), ("b", ()), ("b", ())), servers, 1) == 1.0


def test_a_small_zone_holds_a_copy_of_each_slot_where_there_are_no_more_zones_than_copies() -> None:
    servers = [Server("a", "east"), Server("b", "west"), Server("c", "west"), Server("d", "west")]
    assert copies_shares(servers, 6, 2) == pytest.approx({"a": 6, "b": 2, "c": 2, "d": 2})
    assert copies_shares([Server("a"), Server("b"), Server("c")], 6, 2) == pytest.approx({"a": 4, "b": 4, "c": 4})


@given(st.integers(2, 9), st.integers(1, 3), st.integers(8, 64), st.sampled_from([0, 1, 2, 3]))
def test_shares_add_up_to_all_copies(number: int, replicas: int, slots: int, zones: int) -> None:
    servers = [Server(f"data-{n}", f"zone-{n % zones}" if zones else "") for n in range(number)]
    copies = min(replicas, number)
    assert sum(copies_shares(servers, slots, copies).values()) == pytest.approx(slots * copies)


@given(st.integers(2, 9), st.integers(1, 3), st.integers(8, 64))
def test_what_the_even_balancer_makes_of_servers_of_equal_weight_is_even(
    number: int, replicas: int, slots: int
) -> None:
    servers = [Server(f"data-{n}") for n in range(number)]
    plan = EvenAssigner().assign(SlotTable.unassigned(slots), servers, Limits(replicas))
    while plan is not None:
        made = plan.table
        plan = EvenBalancer(EvenBalancerOptions()).balance(made, servers, Limits(replicas))
    assert uneven_share(made, servers, replicas) == 0


def test_no_server_is_asked_for_more_copies_than_there_are_slots() -> None:
    heavy = [Server("a", "z", 1.0), Server("b", "z", 1.0), Server("c", "z", 4.0)]
    assert copies_shares(heavy, 12, 2) == pytest.approx({"a": 6, "b": 6, "c": 12})
    zones = [Server("a", "one"), *(Server(f"b{n}", "two") for n in range(5))]
    assert copies_shares(zones, 30, 4) == pytest.approx({"a": 30} | {f"b{n}": 18 for n in range(5)})
