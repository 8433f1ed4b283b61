from __future__ import annotations

from collections.abc import Callable

import pytest
import slotreeve_election_fle
from slotreeve.ports import Context, Election
from slotreeve_election_fle import FleOptions
from slotreeve_testing.conformance.election import ElectionContract
from slotreeve_testing.conformance.ensemble import Network


class TestFle(ElectionContract):
    fail_over_seconds = 0.7
    hand_over_seconds = 0.1

    @pytest.fixture(autouse=True)
    def _on_the_network(self, network: Callable[[], Network]) -> None:
        self._network = network

    def build(self, context: Context) -> Election:
        return slotreeve_election_fle.build(FleOptions(data_dir="data"), context)

    def network(self) -> Network:
        return self._network()
