"""Which meta servers take part in an fle election, and at which ports."""

from __future__ import annotations

import random

import pytest
import slotreeve_election_fle
from slotreeve.errors import ConfigError
from slotreeve.ports import Context
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_election_fle import FleOptions
from slotreeve_election_fle.election import FleElection
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

ADDRESSES = {"meta-1": "10.0.0.1:7702", "meta-2": "10.0.0.2:7702", "meta-3": "10.0.0.3:7702"}


def build(node: str, **options: object) -> FleElection:
    clock, network = VirtualClock(), MemoryNetwork()
    context = Context(
        "c", 16, clock, random.Random(1), node, ADDRESSES, MemoryTransport(clock, node, network), listen="0.0.0.0:7702"
    )
    election = slotreeve_election_fle.build(FleOptions.model_validate({"data_dir": "x", **options}), context)
    assert isinstance(election, FleElection)
    return election


def in_loop(test: object) -> None:
    async def main(_rng: random.Random) -> None:
        assert callable(test)
        test()

    run(main)


def test_all_meta_servers_take_part_at_their_election_ports_unless_told_otherwise() -> None:
    def check() -> None:
        addresses = build("meta-2")._connections._addresses
        assert (addresses.sid, addresses.listen) == (1, "0.0.0.0:7702")
        assert dict(addresses.by_sid) == dict(enumerate(ADDRESSES.values()))

    in_loop(check)


def test_members_are_those_that_are_named_and_every_port_is_shifted() -> None:
    def check() -> None:
        options = {"members": ["meta-3", "meta-1"], "port_shift": -2}
        addresses = build("meta-3", **options)._connections._addresses
        assert (addresses.sid, addresses.listen) == (1, "0.0.0.0:7700")
        assert dict(addresses.by_sid) == {0: "10.0.0.1:7700", 1: "10.0.0.3:7700"}
        stands_by = build("meta-2", **options)
        assert stands_by._connections._addresses.sid is None
        assert stands_by._place.observer

    in_loop(check)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"members": ["meta-1", "meta-4"]}, r"'meta-4' is no meta server; \[cluster.meta\] has meta-1, meta-2, meta-3"),
        ({"port_shift": -8_000}, r"port_shift: -8000 leaves no port for the election at 10.0.0.1:7702"),
        ({"members": ["meta-1"], "weights": {"meta-2": 3}}, r"weights: 'meta-2' is no meta server"),
    ],
)
def test_members_ports_and_weights_that_do_not_fit_are_named(options: dict[str, object], reason: str) -> None:
    def check() -> None:
        with pytest.raises(ConfigError, match=reason):
            build("meta-1", **options)

    in_loop(check)
