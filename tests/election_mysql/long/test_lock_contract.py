"""The election suite against the lock election on a table in memory, on virtual time."""

from __future__ import annotations

from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend

from tests.election_mysql.simulated_backend import HastyBackend, SimulatedBackend


class TestSimulated(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return SimulatedBackend()


class TestHasty(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return HastyBackend()
