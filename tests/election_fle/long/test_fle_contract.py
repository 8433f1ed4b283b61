"""The election suite against FLE, with its own ensemble on virtual time."""

from __future__ import annotations

from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend

from tests.election_fle.fle_backend import FleBackend


class TestFle(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return FleBackend()
