"""What a client takes can be sent; whatever cannot be sent is refused at the call and harms nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from slotreeve.errors import ModelError
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, MAX_ZONE_LENGTH
from slotreeve_client import ClientOptions, Scope
from slotreeve_conformance.virtual_time import run
from slotreeve_protocol.client_messages import ListServices, Publish
from slotreeve_protocol.codec import decode_frame, encode_message
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.client.core_scene import Shell
from tests.client.odd_input import ODD_VALUE

SMALLEST_FRAME = 16 * 1024 * 1024
"""In bytes; a transport may not be set to less."""
CAF = "caf\udce9"
"""What ``os.fsdecode`` makes of "café" in Latin-1."""

Call = Callable[[Shell, Any, Any], object]
CALLS: dict[str, Call] = {
    "publish": lambda shell, a, b: shell.core.publish(a, (b,), None),
    "publish in a zone": lambda shell, a, b: shell.core.publish(a, (b"x",), b),
    "subscribe": lambda shell, a, b: shell.core.subscribe(a, None, Scope.ZONE),
    "subscribe to a scope": lambda shell, a, b: shell.core.subscribe("a", None, b),
    "watch": lambda shell, a, b: shell.core.watch_config(a, None),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(CALLS)), ODD_VALUE, ODD_VALUE), max_size=8))
def test_whatever_a_call_takes_is_sent_as_it_is_and_read_by_a_server(calls: list[tuple[str, Any, Any]]) -> None:
    shell = Shell()
    for name, first, second in calls:
        try:
            CALLS[name](shell, first, second)
        except ModelError:
            continue
    shell.core.connected("s@1")
    for message in shell.sent():
        _, _, read = decode_frame(encode_message(message))
        assert read == message


@pytest.mark.parametrize("zone", ["", "z" * MAX_ZONE_LENGTH])
@pytest.mark.parametrize("part", [b"", b"x" * 2_047, b"x" * 300_000])
def test_the_heaviest_messages_fit_into_the_smallest_frame(zone: str, part: bytes) -> None:
    shell = Shell(batch=10_000, window=1_000_000)
    name = "\U0001f600" * 2_000
    parts = (part,) * min(200_000, MAX_PAYLOAD_BYTES // (len(part) + 5)) if part != b"x" * 2_047 else (part,)
    for _ in range(600 if len(parts) == 1 else 4):
        shell.core.publish(name, parts, zone)
    shell.core.connected("s@1")
    batches = [message for message in shell.sent() if isinstance(message, Publish)]
    assert sum(len(batch.records) for batch in batches) >= 4
    assert all(len(encode_message(batch)) <= SMALLEST_FRAME for batch in batches)


def test_many_small_parts_and_a_long_zone_count() -> None:
    shell = Shell()
    with pytest.raises(ModelError, match=r"in 1048576 parts, are too many"):
        shell.core.publish("a", (b"",) * MAX_PAYLOAD_BYTES, None)
    with pytest.raises(ModelError, match=f"{MAX_ZONE_LENGTH} is the limit"):
        shell.core.publish("a", (b"",), "z" * (MAX_ZONE_LENGTH + 1))
    assert shell.core.unacknowledged == 0


@pytest.mark.parametrize("field", ["zone", "cluster", "transport"])
def test_options_that_no_message_can_carry_are_refused(field: str) -> None:
    with pytest.raises(ValidationError, match="unicode"):
        ClientOptions.model_validate({field: CAF})


def test_a_message_that_cannot_be_encoded_is_an_error_of_the_model() -> None:
    with pytest.raises(ModelError, match="a ListServices cannot be encoded"):
        encode_message(ListServices(CAF))


def test_a_bad_text_harms_its_own_call_only() -> None:
    async def body(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            client = cluster.client()
            kept = client.publish("a", "before")
            for call in (
                lambda: client.publish(CAF, "x"),
                lambda: client.publish("a", "x", zone=CAF),
                lambda: client.publish("a", CAF),
                lambda: client.subscribe(CAF),
                lambda: client.watch_config(CAF),
            ):
                with pytest.raises(ModelError):
                    call()
            with pytest.raises(ModelError):
                await client.get(CAF)
            with pytest.raises(ModelError):
                await client.list(CAF)
            with pytest.raises(ModelError):
                await client.leases.register("a", CAF, "x")
            with pytest.raises(ModelError):
                await client.leases.register("a", "b", "x", zone=CAF)
            later = client.publish("a", "after")
            async with asyncio.timeout(5.0):
                await kept.acknowledged()
                await later.acknowledged()
                await client.flush()
            assert client.statistics().reconnections == 0

    run(body, seed=1)
