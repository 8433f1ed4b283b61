"""The processes that the faults of a storm spare: its core. A client of the core must lose nothing, at any instant.

Which processes these are is drawn with the plan, so that no check has to guess from what happened whether a loss was
the product's (TigerBeetle's simulator, ``src/vopr.zig``, has a core of replicas). Everybody else must converge in the
end.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from slotreeve_simulator.fault_kinds import PARTITIONS, FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.scenario import Scenario

BREAKS = frozenset(
    {
        FaultKind.CUT,
        FaultKind.CUT_CLIENT,
        FaultKind.FLAP_CLIENT,
        FaultKind.BREAK_LINK,
        FaultKind.FLAP_LINK,
        FaultKind.RESET_LINK,
    }
)
"""Connections end, and may be made again at once: that takes nobody anything, so these strike the core, too."""
LINKS = (PARTITIONS | {FaultKind.SLOW_COPIES, FaultKind.SLOW_WAY}) - {FaultKind.CUT_GATEWAY, FaultKind.CUT_OFF_CLIENT}
"""Between the first group and the others little or nothing passes. A gateway is no client of the core, and no client of
the core is cut off from all session servers."""


class Spared(StrEnum):
    """Which servers a storm spares."""

    SESSIONS = "sessions"
    """All session servers: what all clients published is there, whatever becomes of the data servers."""
    DATA = "data"
    """All data servers, and a session server."""
    HOLDERS = "holders"
    """So many data servers that each slot has a copy at one of them, and a session server."""
    LIVES = "lives"
    """No session server ends, or is cut off; but one of them stands still, and forgets nothing by that. Not several:
    one that stands still for so long that its peers go on without it is as good as dead for what it alone knows."""
    NOBODY = "nobody"


KEPT = frozenset({Spared.SESSIONS, Spared.DATA, Spared.HOLDERS})
"""Nothing of a client of the core may be missing."""
EXACT = frozenset({Spared.SESSIONS, Spared.DATA})
"""Nothing of it may be seen in an older state either. In the others, a session server and a slot's leader may end
together that alone knew of a change."""
ENDED = EXACT | {Spared.LIVES}
"""Nothing of it may be seen again after its end."""
STANDING = frozenset(
    {
        FaultKind.PAUSE,
        FaultKind.FREEZE_SESSION,
        FaultKind.STALL,
        FaultKind.STARVE,
        FaultKind.STUTTER,
        FaultKind.SUSPEND,
    }
)
"""Faults by which a process stands still, or is slow, and forgets nothing."""
DATA_DIES = frozenset(
    {
        FaultKind.CRASH_DATA,
        FaultKind.CRASH_HOST,
        FaultKind.CRASH_ZONE,
        FaultKind.LOSE_MACHINE,
        FaultKind.ADD_DATA,
        FaultKind.STOP_SERVER,
        FaultKind.CLOCK_JUMP,
        FaultKind.ISOLATE_DATA,
    }
)
SESSIONS_DIE = frozenset(
    {
        FaultKind.CRASH_SESSION,
        FaultKind.CRASH_HOST,
        FaultKind.CRASH_ZONE,
        FaultKind.LOSE_MACHINE,
        FaultKind.ADD_SESSION,
        FaultKind.STOP_SERVER,
        FaultKind.STOP_SESSION,
        FaultKind.CLOCK_JUMP,
        FaultKind.FREEZE_SESSION,
    }
)
OFTEN = 3
"""What spares nothing that a scenario is about is drawn so many times as often."""
LEFT_OUT = {
    Spared.SESSIONS: frozenset({FaultKind.ADD_SESSION}),
    Spared.LIVES: frozenset({FaultKind.ADD_SESSION}),
    Spared.DATA: frozenset({FaultKind.ADD_DATA}),
    Spared.HOLDERS: frozenset({FaultKind.ADD_DATA}),
    Spared.NOBODY: frozenset[FaultKind](),
}
"""A server that is added is killed in the end, and may have been all that a client had."""


@dataclass(frozen=True)
class Core:
    """The core of one storm.

    Attributes:
        spared: which servers it has.
        servers: their names. No fault ends, stops or slows them, or cuts them off from anybody; session servers alone
            may be cut off from meta servers.
        clients: those that must lose nothing. They may be cut off from other servers than these. No other fault strikes
            them, unless ``are_clients_struck``.
        processes: all of the scenario.
        is_held: the brake holds whatever clients lose for longer than a storm lasts.
        standing: those of the servers that may stand still, or be slow.
    """

    spared: Spared = Spared.NOBODY
    servers: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    processes: tuple[str, ...] = ()
    is_held: bool = False
    standing: frozenset[str] = frozenset()

    @property
    def are_clients_struck(self) -> bool:
        """Whether what must hold of clients holds whatever becomes of them."""
        return self.is_held or self.spared is Spared.LIVES

    def keeps(self, client: str) -> bool:
        """Whether nothing of the client may be missing."""
        return self.spared in KEPT and client in self.clients

    def is_exact(self, client: str) -> bool:
        """Whether nothing of the client may be seen in an older state."""
        return self.spared in EXACT and client in self.clients and not self.is_held

    def knows_ends(self, client: str) -> bool:
        """Whether nothing of the client may be seen again after its end."""
        return self.spared in ENDED and client in self.clients and not self.is_held

    def __str__(self) -> str:
        """For the trace."""
        if self.spared is Spared.NOBODY:
            return "nobody is spared"
        standing = f" ({', '.join(sorted(self.standing))} may stand still)" if self.standing else ""
        return f"spared are {', '.join(sorted(self.servers))}{standing} for {', '.join(sorted(self.clients))}"

    def spare_all(self, faults: Iterable[Fault], rng: random.Random) -> list[Fault]:
        """The faults: one that would strike the core strikes another process of the same role. One that cannot is left
        out."""
        spared = (self._spare(fault, rng) for fault in faults)
        return [fault for fault in spared if fault is not None]

    def _spare(self, fault: Fault, rng: random.Random) -> Fault | None:
        kept = self._kept_from(fault)
        is_late = self.spared is Spared.HOLDERS and fault.kind is FaultKind.SLOW and role_of(fault.first[0]) == "data"
        if fault.kind in LEFT_OUT[self.spared] or is_late:
            return None  # a copy that is late lacks what a leader alone had when it died
        first = _replaced(fault, kept, self.processes, rng)
        if fault.kind not in LINKS or not kept:
            return replace(fault, first=first) if first else None
        others = tuple(name for name in fault.others or self.processes if name not in kept and name not in first)
        return replace(fault, first=first, others=others) if first and others else None

    def _kept_from(self, fault: Fault) -> frozenset[str]:
        """The processes of the core that this fault must not strike."""
        if fault.kind in BREAKS:
            return frozenset()
        roles = {role_of(name) for name in (*fault.first, *fault.others)}
        if fault.kind in LINKS:
            return frozenset() if roles == {"meta", "session"} else self.servers
        if self.spared is Spared.LIVES and fault.kind in STANDING:
            return self.servers - self.standing
        return self.servers if self.are_clients_struck else self.servers | self.clients


NO_CORE = Core()
"""Nobody is spared, and everybody must converge."""


def _replaced(fault: Fault, kept: frozenset[str], processes: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """The processes that the fault strikes in the first place, with others of their roles in place of those kept."""
    struck: list[str] = []
    for name in fault.first:
        if name not in kept:
            struck.append(name)
            continue
        taken = {*kept, *fault.first, *fault.others, *struck}
        free = [other for other in processes if role_of(other) == role_of(name) and other not in taken]
        if free:
            struck.append(rng.choice(free))
    return tuple(struck)


def role_of(name: str) -> str:
    """The role of a process by its name."""
    return name.rpartition("-")[0]


def draw_core(scenario: Scenario, rng: random.Random) -> Core:
    """The core of a storm, by chance."""
    nodes, is_held = scenario.nodes, scenario.faults.is_held
    by_role = nodes.names()
    data, sessions, clients = by_role["data"], by_role["session"], by_role["client"]
    holders = len(data) - min(len(data), int(nodes.settings.get("cluster.replicas", 2))) + 1
    drawn = _draw(frozenset(scenario.faults.kinds), holders < len(data), rng)
    if scenario.faults.spare:
        drawn = Spared(rng.choice(scenario.faults.spare))
    spared = Spared.DATA if is_held else drawn
    if spared is Spared.NOBODY:
        return NO_CORE
    one = [rng.choice(sessions)]
    servers = {
        Spared.SESSIONS: sessions,
        Spared.LIVES: sessions,
        Spared.DATA: [*data, *one],
        Spared.HOLDERS: [*rng.sample(data, holders), *one],
    }[spared]
    some = rng.sample(clients, rng.randint(1, max(1, len(clients) - 1)))
    kept = clients if is_held or spared is Spared.LIVES else some
    standing = frozenset(one if spared is Spared.LIVES else ())
    return Core(spared, frozenset(servers), frozenset(kept), scenario.nodes.processes, is_held, standing)


def _draw(kinds: frozenset[FaultKind], has_holders: bool, rng: random.Random) -> Spared:
    data_dies, sessions_die = bool(kinds & DATA_DIES), bool(kinds & SESSIONS_DIE)
    weights = {
        Spared.SESSIONS: OFTEN if data_dies else 1,
        Spared.DATA: OFTEN if sessions_die else 1,
        Spared.HOLDERS: (OFTEN if data_dies and sessions_die else 1) if has_holders else 0,
        Spared.LIVES: (OFTEN if FaultKind.FREEZE_SESSION in kinds else 1) if data_dies and kinds & STANDING else 0,
        Spared.NOBODY: 1,
    }
    return rng.choices(list(weights), list(weights.values()))[0]


def core_of_recording(scenario: Scenario, faults: Sequence[Fault]) -> Core:
    """The core of a recorded incident: what its actions leave alone, if all session servers or all data servers are."""
    by_role = scenario.nodes.names()
    struck = {name for fault in faults if fault.kind not in BREAKS for name in fault.first}
    alone = {role: [name for name in names if name not in struck] for role, names in by_role.items()}
    clients = frozenset(alone["client"])
    roles = {role_of(name) for name in struck}
    if "session" not in roles:
        return Core(Spared.SESSIONS, frozenset(alone["session"]), clients, scenario.nodes.processes)
    if "data" not in roles and alone["session"]:
        return Core(Spared.DATA, frozenset([*alone["data"], *alone["session"]]), clients, scenario.nodes.processes)
    return NO_CORE
