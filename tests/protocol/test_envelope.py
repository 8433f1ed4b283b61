"""Instances as bytes: golden envelopes, round trips, and garbage."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_protocol.envelope import (
    MAGIC,
    MAX_ENVELOPE_BYTES,
    begins_like_envelope,
    decode_instance,
    encode_instance,
)
from slotreeve_protocol.instance import Health, Instance

from tests.protocol.instances import INSTANCES

GOLDEN = Path(__file__).parent / "golden" / "envelopes.json"
"""Envelopes by the name of their sample, in hexadecimal, oldest first: what released versions published. An envelope
may be added, never changed."""

FULL = Instance(
    *(
        "2001:db8::1",
        8443,
        "https",
        50,
        "zone-a",
        ("blue", "v2"),
        {"b": "2", "a": "1"},
        Health.WARNING,
        "disk",
        False,
        "i-1",
    )
)
SAMPLES = {"defaults": Instance("10.0.0.1", 8080), "full": FULL, "name": Instance("db.example.com")}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_encoding_of_an_instance_is_its_newest_golden_envelope_and_the_older_ones_are_read(name: str) -> None:
    golden: dict[str, list[str]] = json.loads(GOLDEN.read_text())
    assert golden.keys() == SAMPLES.keys()
    assert encode_instance(SAMPLES[name]).hex() == golden[name][-1], "the encoding has changed"
    for envelope in golden[name]:
        assert decode_instance((bytes.fromhex(envelope),)) == SAMPLES[name]


@given(INSTANCES)
def test_an_instance_reads_back_as_it_was_written(instance: Instance) -> None:
    envelope = encode_instance(instance)
    assert decode_instance((envelope,)) == instance
    assert len(envelope) <= MAX_ENVELOPE_BYTES


@given(INSTANCES)
def test_equal_instances_have_equal_envelopes(instance: Instance) -> None:
    turned = msgspec.structs.replace(instance, metadata=dict(reversed(instance.metadata.items())))
    assert encode_instance(turned) == encode_instance(instance)


@given(st.binary(max_size=60))
@example(b"")
@example(b"10.0.0.1:8080")
@example(MAGIC)
@example(MAGIC + b"\x01")
@example(MAGIC + b"\x01" + b"\x91" * 5000)
def test_bytes_never_raise(data: bytes) -> None:
    for payload in ((data,), (MAGIC + data,), (MAGIC + b"\x01" + data,), (MAGIC + b"\x02\x91\xa1a" + data,)):
        decode_instance(payload)
    if not data.startswith(MAGIC):
        assert decode_instance((data,)) is None


@given(INSTANCES, st.data())
def test_a_damaged_envelope_is_opaque_or_a_valid_instance(instance: Instance, data: st.DataObject) -> None:
    damaged = bytearray(encode_instance(instance))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    found = decode_instance((bytes(damaged[: data.draw(st.integers(0, len(damaged)))]),))
    assert found is None or msgspec.structs.replace(found) == found


@given(INSTANCES, st.integers(2, 255), st.binary(max_size=9) | st.lists(st.integers(0, 9)) | st.none())
def test_of_a_newer_version_the_known_fields_are_read(instance: Instance, version: int, more: object) -> None:
    fields = [*msgspec.structs.astuple(instance), more]
    newer = MAGIC + bytes([version]) + msgspec.msgpack.encode(fields)
    assert decode_instance((newer,)) == instance


@pytest.mark.parametrize(
    "fields",
    [["a", 80, "", 1, "", [], {}, "unheard-of"], ["a", 70_000], [], {}, ["a", "80"], ["10.0.0.256"], ["a", 1, "", -1]],
)
def test_a_field_that_is_not_as_this_version_knows_it_makes_the_payload_opaque(fields: object) -> None:
    for version in (1, 2):
        assert decode_instance((MAGIC + bytes([version]) + msgspec.msgpack.encode(fields),)) is None


def test_version_zero_and_payloads_of_several_parts_are_opaque() -> None:
    envelope = encode_instance(FULL)
    assert decode_instance((envelope[:4] + b"\x00" + envelope[5:],)) is None
    assert decode_instance((envelope, b"")) is None
    assert [begins_like_envelope(p) for p in ((envelope,), (envelope, b""), (b"",), (), None)] == [True] + [False] * 4
    assert decode_instance(()) is None


def test_an_envelope_is_bounded_whatever_its_fields() -> None:
    def with_values_of(length: int) -> Instance:
        return Instance("a", 1, metadata={f"{n:02}": "x" * 1000 for n in range(16)}, health_note="x" * length)

    room = MAX_ENVELOPE_BYTES - len(encode_instance(with_values_of(0)))
    assert len(encode_instance(with_values_of(room - 2))) == MAX_ENVELOPE_BYTES
    with pytest.raises(ModelError, match=f"instance: a:1 takes {MAX_ENVELOPE_BYTES + 1} bytes; expected at most"):
        encode_instance(with_values_of(room - 1))
    longer = (
        MAGIC + b"\x02" + msgspec.msgpack.encode(["a", 1, "", 1, "", [], {}, "passing", "", True, "", "x" * 20_000])
    )
    assert decode_instance((longer,)) is None
