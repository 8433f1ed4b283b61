"""Providers as subscribers see them: decoded late, and once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from slotreeve.model.publisher import Publisher
from slotreeve_client.provider import Provider, Providers
from slotreeve_protocol.envelope import decode_instance, encode_instance
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import Override

from tests.protocol.instances import INSTANCES

INSTANCE = Instance("10.0.0.1", 8080)
ENVELOPE = (encode_instance(INSTANCE),)


def record(register_id: str, data: tuple[bytes, ...] | None, zone: str = "") -> Publisher:
    return Publisher(register_id, "s", 1, 1, "session-1@1", zone, data)


PAYLOADS = st.none() | INSTANCES.map(lambda i: (encode_instance(i),)) | st.lists(st.binary(max_size=5)).map(tuple)
RECORDS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(PAYLOADS, st.sampled_from(["", "east"])))


@given(st.lists(RECORDS, max_size=4))
def test_providers_are_what_the_records_say_however_they_changed(states: list[dict[str, tuple[None, str]]]) -> None:
    providers = Providers()
    for state in states:
        records = {key: record(key, data, zone) for key, (data, zone) in state.items()}
        expected = [(key, r.zone, r.data) for key, r in sorted(records.items()) if r.data is not None]
        found = providers.of(records, {})
        assert list(found) == expected
        assert [p.instance for p in found] == [decode_instance(data) for _, _, data in expected]


def test_instances_are_left_out_while_their_overrides_are_not_known() -> None:
    records = {"a": record("a", ENVELOPE), "b": record("b", (b"x",)), "c": record("c", ENVELOPE)}
    assert [provider.register_id for provider in Providers().of(records, None)] == ["b"]
    drained = Providers().of(records, {"10.0.0.1:8080": Override(drain=True)})
    assert [p.instance and (p.instance.weight, p.said == INSTANCE) for p in drained] == [(0, True), None, (0, True)]
    others = Providers().of(records, {"10.0.0.1:8081": Override(drain=True)})
    assert [p.instance for p in others] == [INSTANCE, None, INSTANCE]


def test_a_provider_is_still_a_tuple_of_id_zone_and_payload() -> None:
    provider = Provider("r", "east", (b"x",))
    register_id, zone, data = provider
    assert (register_id, zone, data) == (provider.register_id, provider.zone, provider.data) == ("r", "east", (b"x",))
    assert repr(provider) == "Provider(register_id='r', zone='east', data=(b'x',))"
    assert provider == Provider("r", "east", (b"x",))
    assert hash(provider) == hash(Provider("r", "east", (b"x",)))
    assert provider.instance is None


def test_what_did_not_change_is_not_decoded_again() -> None:
    providers = Providers()
    records = {"a": record("a", ENVELOPE), "b": record("b", ENVELOPE), "c": record("c", ENVELOPE)}
    first = providers.of(records, {})
    decoded = [provider.instance for provider in first]
    changed = encode_instance(Instance("10.0.0.2", 8080))
    records |= {"b": record("b", (changed,)), "c": record("c", ENVELOPE, "east")}
    second = providers.of(records, {})
    assert second[0] is first[0]
    assert second[0].instance is decoded[0] is not None
    assert second[1].instance == Instance("10.0.0.2", 8080)
    assert second[2].zone == "east"
    del records["a"]
    providers.of(records, {})
    records["a"] = record("a", ENVELOPE)
    assert providers.of(records, {})[0] is not first[0], "what has gone must not be kept"
