"""What a mirror registers and ends, against a dumb twin; and what differs between two registries."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_client import Health, Instance
from slotreeve_mirror.comparison import COMPARED, differences
from slotreeve_mirror.mirror import FEW, HELD_SECONDS, MARK, LeasePlace, MirrorCore, is_imported
from slotreeve_protocol.envelope import decode_instance
from slotreeve_protocol.instance import MAX_METADATA

PLACES = [LeasePlace(f"s{number % 2}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP", f"i{number}") for number in range(6)]
states = st.dictionaries(
    st.sampled_from(PLACES), st.builds(Instance, st.just("10.0.0.1"), st.integers(1, 3), id=st.just("x"))
)


@given(st.lists(states, max_size=8))
def test_whoever_does_what_it_says_has_what_the_source_has(seen: list[dict[LeasePlace, Instance]]) -> None:
    core, ours = MirrorCore("there", 90), dict[LeasePlace, bytes | str]()
    for turn, state in enumerate(seen):
        changes = core.look(state, float(turn))
        assert not changes.held, "six are few"
        for lease in changes.register:
            place = LeasePlace(lease.service, lease.lease_id)
            assert ours.get(place) != lease.data[0], "what has not changed is not sent again"
            ours[place] = lease.data[0]
        for place in changes.end:
            del ours[place]
        instances = {place: decode_instance((data,)) for place, data in ours.items() if isinstance(data, bytes)}
        marked = {k: msgspec.structs.replace(v, metadata={MARK: "there"}) for k, v in state.items()}
        assert instances == marked
        assert core.imported == state


def test_where_most_vanish_at_once_they_are_kept_for_a_while() -> None:
    many = {LeasePlace("s", f"i{number}"): Instance("10.0.0.1", number) for number in range(1, 2 * FEW + 3)}
    core = MirrorCore("there", 90)
    core.look(many, 0.0)
    assert core.look({}, 1.0).held == len(many)
    assert core.look({}, HELD_SECONDS).end == []
    back = core.look(many, HELD_SECONDS + 0.5)
    assert (back.held, back.end, back.register) == (0, [], [])
    assert core.look({}, 100.0).held == len(many)
    assert len(core.look({}, 100.0 + HELD_SECONDS).end) == len(many)
    assert not core.imported


def test_what_comes_while_others_are_kept_is_registered_at_once() -> None:
    many = {LeasePlace("s", f"i{number}"): Instance("10.0.0.1", number) for number in range(1, 2 * FEW + 3)}
    core = MirrorCore("there", 90)
    core.look(many, 0.0)
    changes = core.look({LeasePlace("s", "new"): Instance("10.0.0.2", 1)}, 1.0)
    assert [lease.lease_id for lease in changes.register] == ["new"]
    assert changes.held == len(many)


def test_an_instance_without_room_for_the_mark_is_registered_without_it() -> None:
    full = Instance("10.0.0.1", 1, metadata={f"k{number}": "v" for number in range(MAX_METADATA)})
    (lease,) = MirrorCore("there", 90).look({LeasePlace("s", "i"): full}, 0.0).register
    assert decode_instance(tuple(each for each in lease.data if isinstance(each, bytes))) == full
    assert not is_imported(full)


@given(states)
def test_a_registry_does_not_differ_from_itself(state: dict[LeasePlace, Instance]) -> None:
    ours: dict[str, list[Instance]] = {}
    for place, one in state.items():
        marked = msgspec.structs.replace(one, id=place.lease_id, metadata={MARK: "there"})
        ours.setdefault(place.service, []).append(marked)
    assert differences(state, ours) == []


def test_each_field_that_callers_use_is_compared() -> None:
    one = Instance("10.0.0.1", 80, id="i", metadata={"a": "1"})
    other = Instance("10.0.0.2", 81, "http", 7, "east", ("t",), {"b": "2"}, Health.CRITICAL, "", False, id="i")
    found = [each.what.partition(":")[0] for each in differences({LeasePlace("s", "i"): one}, {"s": [other]})]
    assert sorted(found) == sorted([*COMPARED, "metadata a", "metadata b"])
    assert {*Instance.__struct_fields__} - {*COMPARED} == {"metadata", "id", "health_note"}


def test_what_is_in_one_registry_only_is_said_of_each_side() -> None:
    there, here = Instance("10.0.0.1", 80), Instance("10.0.0.2", 80)
    found = differences({LeasePlace("s", there.id): there}, {"s": [here]})
    assert [(each.instance, each.what) for each in found] == [
        ("10.0.0.1:80", "only there"),
        ("10.0.0.2:80", "only here"),
    ]
