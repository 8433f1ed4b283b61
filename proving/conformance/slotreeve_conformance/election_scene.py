"""The base of the election suite's tests: it runs a scenario on the nodes of a back-end."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from slotreeve.ports import Context, Election

from slotreeve_conformance.election_backend import ElectionBackend, Store
from slotreeve_conformance.ensemble import Ensemble
from slotreeve_conformance.pytest_plugin import BACKEND_PROPERTY, FIGURE_PROPERTY

Scenario = Callable[[Ensemble], Coroutine[Any, Any, None]]
Record = Callable[[str, object], None]

LONGEST_MEND = 20
"""Changes of leader, the longest ones, that may take place before all nodes follow one leader after faults."""


class ElectionScene:
    """Base class of the suite's classes.

    Attributes:
        backend: the back-end of the running scenario.
        store: its store, if it has one.
    """

    backend: ElectionBackend
    store: Store | None = None

    def make_backend(self) -> ElectionBackend:
        """The back-end under test, a new one for each scenario. A subclass must implement this."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _on_record(self, record_property: Record) -> None:
        self._record = record_property

    def play(self, scenario: Scenario, nodes: int = 3, seed: int = 1, is_load: bool = False) -> None:
        """Run a scenario on ``nodes`` nodes, which are not started yet, and check the invariants at its end.
        ``is_load``: it writes much at once, and the leader must stay."""
        backend = self.backend = self.make_backend()
        if is_load:
            backend.expect_load()
        self._record(BACKEND_PROPERTY, backend.name)

        async def main(rng: random.Random) -> None:
            names = [f"meta-{number}" for number in range(1, nodes + 1)]
            self.store = await backend.open_store()
            try:
                clock = backend.clock()
                async with Ensemble(self._build, backend.network(), names, clock, rng, backend.died) as ensemble:
                    await scenario(ensemble)
                    ensemble.check()
            finally:
                if self.store is not None:
                    await self.store.close()

        backend.run(main, seed)

    def _build(self, context: Context) -> Election:
        return self.backend.build(context)

    @property
    def patience(self) -> float:
        """Seconds: so long after the end of all faults every node follows one leader again."""
        return LONGEST_MEND * self.backend.fail_over_seconds

    def measured(self, figure: str) -> None:
        """Show this with the result of the test."""
        self._record(FIGURE_PROPERTY, figure)
