"""What came of a demonstration: which checks held, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotreeve_harness.figures import spread_of

from slotreeve_demo.stage import LEAST_PUBLISHES, DemoOutcome, DemoPlan

KILLS = 3
MOST_LISTED = 100
"""Registrations that the JSON report lists of each kind of difference."""


@dataclass(frozen=True)
class Check:
    """One thing that must be true of an outcome, in words, and whether it is."""

    held: bool
    what: str


def checks(outcome: DemoOutcome) -> list[Check]:
    """Every check of a demonstration."""
    survived = outcome.failovers_ms
    return [
        Check(
            outcome.publishes >= LEAST_PUBLISHES,
            f"{outcome.publishes:,} publishes of {outcome.services:,} names acknowledged",
        ),
        Check(len(survived) == KILLS, f"{len(survived)} kills survived: {', '.join(survived)}"),
        Check(
            outcome.compared > 0 and not outcome.missing,
            f"{len(outcome.missing)} missing of {outcome.compared:,} views",
        ),
        Check(not outcome.stale, f"{len(outcome.stale)} stale"),
        Check(not outcome.vanished, f"{len(outcome.vanished)} vanished from a subscriber's view while published"),
        Check(
            outcome.over_rest > 0 and not outcome.different_over_rest,
            f"{len(outcome.different_over_rest)} of {outcome.over_rest:,} registrations differ over REST",
        ),
        Check(
            len(outcome.latencies_ms) > 0,
            f"{len(outcome.latencies_ms):,} changes seen by subscribers during the kills",
        ),
    ]


def all_held(outcome: DemoOutcome) -> bool:
    """True if no check failed."""
    return all(check.held for check in checks(outcome))


def as_json(outcome: DemoOutcome, plan: DemoPlan, seconds: float) -> dict[str, object]:
    """Everything, for programs."""
    return {
        "held": all_held(outcome),
        "checks": [{"held": check.held, "what": check.what} for check in checks(outcome)],
        "services": outcome.services,
        "publishes": outcome.publishes,
        "acknowledged_per_second": round(outcome.acknowledged_per_second),
        "changes_during_kills": outcome.changes,
        "callbacks": outcome.callbacks,
        "latency_ms": spread_of(outcome.latencies_ms),
        "failover_ms": {what: round(ms, 1) for what, ms in outcome.failovers_ms.items()},
        "moves": outcome.moves,
        "missing": outcome.missing[:MOST_LISTED],
        "stale": outcome.stale[:MOST_LISTED],
        "vanished": outcome.vanished[:MOST_LISTED],
        "over_rest": outcome.over_rest,
        "different_over_rest": outcome.different_over_rest[:MOST_LISTED],
        "reconnections_without_a_death": outcome.reconnections,
        "slowdown": round(outcome.slowdown, 2),
        "seconds_of": outcome.seconds,
        "directory": outcome.directory,
        "seed": plan.seed,
        "seconds": round(seconds, 1),
    }


def figures(outcome: DemoOutcome, plan: DemoPlan) -> list[tuple[str, str]]:
    """The figures for people: what was measured, and how much it was."""
    latency = spread_of(outcome.latencies_ms)
    rows = [
        ("published", f"{outcome.publishes:,} at {outcome.acknowledged_per_second:,.0f} acknowledged a second"),
        (
            "publish -> callback, while servers die",
            f"p50 {latency['p50']:.2f} ms   p99 {latency['p99']:.1f} ms   max {latency['max']:.0f} ms   "
            f"({latency['count']:,} at {plan.rate:g} changes a second)",
        ),
    ]
    for what, milliseconds in outcome.failovers_ms.items():
        moves = outcome.moves.get(what, 0)
        rows.append((f"{what} killed", f"back after {milliseconds:.0f} ms, {moves} places in the slot table moved"))
    return rows


def differences(outcome: DemoOutcome, most: int = 5) -> Sequence[str]:
    """A few registrations of each kind of difference, one line each."""
    return [
        f"{kind.replace('_', ' ')}: {service} {register_id}"
        for kind in ("missing", "stale", "vanished", "different_over_rest")
        for service, register_id in getattr(outcome, kind)[:most]
    ]
