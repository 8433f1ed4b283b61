"""The election suite for the elections that the command line names; see :mod:`slotreeve_conformance.pytest_plugin`."""

from __future__ import annotations

import pytest

from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend
from slotreeve_conformance.election_choice import Choice


class TestElection(ElectionContract):
    """Collected if ``--election`` is given."""

    @pytest.fixture(autouse=True)
    def _chosen(self, election_choice: Choice) -> None:
        self._choice = election_choice

    def make_backend(self) -> ElectionBackend:
        """A new instance of the chosen back-end."""
        return self._choice.backend()
