"""Traces: which data servers join and leave when. Generated from a seed, or read from a file or recorded history."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from slotreeve import Server, SlotLoad
from slotreeve.errors import ConfigError, ModelError
from slotreeve.model.nodes import MOST_WEIGHT

ZONES = 3
FEWEST = 2
"""Servers at the beginning of a generated trace: one of them may leave."""
LEAST_WEIGHT = 1e-6
START_SECONDS = 60.0
"""Every generated trace begins with a minute of quiet."""
QUIET_SECONDS = 600.0
"""Time after the last change in which a balancer may end its work."""
EXPECTED_FAILURES = 20
REPAIR_SECONDS = 30.0


class MembershipChange(msgspec.Struct, frozen=True):
    """Servers that join and leave at one moment.

    Attributes:
        at_seconds: since the beginning of the trace.
        joins: whole servers; one that joins again may have another zone or weight.
        leaves: names.
    """

    at_seconds: Annotated[float, msgspec.Meta(ge=0)]
    joins: tuple[Server, ...] = ()
    leaves: tuple[str, ...] = ()


class MembershipTrace(msgspec.Struct, frozen=True):
    """One history of a cluster's data servers.

    Attributes:
        name: kind and parameters, unique among the traces of a comparison.
        servers: live at the beginning; at least one.
        changes: in order of time.
        loads: of the slots, the last that was recorded of each; empty if none was.
    """

    name: str
    servers: tuple[Server, ...]
    changes: tuple[MembershipChange, ...]
    loads: dict[int, SlotLoad] = {}


def fleet(number: int) -> tuple[Server, ...]:
    """``number`` servers of equal weight, in three zones."""
    return tuple(Server(f"data-{n + 1:03}", f"zone-{n % ZONES + 1}") for n in range(number))


# --- generated -------------------------------------------------------------------------------------------------------

Make = Callable[[tuple[Server, ...], random.Random], list[MembershipChange]]


def _rolling_restart(down_seconds: float) -> Make:
    """One server after the other is down for a while, in random order, half as long again apart."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        changes, at = list[MembershipChange](), START_SECONDS
        for server in rng.sample(servers, len(servers)):
            changes += [
                MembershipChange(at, leaves=(server.name,)),
                MembershipChange(at + down_seconds, joins=(server,)),
            ]
            at += 1.5 * down_seconds + 5
        return changes

    return make


def _zone_loss(back_after_seconds: float | None) -> Make:
    """All servers of one zone leave at once, and come back at once, or never."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        zone = rng.choice(sorted({server.zone for server in servers}))
        lost = tuple(server for server in servers if server.zone == zone)
        changes = [MembershipChange(START_SECONDS, leaves=tuple(server.name for server in lost))]
        return (
            changes
            if back_after_seconds is None
            else [*changes, MembershipChange(START_SECONDS + back_after_seconds, lost)]
        )

    return make


def _scale_out(share: float, apart_seconds: float = 20.0) -> Make:
    """New servers, ``share`` of those there are but at least one, join one after the other."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        number = max(1, round(share * len(servers)))
        new = fleet(len(servers) + number)[len(servers) :]
        return [
            MembershipChange(START_SECONDS + n * apart_seconds + rng.uniform(0, apart_seconds / 2), (server,))
            for n, server in enumerate(new)
        ]

    return make


def _scale_in(share: float, apart_seconds: float = 20.0) -> Make:
    """Servers, ``share`` of them but at least one and not all, leave one after the other."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        number = min(len(servers) - 1, max(1, round(share * len(servers))))
        return [
            MembershipChange(
                START_SECONDS + n * apart_seconds + rng.uniform(0, apart_seconds / 2), leaves=(server.name,)
            )
            for n, server in enumerate(rng.sample(servers, number))
        ]

    return make


def _flapping(period_seconds: float, times: int = 10) -> Make:
    """One server leaves and joins again and again, half of the period each."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        server, changes = rng.choice(servers), list[MembershipChange]()
        for n in range(times):
            at = START_SECONDS + n * period_seconds
            changes += [
                MembershipChange(at, leaves=(server.name,)),
                MembershipChange(at + period_seconds / 2, joins=(server,)),
            ]
        return changes

    return make


def _poisson(mtbf_seconds: float) -> Make:
    """Every server fails at random, after ``mtbf_seconds`` on average, and is back after half a minute on average; as
    long as about twenty failures take. One server is always left."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        end = EXPECTED_FAILURES * mtbf_seconds / len(servers)
        events = list[tuple[float, bool, Server]]()
        for server in servers:
            at = rng.expovariate(1 / mtbf_seconds)
            while at < end:
                repaired = at + rng.expovariate(1 / REPAIR_SECONDS)
                events += [(at, False, server), (repaired, True, server)]
                at = repaired + rng.expovariate(1 / mtbf_seconds)
        changes, live, kept = list[MembershipChange](), len(servers), set[str]()
        for at, joins, server in sorted(events, key=lambda event: event[0]):
            if not joins and live == 1:
                kept.add(server.name)
            elif joins and server.name in kept:
                kept.remove(server.name)
            else:
                live += 1 if joins else -1
                changes.append(
                    MembershipChange(START_SECONDS + at, *(((server,), ()) if joins else ((), (server.name,))))
                )
        return changes

    return make


def _replacement(apart_seconds: float) -> Make:
    """Every server is replaced by a new one of its zone, which joins before the old one leaves."""

    def make(servers: tuple[Server, ...], rng: random.Random) -> list[MembershipChange]:
        changes, at = list[MembershipChange](), START_SECONDS
        for old in rng.sample(servers, len(servers)):
            changes += [
                MembershipChange(at, (Server(f"{old.name}-new", old.zone, old.weight),)),
                MembershipChange(at + apart_seconds / 2, leaves=(old.name,)),
            ]
            at += apart_seconds
        return changes

    return make


KINDS: dict[str, Make] = {
    "rolling restart, 3 s down": _rolling_restart(3),
    "rolling restart, 15 s down": _rolling_restart(15),
    "rolling restart, 60 s down": _rolling_restart(60),
    "zone lost for 30 s": _zone_loss(30),
    "zone lost for 5 min": _zone_loss(300),
    "zone lost for good": _zone_loss(None),
    "scale out by one": _scale_out(0),
    "scale out by a quarter": _scale_out(0.25),
    "scale out to double": _scale_out(1),
    "scale in by one": _scale_in(0),
    "scale in by a quarter": _scale_in(0.25),
    "scale in to half": _scale_in(0.5),
    "flapping every 2 s": _flapping(2),
    "flapping every 10 s": _flapping(10),
    "flapping every minute": _flapping(60),
    "failures, MTBF 10 min": _poisson(600),
    "failures, MTBF 1 h": _poisson(3_600),
    "failures, MTBF 6 h": _poisson(21_600),
    "replacement every 10 s": _replacement(10),
    "replacement every minute": _replacement(60),
}
"""The twenty generated traces, by name."""


def generate(kind: str, servers: int, seed: int) -> MembershipTrace:
    """A generated trace for ``servers`` servers, at least two; the same for the same arguments. Raises KeyError for no
    kind, ModelError for too few."""
    if servers < FEWEST:
        raise ModelError(f"{servers} servers: there is nothing to balance; expected at least {FEWEST}")
    live = fleet(servers)
    changes = KINDS[kind](live, random.Random(f"{seed}/{kind}"))
    return MembershipTrace(kind, live, tuple(changes))


# --- read ------------------------------------------------------------------------------------------------------------


def read_traces(path: Path) -> list[MembershipTrace]:
    """The traces of a file, one JSON object a line: ``name``, ``servers`` and ``changes``; a server is a list of name,
    zone and weight.

    Raises:
        ConfigError: the file cannot be read or has no trace.
        ModelError: a line is none; names the line and what would be right.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--traces {path}: cannot be read: {error}") from None
    traces = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            traces.append(_read(line, f"{path}, line {number}"))
    if not traces:
        raise ConfigError(f"--traces {path}: there is no trace in it")
    if len({trace.name for trace in traces}) < len(traces):
        raise ModelError(f"{path}: two traces have the same name; names must be unique")
    return traces


def _read(line: str, where: str) -> MembershipTrace:
    try:
        trace = msgspec.json.decode(line, type=MembershipTrace)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ModelError(f"{where}: {error}; a trace is an object with name, servers and changes") from None
    return check(trace, where)


def check(trace: MembershipTrace, where: str) -> MembershipTrace:
    """The trace itself. Raises ModelError if it is out of order, a server joins or leaves twice or is the last, or has
    a weight that no server can have."""
    for server in (*trace.servers, *(server for change in trace.changes for server in change.joins)):
        if not LEAST_WEIGHT <= server.weight <= MOST_WEIGHT:
            raise ModelError(
                f"{where}: {server.name} has the weight {server.weight:g}; expected {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
            )
    live = {server.name for server in trace.servers}
    if not live:
        raise ModelError(f"{where}: no server is there at the beginning; at least one must be")
    for slot, load in trace.loads.items():
        if not min(slot, load.records, load.bytes, load.writes_per_second) >= 0:
            raise ModelError(f"{where}: slot {slot} has the load {load}; no number may be negative")
    last = 0.0
    for change in trace.changes:
        if change.at_seconds < last:
            raise ModelError(f"{where}: a change at {change.at_seconds:g} s follows one at {last:g} s")
        last = change.at_seconds
        if len({*change.leaves}) < len(change.leaves):
            raise ModelError(f"{where}: a server leaves twice at {last:g} s")
        if unknown := sorted(set(change.leaves) - live):
            raise ModelError(f"{where}: {unknown[0]} leaves at {last:g} s, but is not there")
        live -= set(change.leaves)
        live |= _names(change.joins)
        if not live:
            raise ModelError(f"{where}: no server is left at {last:g} s; at least one server must be")
    return trace


def _names(servers: Iterable[Server]) -> set[str]:
    return {server.name for server in servers}
