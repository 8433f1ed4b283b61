"""Tests that are coroutines on virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import wraps

import pytest

from slotreeve_conformance.virtual_time import run

SEEDS = (1, 2, 3)
Scenario = Callable[[random.Random], Coroutine[None, None, None]]


def simulated(scenario: Scenario) -> Callable[[int], None]:
    """Make a test of a scenario: it runs on virtual time, once for each of three seeds."""

    @pytest.mark.parametrize("seed", SEEDS)
    @wraps(scenario)
    def test(seed: int) -> None:
        run(scenario, seed)

    del test.__wrapped__  # otherwise pytest takes the scenario's parameters for fixtures
    return test
