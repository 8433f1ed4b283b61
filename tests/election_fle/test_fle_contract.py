from __future__ import annotations

from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend, InstalledBackend


class FleBackend(InstalledBackend):
    name = "fle"
    fail_over_seconds = 0.7
    hand_over_seconds = 0.1


class TestFle(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return FleBackend()
