"""Hypothesis settings of the suites' property tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PROPERTY = settings(
    derandomize=True,
    deadline=None,
    suppress_health_check=[
        # Many classes inherit a contract's test. Hypothesis' name for that is "differing executors".
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
"""Every run tries the same examples, whatever the speed of the machine."""
