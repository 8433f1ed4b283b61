"""Filters, against a filter that goes through all providers one condition after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_client.provider import Provider
from slotreeve_client.selection import Filter, Selection
from slotreeve_protocol.instance import Health, Instance

from tests.client.selections import PROVIDERS, Service, provider

FILTERS = st.builds(
    Filter,
    worst_health=st.sampled_from(Health),
    enabled_only=st.booleans(),
    tags=st.frozensets(st.sampled_from(["blue", "v2"])),
    zone=st.just("east"),
    enough=st.none() | st.integers(1, 3),
) | st.builds(Filter, zone=st.sampled_from([None, "", "nowhere"]))


def dumb(chosen: Filter, providers: Sequence[Provider]) -> list[Provider]:
    found = []
    for one in providers:
        instance = one.instance
        if instance is None or (chosen.enabled_only and not instance.enabled):
            continue
        if chosen.worst_health is Health.PASSING and instance.health is not Health.PASSING:
            continue
        if chosen.worst_health is Health.WARNING and instance.health is Health.CRITICAL:
            continue
        if not set(chosen.tags) <= set(instance.tags):
            continue
        found.append(one)
    if chosen.zone is not None:
        found.sort(key=lambda one: (one.zone != chosen.zone, one.register_id))
        near = sum(one.zone == chosen.zone for one in found)
        if chosen.enough is not None and near >= chosen.enough:
            del found[near:]
    return found


@given(FILTERS, PROVIDERS)
def test_a_filter_admits_what_the_dumb_one_admits_in_the_same_order(
    chosen: Filter, providers: tuple[Provider, ...]
) -> None:
    assert list(chosen.of(providers)) == dumb(chosen, providers)


@given(FILTERS, st.lists(PROVIDERS, max_size=4))
def test_a_selection_follows_every_change_of_its_source(chosen: Filter, states: list[tuple[Provider, ...]]) -> None:
    service = Service()
    selection = Selection(service, chosen)
    narrower = Selection(selection, Filter(worst_health=Health.PASSING))
    for state in states:
        service.become(state)
        assert list(selection.instances) == dumb(chosen, state)
        assert list(narrower.instances) == dumb(Filter(worst_health=Health.PASSING), dumb(chosen, state))
        assert selection.changes == narrower.changes == service.changes


def test_a_selection_looks_at_its_source_only_after_a_change() -> None:
    service = Service([provider("a", Instance("a"))])
    selection = Selection(service, Filter())
    assert service.reads == 0
    assert [selection.instances for _ in range(9)] == [(provider("a", Instance("a")),)] * 9
    assert service.reads == 1
    service.become([])
    assert [selection.instances, selection.instances] == [(), ()]
    assert service.reads == 2


def test_a_change_while_a_selection_is_made_is_not_missed() -> None:
    class Moving(Service):
        @property
        def instances(self) -> tuple[Provider, ...]:
            found = super().instances
            if self.changes == 0:
                self.become([provider("b", Instance("b"))])
            return found

    selection = Selection(Moving([provider("a", Instance("a"))]), Filter())
    assert [p.register_id for p in selection.instances] == ["a"]
    assert [p.register_id for p in selection.instances] == ["b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"enough": 0, "zone": "east"}, "enough is 0; expected 1 or more"),
        ({"enough": 2}, "enough is 2 and zone is None; expected the zone"),
        ({"tags": "blue"}, "tags is 'blue'; expected a set of texts, e.g. {'blue'}"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Filter(**arguments)


@pytest.mark.parametrize(("enough", "expected"), [(None, "aebc"), (3, "aebc"), (2, "ae"), (1, "ae")])
def test_the_own_zone_is_enough_from_the_named_count_on(enough: int | None, expected: str) -> None:
    zones = {"a": "east", "b": "west", "c": "", "e": "east"}
    providers = [provider(name, Instance(name, zone=zone)) for name, zone in zones.items()]
    critical = provider("f", Instance("f", zone="east", health=Health.CRITICAL))
    found = Filter(zone="east", enough=enough).of([*providers, critical])
    assert "".join(one.register_id for one in found) == expected
