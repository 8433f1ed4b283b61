"""The plan: all faults and all calls of clients, drawn from the seed before the run.

A plan does not depend on the run, so leaving out a part of it does not change the rest
(:mod:`slotreeve_simulator.shrink`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from slotreeve_conformance.topologies import all_symmetric, random_one_way

from slotreeve_simulator.fault_kinds import ALONE, STORE_FAULTS, FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.recorded import Recording
from slotreeve_simulator.scenario import FaultPlan, Scenario
from slotreeve_simulator.spared import NO_CORE, Core, core_of_recording, draw_core

META_FAULTS = (ALONE - {FaultKind.TOPOLOGY}) | {
    FaultKind.CRASH_META,
    FaultKind.WIPE_META,
    FaultKind.FULL_DISK,
    FaultKind.SLOW_DISK,
    FaultKind.STORE_CUT,
}
SESSION_FAULTS = frozenset({FaultKind.CRASH_SESSION, FaultKind.FREEZE_SESSION, FaultKind.STOP_SESSION})
CLIENT_FAULTS = frozenset(
    {
        FaultKind.CRASH_CLIENT,
        FaultKind.CLOSE_CLIENT,
        FaultKind.PAUSE_CLIENT,
        FaultKind.CUT_CLIENT,
        FaultKind.FLAP_CLIENT,
        FaultKind.SLOW_CLIENT,
    }
)
LONGEST_RESET_SECONDS = 1.5
"""Half of the grace: clients behind a link that comes back within it lose nothing."""
ANY_PROCESS_FAULTS = frozenset({FaultKind.STARVE, FaultKind.STUTTER, FaultKind.STALL})


class CallKind(StrEnum):
    """The kind of a call."""

    PUBLISH = "publish"
    REPUBLISH = "republish"
    UNPUBLISH = "unpublish"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    GET = "get"
    MISTAKE = "mistake"
    """A call with what no message can carry."""


CALL_WEIGHTS = {
    CallKind.PUBLISH: 3,
    CallKind.REPUBLISH: 6,
    CallKind.UNPUBLISH: 3,
    CallKind.SUBSCRIBE: 1,
    CallKind.UNSUBSCRIBE: 1,
    CallKind.GET: 3,
}


@dataclass(frozen=True)
class Call:
    """One call of one client. ``pick`` chooses among its services or publications, where ``service`` (a number) is
    given among its publications of that service."""

    at: float
    client: int
    kind: CallKind
    pick: int
    service: int | None = None


@dataclass(frozen=True)
class Storm:
    """A storm: some seconds of faults and calls, in the order of their times, and what the faults spare."""

    faults: tuple[Fault, ...]
    calls: tuple[Call, ...]
    core: Core = NO_CORE


@dataclass(frozen=True)
class Cut:
    """The part of a plan that is kept: the faults ``only`` (None: all) and the first ``calls`` share of the calls. A
    storm without any fault is left out."""

    only: Collection[int] | None = None
    calls: float = 1.0

    def apply(self, storms: list[Storm]) -> list[Storm]:
        """The rest of a plan."""
        kept = [self._of(storm) for storm in storms]
        return kept if self.only is None else [storm for storm in kept if storm.faults] or kept[:1]

    def _of(self, storm: Storm) -> Storm:
        faults = storm.faults
        if self.only is not None:
            faults = tuple(fault for fault in faults if fault.number in self.only)
        return replace(storm, faults=faults, calls=storm.calls[: math.ceil(len(storm.calls) * self.calls)])


def plan(scenario: Scenario, seed: int, minutes: float) -> list[Storm]:
    """The storms of a run of so many virtual minutes. A longer run begins with the same storms as a shorter one. A
    recorded incident is one storm, whatever the minutes."""
    if scenario.recorded is not None:
        recorded = _recorded(scenario.recorded, scenario.faults.storm_seconds, seed)
        return [replace(recorded, core=core_of_recording(scenario, recorded.faults))]
    storms: list[Storm] = []
    count = max(1, round(minutes * 60 / scenario.faults.storm_seconds))
    numbered = 0
    for number in range(count):
        rng = random.Random(f"{seed}/storm/{number}")
        drawn = _aimed(scenario, rng, seed * count + number) if scenario.faults.aims else _faults(scenario, rng)
        chance = random.Random(f"{seed}/core/{number}")
        core = draw_core(scenario, chance)
        faults = [replace(fault, number=numbered + i) for i, fault in enumerate(core.spare_all(drawn, chance))]
        numbered += len(faults)
        storms.append(Storm(tuple(faults), tuple(_calls(scenario, rng)), core))
    return storms


def _faults(scenario: Scenario, rng: random.Random) -> list[Fault]:
    rules = scenario.faults
    weights = {kind: weight for kind, weight in rules.kinds.items() if weight > 0}
    if not weights:
        return []
    chosen = [_weighted(rng, weights) for _ in range(rng.randint(*rules.kinds_per_storm))]
    victims = _Victims(scenario, rng)
    faults = [_fault(rules, rng, rng.choice(chosen), victims) for _ in range(rng.randint(*rules.per_storm))]
    return sorted(faults, key=lambda fault: fault.at)


def _fault(rules: FaultPlan, rng: random.Random, kind: FaultKind, victims: _Victims) -> Fault:
    first, others = victims.of(kind)
    shortest, longest = (max(x, 1e-3) for x in rules.lasting_seconds)
    seconds = shortest * (longest / shortest) ** rng.random()  # as many short ones as long ones
    if kind is FaultKind.RESET_LINK:
        seconds = min(seconds, LONGEST_RESET_SECONDS)
    at = rng.uniform(0.0, 0.7 * rules.storm_seconds)
    return Fault(0, at, kind, min(seconds, rules.storm_seconds - at), first, others, rng.random())


def _aimed(scenario: Scenario, rng: random.Random, storm: int) -> list[Fault]:
    """Faults that are aimed at states: one storm after the other goes through all kinds and states."""
    rules = scenario.faults
    cells = [(kind, state) for state in rules.aims for kind in rules.kinds]
    random.Random(0).shuffle(cells)  # those of one storm have nothing in common
    victims, most = _Victims(scenario, rng), rules.per_storm[1]
    faults = []
    for number in range(storm * most, (storm + 1) * most):
        kind, state = cells[number % len(cells)]
        fault = _fault(rules, rng, kind, victims)
        faults.append(replace(fault, at=fault.at / 2, aimed_at=state))  # there is time to wait for the state
    step = rules.storm_seconds * 0.8 / max(1, len(rules.triggers))
    for number, kind in enumerate(rules.triggers):
        faults.append(replace(_fault(rules, rng, kind, victims), at=number * step, seconds=step / 2))
    return sorted(faults, key=lambda fault: fault.at)


def _weighted(rng: random.Random, weights: dict[FaultKind, float]) -> FaultKind:
    return rng.choices(list(weights), list(weights.values()))[0]


class _Victims:
    """Draws the processes that a fault strikes."""

    def __init__(self, scenario: Scenario, rng: random.Random) -> None:
        nodes, self._rng = scenario.nodes, rng
        names = nodes.names()
        self._meta, self._data, self._sessions = names["meta"], names["data"], names["session"]
        self._clients, self._gateways = names["client"], names["gateway"]
        self._servers = [*self._meta, *self._data, *self._sessions]
        self._added = f"data-{nodes.data + 1}"
        self._pools: dict[FaultKind, list[str]] = {
            **dict.fromkeys(META_FAULTS, self._meta),
            **dict.fromkeys((FaultKind.CRASH_DATA, FaultKind.ISOLATE_DATA), self._data),
            **dict.fromkeys(SESSION_FAULTS, self._sessions),
            **dict.fromkeys(CLIENT_FAULTS, self._clients),
            **dict.fromkeys((FaultKind.CRASH_GATEWAY, FaultKind.PAUSE_GATEWAY), self._gateways),
            FaultKind.STOP_SERVER: [*self._data, *self._sessions],
            **dict.fromkeys((FaultKind.PAUSE, FaultKind.SLOW, FaultKind.CLOCK_JUMP), self._servers),
            **{kind: [*self._servers, *self._clients] for kind in ANY_PROCESS_FAULTS},
        }

    def of(self, kind: FaultKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        pick = self._rng.choice
        if kind in self._pools:
            return (pick(self._pools[kind]),), ()
        if kind in STORE_FAULTS:
            return ("store",), ()
        match kind:
            case FaultKind.ADD_DATA:
                return (self._added,), ()
            case FaultKind.ADD_SESSION:
                return (f"session-{len(self._sessions) + 1}",), ()
            case FaultKind.ADD_CLIENT:
                return (f"client-{len(self._clients) + 1}",), ()
            case FaultKind.STALL_CLIENTS:
                return tuple(self._clients), ()
            case FaultKind.POWER_CUT:
                return tuple(self._meta), ()
            case FaultKind.TOPOLOGY:
                return self._topology()
            case FaultKind.SUSPEND:
                processes = [*self._servers, *self._clients]
                return tuple(sorted(self._rng.sample(processes, self._rng.randint(1, 3)))), ()
            case FaultKind.CUT_OFF_CLIENT:
                return (pick(self._clients),), tuple(self._sessions)
            case FaultKind.CUT_ZONE:
                zone = pick(self._data), pick(self._sessions)
                return zone, tuple(name for name in self._servers if name not in zone)
            case FaultKind.CUT_CONTROL:
                return tuple(self._data), tuple(self._meta)
            case FaultKind.CUT_CLIENT_LINK:
                return (pick(self._clients),), (pick(self._sessions),)
            case FaultKind.CRASH_ZONE:
                clients = self._rng.sample(self._clients, self._rng.randint(1, max(1, len(self._clients) // 2)))
                return (pick(self._data), pick(self._sessions), *sorted(clients)), ()
            case FaultKind.LOSE_MACHINE:
                return (pick([*self._data, *self._sessions]),), ()
            case FaultKind.CRASH_HOST:
                return (pick(self._data), pick(self._sessions)), ()
            case FaultKind.BREAK_LINK | FaultKind.FLAP_LINK | FaultKind.RESET_LINK:
                return (pick(self._sessions),), (pick(self._data),)
            case FaultKind.CUT_GATEWAY:
                return (pick(self._gateways),), tuple(self._sessions)
            case FaultKind.CUT_META:
                return (pick([*self._data, *self._sessions]),), tuple(self._meta)
            case FaultKind.CUT_STREAM | FaultKind.SLOW_COPIES:
                first, other = self._rng.sample(self._data, 2)
                return (first,), (other,)
            case FaultKind.CUT_LINK | FaultKind.CUT_LINK_ONE_WAY:
                first, other = self._rng.sample([*self._servers, *self._clients], 2)
                return (first,), (other,)
            case FaultKind.CUT_ROLES:
                roles = [self._meta, self._data, self._sessions, self._clients]
                some, others = self._rng.sample(roles, 2)
                return tuple(some), tuple(others)
            case FaultKind.CUT | FaultKind.SLOW_WAY:
                first, other = self._rng.sample(self._servers, 2)
                return (first,), (other,)
            case FaultKind.PARTITION:
                processes = [*self._servers, *self._clients]
                size = self._rng.randint(1, len(processes) // 2)
                some = sorted(self._rng.sample(processes, size))
                return tuple(some), tuple(name for name in processes if name not in some)
            case FaultKind.PARTITION_ONE_WAY:
                processes = [*self._servers, *self._clients]
                source = pick(processes)
                rest = [name for name in processes if name != source]
                return (source,), tuple(sorted(self._rng.sample(rest, self._rng.randint(1, len(rest)))))
        raise AssertionError(kind)

    def _topology(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Links between meta servers that are cut in both directions, or each direction for itself."""
        is_symmetric = self._rng.random() < 0.5
        drawn = (
            self._rng.choice(list(all_symmetric(self._meta))) if is_symmetric else random_one_way(self._meta, self._rng)
        )
        links = sorted(drawn)
        return tuple(source for source, _ in links) or (self._meta[0],), tuple(target for _, target in links)


def _calls(scenario: Scenario, rng: random.Random) -> list[Call]:
    work, seconds = scenario.workload, scenario.faults.storm_seconds
    kinds, weights = list(CALL_WEIGHTS), list(CALL_WEIGHTS.values())
    times = sorted(rng.uniform(0.0, seconds) for _ in range(round(work.calls_per_second * seconds)))
    calls = [
        Call(at, rng.randrange(scenario.nodes.clients), rng.choices(kinds, weights)[0], rng.getrandbits(32))
        for at in times
    ]
    calls += [
        Call(rng.uniform(0.0, seconds), rng.randrange(scenario.nodes.clients), CallKind.MISTAKE, rng.getrandbits(32))
        for _ in range(round(work.mistakes_per_second * seconds))
    ]
    return sorted(calls, key=lambda call: call.at)


def _recorded(recording: Recording, seconds: float, seed: int) -> Storm:
    """The recorded actions at their times; of the churn only the number of calls is recorded, so the seed decides their
    times."""
    actions = sorted(recording.actions, key=lambda action: action.at)
    faults = tuple(
        Fault(number, action.at, action.kind, action.seconds, (action.node,)) for number, action in enumerate(actions)
    )
    rng = random.Random(f"{seed}/recorded")
    calls = []
    for churn in recording.churn:
        service, publishers = recording.services.index(churn.service), recording.publishers_of(churn.service)
        counts = (churn.publishes, churn.republishes, churn.unpublishes)
        for kind, count in zip((CallKind.PUBLISH, CallKind.REPUBLISH, CallKind.UNPUBLISH), counts, strict=True):
            for _ in range(count):
                pick = service if kind is CallKind.PUBLISH else rng.getrandbits(32)
                calls.append(Call(rng.uniform(0.0, seconds), rng.choice(publishers), kind, pick, service))
    return Storm(faults, tuple(sorted(calls, key=lambda call: call.at)))
