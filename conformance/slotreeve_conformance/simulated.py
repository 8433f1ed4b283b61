"""Coroutines on virtual time as tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest

from slotreeve_conformance.virtual_time import run

SEEDS = (1, 2, 3)
Scenario = Callable[[random.Random], Coroutine[None, None, None]]


def simulated(scenario: Scenario) -> Callable[[int], None]:
    """The scenario as a test on virtual time, once for each of three seeds."""

    @pytest.mark.parametrize("seed", SEEDS)
    @wraps(scenario)
    def test(seed: int) -> None:
        run(scenario, seed)

    del test.__wrapped__  # pytest would look at the scenario's parameters
    return test
