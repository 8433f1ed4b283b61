"""Registrations under a lease, from threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slotreeve.errors import ModelError
from slotreeve_client.blocking_leases import BlockingLeases
from slotreeve_client.leases import Lease, LeaseAnswers
from slotreeve_client.threads import BlockingClient, connect_blocking
from slotreeve_harness.registry_thread import RegistryThread


@pytest.fixture(scope="module")
def client() -> Iterator[BlockingClient]:
    with RegistryThread() as server, connect_blocking(server.session_address) as client:
        yield client


def test_threads_register_renew_and_end_leases(client: BlockingClient) -> None:
    leases: BlockingLeases = client.leases
    leases.register("blocking", "a", "x", ttl_seconds=30)
    answers = leases.register_many([Lease("blocking", "b", ("y",)), Lease("blocking", "c", ("z",))])
    assert answers == LeaseAnswers()
    assert {i.data for i in client.get("blocking")} == {(b"x",), (b"y",), (b"z",)}
    assert leases.renew("blocking", "a", "d") == {"d"}
    assert leases.renew_many({"blocking": ["a", "b"]}) == LeaseAnswers()
    assert leases.deregister("blocking", "a")
    assert not leases.deregister("blocking", "a")
    assert leases.deregister_many({"blocking": ["b", "c"]}) == LeaseAnswers()
    assert client.get("blocking") == ()
    with pytest.raises(ModelError):
        leases.register("blocking", "a", ttl_seconds=0)
