"""What a mirror registers and ends, against a dumb twin; and what differs between two registries."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_client import Health, Instance
from slotreeve_mirror.comparison import COMPARED, differences
from slotreeve_mirror.mirror import AGAIN_SECONDS, HELD_SECONDS, MARK, LeasePlace, MirrorCore, SourceState
from slotreeve_protocol.envelope import decode_instance

SERVICES = [f"s{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for number in range(2)]
PLACES = [LeasePlace(SERVICES[number % 2], f"i{number}") for number in range(6)]
places = st.sampled_from(PLACES)
ports = st.integers(1, 3)
states = st.dictionaries(places, st.builds(Instance, st.just("10.0.0.1"), ports, id=st.just("x")))
steps = st.one_of(
    st.tuples(st.just("there"), places, ports),
    st.tuples(st.sampled_from(["leaves there", "registers itself", "withdraws itself", "is lost here"]), places, ports),
    st.tuples(st.sampled_from(["silent", "shows"]), places, ports),
)


class World:
    """A source and a registry, as simple as can be, and a mirror between them."""

    def __init__(self) -> None:
        self.core = MirrorCore("there", 90)
        self.there: dict[LeasePlace, Instance] = {}
        self.here: dict[LeasePlace, Instance] = {}
        self.now = 0.0
        for service in SERVICES:
            self.show(service)

    def show(self, service: str) -> None:
        self.core.registry_shows(service, [one for place, one in self.here.items() if place.service == service])

    def source(self, unknown: frozenset[str] = frozenset()) -> None:
        self.core.source_shows(SourceState(dict(self.there), unknown))

    def put(self, place: LeasePlace, port: int) -> None:
        self.there[place] = Instance("10.0.0.1", port, id=place.lease_id)

    def register_itself(self, place: LeasePlace, port: int = 9) -> None:
        self.here[place] = Instance("10.0.0.9", port, id=place.lease_id)
        self.show(place.service)

    def lose(self, place: LeasePlace) -> None:
        self.here.pop(place, None)
        self.show(place.service)

    def work(self) -> int:
        """Do what the mirror wants, and show it; how many things that were."""
        changes = self.core.changes(self.now)
        for lease in self.core.leases(changes.register):
            (data,) = lease.data
            instance = decode_instance((data,)) if isinstance(data, bytes) else None
            assert instance is not None
            self.here[LeasePlace(lease.service, lease.lease_id)] = instance
        for place in changes.end:
            del self.here[place]
        for service in {place.service for place in [*changes.register, *changes.end]}:
            self.show(service)
        return len(changes.register) + len(changes.end)

    def settle(self) -> None:
        for _ in range(5):
            self.now += AGAIN_SECONDS
            if not self.work():
                return
        raise AssertionError("it does not come to rest")

    def marked(self) -> Mapping[LeasePlace, int]:
        return {place: one.port for place, one in self.here.items() if MARK in one.metadata}


@given(st.lists(steps, max_size=20))
def test_what_is_imported_is_what_the_source_has_and_its_applications_have_not_registered(
    taken: list[tuple[str, LeasePlace, int]],
) -> None:
    world, moved = World(), set[LeasePlace]()
    world.source()
    silent = False
    for what, place, port in taken:
        if what == "there":
            world.put(place, port)
        elif what == "leaves there":
            world.there.pop(place, None)
        elif what == "registers itself":
            world.register_itself(place, port)
        elif (what == "withdraws itself" and place in world.here and place not in world.marked()) or (
            what == "is lost here" and place in world.marked()
        ):
            world.lose(place)
        elif what == "silent":
            world.core.source_is_silent()
        silent = silent or what == "silent"
        if what != "silent":
            world.source()
            silent = False
        own = {each: one for each, one in world.here.items() if MARK not in one.metadata}
        moved = ({*own} | moved) & {*world.there}
        world.settle()
        assert {each: one for each, one in world.here.items() if MARK not in one.metadata} == own, "it is left alone"
        wanted = {each: one.port for each, one in world.there.items() if each not in moved}
        if not silent:
            assert world.marked() == wanted
        assert set(world.core.imported) == {*world.marked()}


def test_an_application_that_has_moved_and_left_is_not_brought_back_while_the_source_still_lists_it() -> None:
    world, place = World(), PLACES[0]
    world.put(place, 1)
    world.source()
    world.settle()
    assert world.marked() == {place: 1}
    world.register_itself(place)
    world.put(place, 2)
    world.source()
    world.settle()
    assert list(world.core.imported) == [], "its lease is not renewed by the mirror"
    world.lose(place)
    world.settle()
    assert world.here == {}
    del world.there[place]
    world.source()
    world.settle()
    world.put(place, 3)
    world.source()
    world.settle()
    assert world.marked() == {place: 3}, "it has come back there"


def test_a_change_while_another_one_is_on_its_way_is_not_lost() -> None:
    world, place = World(), PLACES[0]
    world.put(place, 1)
    world.source()
    sent = world.core.leases(world.core.changes(0.0).register)  # nobody has acknowledged it yet
    world.put(place, 2)
    world.source()
    assert [lease.lease_id for lease in world.core.leases(world.core.changes(0.1).register)] == [place.lease_id]
    (data,) = sent[0].data
    instance = decode_instance((data,)) if isinstance(data, bytes) else None
    assert instance is not None
    world.here[place] = instance  # the first one arrives last
    world.show(place.service)
    world.now = AGAIN_SECONDS
    world.settle()
    assert world.marked() == {place: 2}


def many(count: int) -> World:
    world = World()
    for number in range(1, count + 1):
        world.put(LeasePlace(SERVICES[0], f"m{number}"), number)
    world.source()
    world.settle()
    assert len(world.marked()) == count
    return world


def test_where_most_vanish_at_once_each_is_kept_for_its_minute() -> None:
    world = many(20)
    everything = dict(world.there)
    world.there.clear()
    world.source()
    began = world.now
    world.settle()
    assert len(world.marked()) == 20
    for place in [*everything][:11]:
        world.there[place] = everything[place]
    world.source()
    world.settle()
    assert len(world.marked()) == 20, "a registry that was restarted fills by and by"
    world.now = began + HELD_SECONDS - 1
    world.work()
    assert len(world.marked()) == 20
    world.now = began + HELD_SECONDS + AGAIN_SECONDS
    world.settle()
    assert len(world.marked()) == 11


def test_few_end_at_once_and_so_does_less_than_half() -> None:
    world = many(20)
    for number in range(1, 10):
        del world.there[LeasePlace(SERVICES[0], f"m{number}")]
    world.source()
    world.settle()
    assert len(world.marked()) == 11


def test_nothing_ends_while_the_source_is_silent_and_the_minute_begins_anew() -> None:
    world = many(20)
    world.there.clear()
    world.source()
    world.settle()
    world.core.source_is_silent()
    world.now += 2 * HELD_SECONDS
    world.settle()
    assert len(world.marked()) == 20
    world.source()
    world.settle()
    assert len(world.marked()) == 20
    world.now += HELD_SECONDS
    world.settle()
    assert world.marked() == {}


def test_what_was_imported_of_a_service_that_cannot_be_read_stays_and_others_go_on() -> None:
    world = World()
    for place in PLACES:
        world.put(place, 1)
    world.source()
    world.settle()
    world.there = {place: one for place, one in world.there.items() if place.service == SERVICES[1]}
    del world.there[PLACES[1]]
    world.source(frozenset({SERVICES[0]}))
    world.settle()
    assert {*world.marked()} == {*PLACES} - {PLACES[1]}
    world.source()
    world.settle()
    assert {*world.marked()} == {*world.there}


def test_what_is_not_taken_is_sent_again_and_what_is_not_seen_after_some_seconds() -> None:
    world, place = World(), PLACES[0]
    world.put(place, 1)
    world.source()
    assert world.core.changes(0.0).register == [place]
    assert world.core.changes(1.0).register == []
    world.core.failed([place])
    assert world.core.changes(1.0).register == [place]
    assert world.core.changes(1.0 + AGAIN_SECONDS).register == [place]


def test_nothing_ends_before_the_source_was_read_for_the_first_time() -> None:
    world, place = World(), PLACES[0]
    world.here[place] = Instance("10.0.0.1", 1, id=place.lease_id, metadata={MARK: "there"})
    world.show(place.service)
    world.settle()
    assert list(world.core.imported) == [place], "it is renewed"
    assert world.marked() == {place: 1}
    world.source()
    world.settle()
    assert world.here == {}


def test_a_service_of_an_earlier_mirror_matters_although_a_view_of_before_shows_nothing_of_it() -> None:
    world, place = World(), PLACES[0]
    world.here[place] = Instance("10.0.0.1", 1, id=place.lease_id, metadata={MARK: "there"})
    world.core.adopts(place.service, world.here.values())
    world.core.registry_shows(place.service, [])
    assert world.core.services == {place.service}
    world.show(place.service)
    assert list(world.core.imported) == [place]
    world.source()
    world.settle()
    assert world.here == {}


def test_an_import_beside_what_the_application_publishes_itself_is_not_renewed_and_ends() -> None:
    world, place = World(), PLACES[0]
    world.put(place, 1)
    world.source()
    itself = Instance("10.0.0.1", 1, id=place.lease_id)
    world.core.registry_shows(place.service, [itself, msgspec.structs.replace(itself, metadata={MARK: "there"})])
    assert list(world.core.imported) == []
    changes = world.core.changes(0.0)
    assert (changes.register, changes.end) == ([], [place])


def test_imports_of_other_sources_are_left_alone() -> None:
    world, place = World(), PLACES[0]
    world.here[place] = Instance("10.0.0.1", 1, id=place.lease_id, metadata={MARK: "elsewhere"})
    world.show(place.service)
    world.source()
    world.settle()
    assert place in world.here
    assert list(world.core.imported) == []


@given(states)
def test_a_registry_does_not_differ_from_itself(state: dict[LeasePlace, Instance]) -> None:
    ours: dict[str, list[Instance]] = {}
    for place, one in state.items():
        marked = msgspec.structs.replace(one, id=place.lease_id, metadata={MARK: "there"})
        ours.setdefault(place.service, []).append(marked)
    assert differences(SourceState(state), ours) == []


def test_each_field_that_callers_use_is_compared() -> None:
    one = Instance("10.0.0.1", 80, id="i", metadata={"a": "1"})
    other = Instance("10.0.0.2", 81, "http", 7, "east", ("t",), {"b": "2"}, Health.CRITICAL, "", False, id="i")
    found = [
        each.what.partition(":")[0] for each in differences(SourceState({LeasePlace("s", "i"): one}), {"s": [other]})
    ]
    assert sorted(found) == sorted([*COMPARED, "metadata a", "metadata b"])
    assert {*Instance.__struct_fields__} - {*COMPARED} == {"metadata", "id", "health_note"}


def test_what_is_in_one_registry_only_is_said_of_each_side() -> None:
    there, here = Instance("10.0.0.1", 80), Instance("10.0.0.2", 80)
    found = differences(SourceState({LeasePlace("s", there.id): there}), {"s": [here]})
    assert [(each.instance, each.what) for each in found] == [
        ("10.0.0.1:80", "only there"),
        ("10.0.0.2:80", "only here"),
    ]


def test_a_service_that_cannot_be_read_there_is_not_said_to_be_only_here() -> None:
    found = differences(SourceState({}, frozenset({"s"})), {"s": [Instance("10.0.0.2", 80)]})
    assert [(each.service, each.what) for each in found] == [("s", "cannot be read there")]
