"""The operator's overrides."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.overrides import MAX_OVERRIDES, MAX_OVERRIDES_BYTES, Override, Overrides

from tests.protocol.instances import INSTANCES

OVERRIDE = st.builds(
    Override,
    weight=st.none() | st.integers(0, 65_535),
    enabled=st.none() | st.booleans(),
    drain=st.booleans(),
    note=st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
STEPS = st.lists(st.tuples(st.sampled_from("st"), st.sampled_from("abc"), st.none() | OVERRIDE), max_size=9)


@given(STEPS)
def test_overrides_are_what_was_set_last_and_read_back_as_written(
    steps: list[tuple[str, str, Override | None]],
) -> None:
    overrides, twin = Overrides(), dict[tuple[str, str], Override]()
    for service, instance_id, override in steps:
        if override is not None and override.is_empty:
            with pytest.raises(ModelError, match="it changes nothing; expected a weight, enabled or drain"):
                overrides.changed(service, instance_id, override)
            continue
        overrides = overrides.changed(service, instance_id, override)
        if override is None:
            twin.pop((service, instance_id), None)
        else:
            twin[service, instance_id] = override
    assert {(s, i): o for s in "st" for i, o in overrides.of(s).items()} == twin
    assert overrides.count == len(twin)
    assert all(overrides.services.values()), "a service without overrides must leave no trace"
    assert Overrides.decode(overrides.encode()) == overrides
    turned = Overrides(dict(reversed(overrides.services.items())))
    assert turned.encode() == overrides.encode()


@given(INSTANCES, OVERRIDE)
def test_an_override_changes_weight_and_enabled_and_nothing_else(said: Instance, override: Override) -> None:
    seen = override.applied_to(said)
    expected = said.weight if override.weight is None else override.weight
    assert seen.weight == (0 if override.drain else expected)
    assert seen.enabled == (said.enabled if override.enabled is None else override.enabled)
    assert msgspec.structs.replace(seen, weight=said.weight, enabled=said.enabled) == said
    if override.is_empty:
        assert seen is said


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": -1}, "weight is -1; expected 0 to 65535"),
        ({"weight": 65_536}, "weight is 65536; expected 0 to 65535"),
        ({"note": "\udcff"}, "note is .*; expected 0 to 200 in UTF-8"),
        ({"note": "x" * 201}, r"note is .* \(201 characters\); expected 0 to 200"),
    ],
)
def test_an_override_is_bounded(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Override(**fields)


def test_their_number_and_size_are_bounded_and_too_many_can_be_cleared() -> None:
    full = Overrides({"s": {str(n): Override(drain=True) for n in range(MAX_OVERRIDES)}})
    with pytest.raises(ModelError, match="501 overrides are too many; 500 is the limit: clear some"):
        full.changed("t", "a", Override(drain=True))
    assert full.changed("s", "0", Override(weight=1)).count == MAX_OVERRIDES
    assert full.changed("s", "0", None).count == MAX_OVERRIDES - 1
    overfull = Overrides({"s": {str(n): Override(drain=True) for n in range(MAX_OVERRIDES + 9)}})
    assert overfull.changed("s", "0", None).count == MAX_OVERRIDES + 8
    large = Overrides({"s": {str(n): Override(drain=True, note="ü" * 200) for n in range(MAX_OVERRIDES)}})
    with pytest.raises(ModelError, match=f"{MAX_OVERRIDES_BYTES} is the limit"):
        large.encode()
    for instance_id in ("", "x" * 291, "\udcff"):
        with pytest.raises(ModelError, match="expected 1 to 290"):
            full.changed("s", instance_id, None)


@given(st.binary(max_size=30))
def test_a_value_of_any_bytes_is_overrides_or_a_model_error(value: bytes) -> None:
    try:
        Overrides.decode(value)
    except ModelError as error:
        message = str(error)
    else:
        message = "provided configuration 'slotreeve.overrides': fine; slotreeve override writes it"
    assert message.startswith("provided configuration 'slotreeve.overrides': ")
    assert message.endswith("; slotreeve override writes it")


def test_fields_of_a_later_version_are_ignored_and_no_value_means_none() -> None:
    later = b'{"services": {"s": {"a": {"drain": true, "until": "monday"}}}, "epoch": 3}'
    assert Overrides.decode(later) == Overrides({"s": {"a": Override(drain=True)}})
    assert Overrides.decode(None) == Overrides.decode(b"{}") == Overrides()
    for wrong in (b'{"services": {"s": {"a": {"weight": -1}}}}', b'{"services": []}', b"[]", b"", b"[" * 9000):
        with pytest.raises(ModelError, match="slotreeve override writes it"):
            Overrides.decode(wrong)
