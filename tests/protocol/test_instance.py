"""The fields of an instance and their bounds."""

from __future__ import annotations

from typing import Any

import pytest
from slotreeve.errors import ModelError
from slotreeve_protocol.addresses import AddressKind
from slotreeve_protocol.instance import Health, Instance

EMPTY: tuple[object, ...] = (None, (), [], {}, "", 0, False)
"""What Python takes for false."""


def test_an_address_alone_makes_an_instance() -> None:
    made = Instance("10.0.0.1", 8080)
    assert (made.weight, made.health, made.enabled, made.tags, made.metadata) == (100, Health.PASSING, True, (), {})
    assert (made.id, made.endpoint, made.address_kind) == ("10.0.0.1:8080", "10.0.0.1:8080", AddressKind.IPV4)


def test_the_default_id_is_made_of_the_normal_address() -> None:
    assert Instance("2001:DB8::0:1", 443).id == "[2001:db8::1]:443"
    assert Instance("DB.example.com.").id == "db.example.com"
    assert Instance("a." * 126 + "b", 65_535).id == "a." * 126 + "b:65535"


def test_a_changed_copy_keeps_the_id_and_everything_else() -> None:
    made = Instance("10.0.0.1", 8080, zone="east", metadata={"version": "1"})
    other = made.changed(address="10.0.0.2", health=Health.WARNING, health_note="disk at 91 %")
    assert (other.id, other.endpoint, other.zone) == ("10.0.0.1:8080", "10.0.0.2:8080", "east")
    assert (other.health, other.health_note, other.metadata) == (Health.WARNING, "disk at 91 %", {"version": "1"})
    assert made.health is Health.PASSING
    with pytest.raises(ModelError, match="weight is -1; expected a whole number from 0 to 65535"):
        made.changed(weight=-1)


def test_id_and_zone_do_not_change() -> None:
    changes: Any = {"zone": "west"}
    with pytest.raises(ModelError, match="zone of a:1 cannot change"):
        Instance("a", 1).changed(**changes)
    changes = {"id": "b"}
    with pytest.raises(ModelError, match="id of a:1 cannot change"):
        Instance("a", 1).changed(**changes)


def test_an_instance_does_not_change_with_the_dictionary_that_it_was_made_of() -> None:
    metadata = {"version": "1"}
    made = Instance("a", 1, metadata=metadata)
    other = made.changed(metadata=metadata)
    metadata["version"] = "2"
    assert made.metadata == other.metadata == {"version": "1"}
    assert made.changed(metadata=metadata) != made


def test_health_goes_from_passing_to_critical() -> None:
    assert sorted(Health, key=lambda health: health.rank) == [Health.PASSING, Health.WARNING, Health.CRITICAL]


AT_THE_BOUND: list[tuple[str, Any, Any, str]] = [
    ("port", 65_535, 65_536, "port is 65536; expected a whole number from 0 to 65535"),
    ("weight", 65_535, 65_536, "weight is 65536; expected a whole number from 0 to 65535"),
    ("scheme", "x" * 32, "x" * 33, "scheme is .*; expected e.g. http: at most 32"),
    ("zone", "x" * 255, "x" * 256, "zone is .*256 in it.*; expected 0 to 255 characters"),
    ("id", "x" * 290, "x" * 291, "id is .*; expected 1 to 290 characters"),
    ("tags", ("x" * 512,), ("x" * 513,), "a tag is .*; expected 1 to 512 characters"),
    (
        "tags",
        tuple(map(str, range(64))),
        tuple(map(str, range(65))),
        "tags is .*; expected a tuple of at most 64 texts",
    ),
    ("metadata", {"k" * 128: ""}, {"k" * 129: ""}, "a key of metadata is .*; expected 1 to 128 characters"),
    ("metadata", {"k": "x" * 1024}, {"k": "x" * 1025}, r"metadata\['k'\] is .*; expected a text of at most 1024"),
    ("metadata", {str(n): "" for n in range(64)}, {str(n): "" for n in range(65)}, "metadata is .*; .* 64 entries"),
    ("health_note", "x" * 1024, "x" * 1025, "health_note is .*; expected a text of at most 1024 characters"),
]


@pytest.mark.parametrize(("field", "largest", "larger", "message"), AT_THE_BOUND)
def test_a_field_may_reach_its_bound_and_not_pass_it(field: str, largest: Any, larger: Any, message: str) -> None:
    assert getattr(Instance("a", **{field: largest}), field) == largest
    with pytest.raises(ModelError, match=f"^instance: {message}"):
        Instance("a", **{field: larger})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("address", value) for value in ("", None, b"10.0.0.1", "10.0.0.256")),
        *(("port", value) for value in (-1, "80", 80.0, True, None)),
        *(("weight", value) for value in (-1, 0.5, True)),
        *(("scheme", value) for value in ("HTTP", "http://", "1", None, "a\n")),
        *(("zone", value) for value in (None, "a\nb", "\ud800")),
        *(("tags", value) for value in (["a"], "ab", ("",), (1,), ("a", "a"), ("a\n",))),
        *(("metadata", value) for value in ({1: "a"}, {"a": 1}, {"": "a"}, [("a", "b")], {"a": "\ud800"})),
        *(("tags", value) for value in EMPTY if value != ()),
        *(("metadata", value) for value in EMPTY if value != {}),
        *(("health", value) for value in ("passing", "good", None)),
        *(("health_note", value) for value in (None, "\udfff")),
        *(("enabled", value) for value in (1, "yes", None)),
        *(("id", value) for value in (None, "a\x00", "\x9f")),
    ],
)
def test_a_wrong_value_is_refused_and_the_message_names_the_field(field: str, value: Any) -> None:
    named = {"tags": "tag", "metadata": "metadata"}.get(field, field)
    with pytest.raises(ModelError, match=rf"{named}.* is .*; expected "):
        Instance(**{"address": "a", field: value})
