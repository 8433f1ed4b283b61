"""Tests that are coroutines on virtual time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps

import pytest

from slotreeve_conformance.virtual_time import run

VARIABLE = "SLOTREEVE_SEEDS"
Scenario = Callable[[random.Random], Coroutine[None, None, None]]


def seeds(usual: int) -> Sequence[int]:
    """Seeds from 1 on, so many as usual, or those that SLOTREEVE_SEEDS names in the environment, as ``7,8,9``."""
    if named := os.environ.get(VARIABLE):
        return [int(seed) for seed in named.split(",")]
    return range(1, usual + 1)


def simulated(scenario: Scenario) -> Callable[[int], None]:
    """Make a test of a scenario: it runs on virtual time, once, or for each seed of SLOTREEVE_SEEDS."""

    @pytest.mark.parametrize("seed", seeds(1))
    @wraps(scenario)
    def test(seed: int) -> None:
        run(scenario, seed)

    del test.__wrapped__  # otherwise pytest takes the scenario's parameters for fixtures
    return test
