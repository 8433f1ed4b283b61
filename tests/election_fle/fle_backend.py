"""The installed plugin ``fle`` as the election suite builds it."""

from __future__ import annotations

from slotreeve_conformance.election_backend import InstalledBackend


class FleBackend(InstalledBackend):
    name = "fle"
    fail_over_seconds = 0.7
    hand_over_seconds = 0.1
