"""Finds which invariants a history breaks. Pure; works on the history of any system."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from slotreeve_chaos.lease_checks import LeaseChecks

GONE_BOUND_SECONDS = 15.0
"""How long after the death of its provider a registration may still be seen, whatever else fails at that time. The time
in which the run itself got no processor is added: it does not see in time that the registration goes."""


@dataclass(frozen=True)
class HistoryViolation:
    """One broken invariant.

    Attributes:
        t: when it was seen, seconds since the run began.
        invariant: its number in docs/invariants.md, ``I7``; ``health`` for an exception that a server logged.
        what: a sentence for people.
    """

    t: float
    invariant: str
    what: str


@dataclass
class HistoryVerdict:
    """The result of checking a history."""

    violations: list[HistoryViolation] = field(default_factory=list)
    records: int = 0
    callbacks: int = 0
    published: int = 0
    missing: int = 0
    stale: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    gone_after_seconds: list[float] = field(default_factory=list)
    leases: int = 0
    leases_gone_after_seconds: list[float] = field(default_factory=list)
    leaders: dict[int, str] = field(default_factory=dict)


class Checker:
    """Feed it every record in order, then ask for the verdict.

    It makes no allowance for faults. At any time a run leaves every client a session server that it can reach, so no
    instance of a client that lives may disappear, whatever is cut, frozen or short of processor time.
    """

    def __init__(self) -> None:
        self.verdict = HistoryVerdict()
        self._service_of: dict[str, str] = {}
        self._steady: dict[str, set[str]] = {}
        self._ended: dict[str, float] = {}
        self._died: dict[str, float] = {}
        self._views: dict[tuple[str, str], dict[str, int]] = {}
        self._versions: dict[tuple[str, str], int] = {}
        self._late: list[tuple[float, float]] = []
        self._last_seen: dict[str, float] = {}
        self._term = self._epoch = self._revision = 0
        self._leases = LeaseChecks()
        self.verdict.leases_gone_after_seconds = self._leases.lapsed_seconds

    def check(self, records: Iterable[dict[str, Any]]) -> HistoryVerdict:
        """Take all records; returns the verdict."""
        for record in records:
            self.verdict.records += 1
            method = getattr(self, f"_on_{record['kind']}", None)
            if method is not None:
                method(record)
        self._check_the_dead()
        self.verdict.leases = self._leases.registered
        return self.verdict

    def _broken(self, record: dict[str, Any], invariant: str, what: str) -> None:
        self.verdict.violations.append(HistoryViolation(record["t"], invariant, what))

    def _on_published(self, record: dict[str, Any]) -> None:
        self.verdict.published += 1
        self._service_of[record["register_id"]] = record["service"]
        self._steady.setdefault(record["service"], set()).add(record["register_id"])

    def _on_subscribed(self, record: dict[str, Any]) -> None:
        self._views.setdefault((record["subscriber"], record["service"]), {})

    def _on_late(self, record: dict[str, Any]) -> None:
        self._late.append((record["t"], record["seconds"]))

    def _on_ended(self, record: dict[str, Any]) -> None:
        self._steady[record["service"]].discard(record["register_id"])
        self._ended[record["register_id"]] = record["t"]

    def _on_died(self, record: dict[str, Any]) -> None:
        for register_id in record["register_ids"]:
            self._steady[self._service_of[register_id]].discard(register_id)
            self._died[register_id] = record["t"]

    def _on_leased(self, record: dict[str, Any]) -> None:
        self._leases.leased(record)

    def _on_renewed(self, record: dict[str, Any]) -> None:
        self._leases.renewed(record)

    def _on_lapses(self, record: dict[str, Any]) -> None:
        self._leases.lapses(record)

    def _on_unknown(self, record: dict[str, Any]) -> None:
        for what in self._leases.unknown(record):
            self._broken(record, "I16", what)

    def _on_seen(self, record: dict[str, Any]) -> None:
        self.verdict.callbacks += 1
        key = (record["subscriber"], record["service"])
        before, instances = self._views.get(key, {}), record["instances"]
        # I11: versions only rise, and with them what each provider published.
        if record["version"] <= self._versions.get(key, 0):
            self._broken(record, "I11", f"{key} went from version {self._versions[key]} to {record['version']}")
        for register_id, sequence in instances.items():
            if sequence < before.get(register_id, 0):
                self._broken(record, "I11", f"{key} saw {register_id} at {before[register_id]}, then at {sequence}")
        # I14, and with it I7 and I12: what was seen and never ended is never missing. No fault of a run is a reason.
        for register_id in self._steady.get(record["service"], set()) & before.keys() - instances.keys():
            self._broken(record, "I14", f"{key} no longer sees {register_id}, which never ended")
        for what in self._leases.disappeared(record, before.keys() - instances.keys()):
            self._broken(record, "I16", f"{key}: {what}")
        for register_id in instances:
            self._last_seen[register_id] = record["t"]
        for register_id in before.keys() - instances.keys():
            self._last_seen[register_id] = record["t"]
        self._versions[key], self._views[key] = record["version"], instances

    def _on_leader(self, record: dict[str, Any]) -> None:
        leader, term = record["leader"], record["term"]
        if leader is not None and self.verdict.leaders.setdefault(term, leader) != leader:
            self._broken(record, "I1", f"term {term} has two leaders: {self.verdict.leaders[term]} and {leader}")

    def _on_view(self, record: dict[str, Any]) -> None:
        now = (record["revision"], record["epoch"], record["term"])
        if now[0] < self._revision:
            return  # an answer of a server that lags behind
        if now[1] < self._epoch or now[2] < self._term:
            self._broken(
                record, "I4", f"after revision {self._revision} (epoch {self._epoch}, term {self._term}): {now}"
            )
        self._revision, self._epoch, self._term = now

    def _on_fault(self, record: dict[str, Any]) -> None:
        if record["phase"] == "begin":
            self.verdict.faults[record["what"]] = self.verdict.faults.get(record["what"], 0) + 1

    def _on_raised(self, record: dict[str, Any]) -> None:
        self._broken(record, "health", f"{record['server']} logged an exception: {record['what']}")

    def _on_final(self, record: dict[str, Any]) -> None:
        expected = record["expected"]
        for (subscriber, service), seen in self._views.items():
            wanted = expected.get(service, {})
            for register_id, sequence in wanted.items():
                if register_id not in seen:
                    self.verdict.missing += 1
                    self._broken(record, "I8", f"{subscriber} does not see {register_id} of {service}")
                elif seen[register_id] != sequence:
                    self.verdict.stale += 1
                    self._broken(
                        record, "I8", f"{subscriber} sees {register_id} at {seen[register_id]}, not {sequence}"
                    )
            for register_id in seen.keys() - wanted.keys():
                if self._leases.may_remain(register_id):
                    late = sum(seconds for _, seconds in self._late)
                    if what := self._leases.overdue(register_id, record["t"], late):
                        self._broken(record, "I16", f"{subscriber}: {what}")
                    continue
                self.verdict.stale += 1
                self._broken(record, "I9", f"{subscriber} still sees {register_id} of {service}, which has ended")

    def _check_the_dead(self) -> None:
        for register_id, died in self._died.items():
            after = max(0.0, self._last_seen.get(register_id, died) - died)
            self.verdict.gone_after_seconds.append(after)
            late = sum(seconds for t, seconds in self._late if died <= t <= died + after)
            if after > GONE_BOUND_SECONDS + late:
                what = f"{register_id} was seen for {after:.1f} s after its provider died"
                self.verdict.violations.append(HistoryViolation(died + after, "I9", what))
