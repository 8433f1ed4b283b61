"""How the suites' property tests run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PROPERTY = settings(
    derandomize=True,
    deadline=None,
    suppress_health_check=[
        # A contract's test is inherited by many classes: hypothesis calls that differing executors.
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
    ],
)
"""The same examples at every run, on a machine of any speed."""
