"""The contracts of plugins as types: an object that lacks a method does not satisfy one."""

from __future__ import annotations

import dataclasses
import random

import pytest
from slotreeve.clock import Clock, LoopClock
from slotreeve.ports.assigner import Assigner
from slotreeve.ports.balancer import Balancer
from slotreeve.ports.context import Context
from slotreeve.ports.election import Election, Leadership, MetaState, Versioned
from slotreeve.ports.slot_function import BatchSlotFunction, SlotFunction
from slotreeve.ports.storage import Storage
from slotreeve.ports.transport import Connection, Transport, TransportCounters

PROTOCOLS: dict[type, set[str]] = {
    Assigner: {"assign"},
    Balancer: {"balance"},
    BatchSlotFunction: {"slot_of", "slots_of"},
    Clock: {"now", "reached", "wall_ms", "call_later", "call_soon", "sleep"},
    Connection: {
        *("peer", "proven", "address", "closed", "ended_here", "is_expelled", "heard_at", "has_room"),
        *("send", "send_encoded", "request", "ask", "reply", "close"),
    },
    Election: {"state", "leadership", "start", "resign", "stop"},
    MetaState: {"read", "keys", "write", "watch"},
    SlotFunction: {"slot_of"},
    Storage: {"read", "replace", "append", "remove", "names", "close"},
    Transport: {"counters", "listen", "connect", "close"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_an_object_satisfies_a_port_only_with_every_member(protocol: type) -> None:
    members = PROTOCOLS[protocol]
    whole = type("Whole", (), dict.fromkeys(members, lambda self: None))()
    assert isinstance(whole, protocol)
    for member in members:
        lacking = type("Lacking", (), dict.fromkeys(members - {member}, lambda self: None))()
        assert not isinstance(lacking, protocol), member


def test_a_context_needs_cluster_slots_time_and_chance_only() -> None:
    required = [
        field.name
        for field in dataclasses.fields(Context)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    assert required == ["cluster", "slots", "clock", "rng"]

    class StoppedClock(LoopClock):
        def __init__(self) -> None:
            """No event loop."""

    one, other = (Context("c", 16, StoppedClock(), random.Random(1)) for _ in range(2))
    assert one.members == {}
    assert one.members is not other.members


def test_leadership_and_values_of_the_meta_state_compare_by_content() -> None:
    assert Leadership("a", 1, True, 2.0, "elected") == Leadership("a", 1, True, 2.0, "elected")
    assert Versioned(b"x", 1, 1) != Versioned(b"x", 2, 1)


def test_counters_of_a_transport_start_at_zero() -> None:
    assert set(dataclasses.asdict(TransportCounters()).values()) == {0}
