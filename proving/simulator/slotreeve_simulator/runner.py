"""One run of a scenario with a seed."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from slotreeve.errors import RequestTimeout
from slotreeve_conformance.virtual_time import START_SECONDS, VirtualLoop, run
from slotreeve_servers.data.endings.ending import DRIFT
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.meta.members.unreached import FIRST_LEASES
from slotreeve_servers.meta.server import MetaServer

from slotreeve_simulator import bounds
from slotreeve_simulator.aims import Struck
from slotreeve_simulator.clients_watch import ClientsWatch
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.configs_watch import ConfigsWatch
from slotreeve_simulator.copies_watch import CopiesWatch
from slotreeve_simulator.followers import follower_difference
from slotreeve_simulator.gateway_watch import GatewayWatch
from slotreeve_simulator.health import listening
from slotreeve_simulator.injector import Injector
from slotreeve_simulator.lease_callers import TTLS_SECONDS, LeaseCallers
from slotreeve_simulator.lease_watch import LeaseWatch, longest_end
from slotreeve_simulator.leftovers import leftover
from slotreeve_simulator.order_probes import OrderProbes
from slotreeve_simulator.plan import Cut, Storm, plan
from slotreeve_simulator.probes import Probes
from slotreeve_simulator.scenario import Scenario
from slotreeve_simulator.server_probes import ServerProbes
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.simulated_gateways import SimulatedGateways
from slotreeve_simulator.simulated_operator import Operator
from slotreeve_simulator.state_clients import StateClients
from slotreeve_simulator.symptom import SymptomWatch
from slotreeve_simulator.trace import Trace, Weight
from slotreeve_simulator.verdict import RunVerdict, Violation
from slotreeve_simulator.workload import Clients

READY_SECONDS = 30.0
POLL_SECONDS = 0.05
LOOK_EVERY_SECONDS = 0.01
"""Interval of the checks that look at every server. A lease lasts fifty times as long."""
LEFTOVER_SECONDS = 15.0
"""What is held back of lost clients is looked at within four times the grace."""
UNDER_WAY_SECONDS = 0.5
STILL_SECONDS = 3.0
"""A slot table that has not changed for so long stands still: a balancer is asked every second."""
PARTED_SECONDS = 6.0
"""Longer than any lease lasts. A follower that does not confirm is taken out of the set by then: that takes 1.5 s and a
commit."""
GO_ON_SECONDS = 3.0
"""Each caller must have had success by then: it calls twice a second, and a call may take half of this time."""
LOST_STATE_SECONDS = 60.0
"""New meta servers wait for the members, who know the newest view."""
EVERYTHING = Cut()


@dataclass(frozen=True)
class Result:
    """The result of one run.

    Attributes:
        violation: the first broken invariant; None if all held.
        trace_hash: equal for two runs exactly if their traces are.
        virtual_seconds: duration of the run.
        events: number of lines of the trace.
        faults: number of faults.
        longest_heal_seconds: longest virtual time from the end of a storm until the cluster had recovered.
        lines: the trace, for people.
        struck: number of faults by their kind and the state of the cluster in which they struck.
    """

    seed: int
    violation: Violation | None
    trace_hash: str
    virtual_seconds: float
    events: int
    faults: tuple[int, ...]
    longest_heal_seconds: float
    lines: list[str] = field(repr=False)
    struck: Struck = field(repr=False, default_factory=Counter)


def simulate(
    scenario: Scenario, seed: int, minutes: float | None = None, cut: Cut = EVERYTHING, last_details: int = 30
) -> Result:
    """Run ``scenario`` with ``seed`` up to the first violation, by default for the scenario's virtual minutes of
    faults. ``cut`` leaves out a part of the plan. All random numbers come from ``seed``."""
    storms = cut.apply(plan(scenario, seed, scenario.minutes if minutes is None else minutes))
    # Garbage collection takes a fifth of a run's time and finds little, because most objects last as long as the run.
    gc.disable()
    try:
        with bounds.changed(scenario.bounds):
            return run(lambda _rng: _simulate(scenario, seed, storms, last_details), seed)
    finally:
        gc.enable()


async def _simulate(scenario: Scenario, seed: int, storms: list[Storm], last_details: int) -> Result:
    return await _Run(scenario, seed).result(storms, last_details)


class _Run:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self._trace = Trace(self._now)
        self._verdict = RunVerdict(self._trace)
        self._cluster = ScenarioCluster(scenario, seed)
        replicas = int(scenario.nodes.settings.get("cluster.replicas", 2))
        self._watch = ServersWatch(self._cluster, replicas, self._now, self._trace, self._verdict)
        self._symptom = SymptomWatch(scenario.symptom, self._verdict, self._now)
        self._clients_watch = ClientsWatch(
            self._trace, self._verdict, self._symptom, lambda service: self._leases.version_of(service)
        )
        configs = ConfigsWatch(self._verdict)
        self._clients = Clients(scenario, seed, self._cluster, self._clients_watch, configs, self._trace)
        self._operator = Operator(scenario, seed, self._cluster, (self._watch, configs), self._trace, self._verdict)
        self._state_clients = StateClients(scenario.workload.state_clients, seed, self._cluster)
        copies = CopiesWatch(replicas, self._watch, self._verdict)
        self._leases = LeaseWatch(self._cluster, copies, self._now, self._trace, self._verdict)
        self._gateways = SimulatedGateways(scenario.nodes.gateway, seed, self._cluster)
        self._lease_callers = LeaseCallers(
            scenario.workload,
            seed,
            self._cluster,
            self._leases,
            GatewayWatch(self._gateways, self._leases, self._verdict),
            self._trace,
            self._now,
        )
        self._injector = Injector(
            self._cluster, self._clients, self._gateways, self._watch, self._trace, self._verdict, self._now
        )
        longest_delay = scenario.network.delay_ms[1] / 1000
        self._probes = Probes(self._cluster, self._clients, longest_delay, self._trace, self._verdict)
        self._server_probes = ServerProbes(
            self._cluster, self._watch, configs, longest_delay, self._trace, self._verdict
        )
        self._order_probes = OrderProbes(
            self._cluster,
            self._clients,
            self._operator,
            (self._clients_watch, self._watch),
            scenario.faults.heal_seconds,
            self._trace,
            self._verdict,
        )
        self._faults: list[int] = []
        self._longest_heal = 0.0
        self._next_look = 0.0

    def _now(self) -> float:
        return self._loop.time() - START_SECONDS

    async def result(self, storms: list[Storm], last_details: int) -> Result:
        """Run all storms, up to the first violation."""
        with listening(self._verdict):
            life = self._loop.create_task(self._live(storms), name="simulation")
            either: set[asyncio.Future[Any]] = {life, self._verdict.settled}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            self._loop.after_every_turn(lambda: None)
            if life.done():
                life.result()
            else:
                life.cancel()
        return Result(
            self._seed,
            self._verdict.violation,
            self._trace.hash,
            self._now(),
            self._trace.events,
            tuple(self._faults),
            self._longest_heal,
            self._trace.lines(last_details if self._verdict.violation else 0),
            self._injector.aims.struck,
        )

    def _look(self) -> None:
        self._watch.look_at_views()
        now = self._loop.time()
        if now >= self._next_look:
            self._next_look = now + LOOK_EVERY_SECONDS
            self._watch.look()
            self._leases.look()
            self._clients_watch.look()

    async def _live(self, storms: list[Storm]) -> None:
        self._trace.note(Weight.FAULT, f"scenario {self._scenario.name}, seed {self._seed}")
        self._loop.after_every_turn(self._look)
        for name in self._cluster.names:
            await self._cluster.start(name)
        self._clients.come_all()
        await self._until_well("the new cluster", READY_SECONDS)
        self._state_clients.come_all()
        self._gateways.come_all()
        self._lease_callers.come_all()
        self._operator.come()
        self._server_probes.back_up()
        for number, storm in enumerate(storms):
            if self._verdict.violation is None:
                await self._storm(number, storm)
        for probe in (
            self._probes.death_beside_an_unreached_server,
            self._server_probes.end_together,
        ):
            if self._verdict.violation is None:
                self._watch.calm_since = None
                await probe(random.Random(f"{self._seed}/{probe.__name__}"))
                await self._until_well("the cluster after a probe", self._scenario.faults.heal_seconds)
                self._watch.leaving.clear()
        if self._verdict.violation is None:
            await self._moves_end(self._scenario.faults.heal_seconds)
        await self._state_clients.leave_all()
        if self._scenario.faults.loses_state and self._verdict.violation is None:
            self._watch.calm_since = None
            await self._operator.order_what_is_lost()
            await asyncio.sleep(STILL_SECONDS)
            await self._server_probes.state_is_lost(random.Random(f"{self._seed}/lost"))
            await self._until_well("the cluster whose meta state is lost", LOST_STATE_SECONDS)
            await self._moves_end(self._scenario.faults.heal_seconds)
            if (problem := await self._leftover()) is not None:
                self._verdict.violate("convergence", f"after the loss of the meta state, {problem}")
            await self._probes.change()
            await self._operator.write_each()
            await self._order_probes.one(random.Random(f"{self._seed}/order after a loss"))
            await self._until_well("the cluster that begins anew", self._scenario.faults.heal_seconds)
        await self._lease_callers.leave_all()
        await self._gateways.leave_all()

    async def _storm(self, number: int, storm: Storm) -> None:
        self._trace.note(Weight.FAULT, f"storm {number + 1} begins; {storm.core}")
        self._clients_watch.core = storm.core
        began = self._loop.time()
        self._symptom.begin()
        for fault in storm.faults:
            self._faults.append(fault.number)
            self._loop.call_at(began + fault.at, self._injector.begin, fault)
        for call in storm.calls:
            self._loop.call_at(began + call.at, self._clients.call, call)
        self._operator.storm_begins(number, storm.core)
        await asyncio.sleep(self._scenario.faults.storm_seconds)
        await self._injector.mend()
        await self._operator.storm_ends()
        self._trace.note(Weight.FAULT, "everything is mended")
        rules = self._scenario.faults
        took = await self._until_well("the mended cluster", rules.heal_seconds)
        self._longest_heal = max(self._longest_heal, took)
        self._trace.note(Weight.FAULT, f"the cluster has recovered after {took:.3f} s")
        self._clients_watch.core = None
        self._watch.leaving.clear()
        table = self._cluster.views()[0].table
        if (problem := self._state_clients.problem()) is not None:
            self._verdict.violate("I18", problem)
        await asyncio.sleep(rules.calm_seconds)
        problem = self._clients.unconverged()
        if self._cluster.views()[0].table != table:
            await self._until_settled(rules.heal_seconds)
        problem = problem or self._problem() or await self._follower_difference() or await self._leftover()
        problem = problem or await self._clients.read_all()
        if problem is not None:
            self._verdict.violate("convergence", f"after {rules.calm_seconds:g} s of calm, {problem}")
        if self._scenario.workload.lease_callers:
            await self._abandoned_leases_end()
            await self._leases_go_on(random.Random(f"{self._seed}/leases go on/{number}"))
        await self._probes.change()
        self._watch.calm_since = None
        chance = random.Random(f"{self._seed}/probe/{number}")
        died = await self._probes.death(chance) or await self._probes.wave(chance)
        was_ordered = await self._order_probes.one(chance)
        if was_ordered or died:
            await self._until_well("the cluster after a probe", rules.heal_seconds)
            if was_ordered:
                await self._moves_end(rules.heal_seconds)  # slots go back to a server that is banned no more
            self._watch.leaving.clear()
            self._watch.calm_since = self._now()

    async def _until_settled(self, seconds: float) -> None:
        """Servers that are back get slots again, which takes a while: a slot that is being copied is not settled, and a
        learner is none that has everything. What clients see is not excused by that."""

        def have_moved() -> bool:
            rows = self._cluster.views()[0].table.slots
            return self._cluster.is_settled() and not any(row.learners for row in rows)

        with suppress(RequestTimeout):
            await self._cluster.until(have_moved, "slots have moved", seconds, POLL_SECONDS)

    async def _moves_end(self, seconds: float) -> None:
        """In a cluster that is left alone, the slot table stands still in the end."""
        began, epoch = self._now(), -1
        while epoch != (epoch := self._cluster.views()[0].table.epoch):
            if self._now() > began + seconds:
                self._verdict.violate("convergence", f"slots move for {seconds:g} s although nothing happens")
                return
            await asyncio.sleep(STILL_SECONDS)

    async def _abandoned_leases_end(self) -> None:
        """From a calm moment on, wait for as long as a lease may last that nobody renews, and look."""
        recovered, seconds = self._now(), longest_end(self._cluster.settings)
        await asyncio.sleep(seconds + DRIFT * DRIFT * max(TTLS_SECONDS))
        problem = await self._lease_callers.problem() or self._leases.overdue(seconds, recovered)
        if problem is not None:
            self._verdict.violate("I16", f"in a calm cluster, {problem}")

    async def _leases_go_on(self, rng: random.Random) -> None:
        """Leases go on while some servers that live do not reach each other for longer than a lease lasts.

        A follower that its leader does not reach is taken out of the set: leases are registered and renewed. Where data
        servers do not reach the meta servers nobody can renew, and each lease has its whole time afterwards. Where they
        do not reach the meta leader alone, another meta server leads.
        """
        servers = self._cluster.servers.items()
        data = [name for name, server in servers if isinstance(server, DataServer)]
        meta = [name for name, server in servers if isinstance(server, MetaServer)]
        pair = rng.sample(data, min(2, len(data)))
        leader = self._cluster.leader
        cuts = [(pair[:1], pair[1:]), (data, meta)]
        if leader is not None and len(meta) > 1:
            cuts.append((data, [leader]))
        some, others = rng.choice(cuts)
        goes_on = others != meta
        parted = PARTED_SECONDS
        if others == [leader]:
            parted += FIRST_LEASES * self._cluster.settings.meta.lease_seconds
        what = f"nothing passes between {', '.join(some)} and {', '.join(others)}"
        self._trace.note(Weight.FAULT, f"probe: {what}")
        self._watch.calm_since, began = None, self._now()
        self._cluster.network.partition(some, others)
        await asyncio.sleep(parted)
        if not goes_on:
            self._cluster.network.heal()
        since = self._now()
        await asyncio.sleep(GO_ON_SECONDS)
        if (stuck := self._lease_callers.stuck_since(since)) is not None:
            self._verdict.violate("I15", f"for {parted:g} s {what}; then {stuck}")
        forgotten = None if goes_on else self._lease_callers.forgotten_since(began)
        if forgotten is not None:
            self._verdict.violate("I16", f"for {parted:g} s {what}; then lease {forgotten} is unknown")
        self._cluster.network.heal()
        await self._until_well("the cluster after a probe", self._scenario.faults.heal_seconds)
        self._watch.calm_since = self._now()

    async def _follower_difference(self) -> str | None:
        """How a follower differs from its leader. Callers of leases go on also in calm: what they do is on its way for
        a moment."""
        if self._scenario.workload.lease_callers:
            with suppress(RequestTimeout):
                await self._cluster.until(
                    lambda: follower_difference(self._cluster) is None, "equal", UNDER_WAY_SECONDS
                )
        return follower_difference(self._cluster)

    async def _leftover(self) -> str | None:
        """What some server keeps although nothing is under way; losses may wait for their grace."""
        what = "nothing is left over"
        try:
            await self._cluster.until(lambda: leftover(self._cluster) is None, what, LEFTOVER_SECONDS, POLL_SECONDS)
        except RequestTimeout:
            return leftover(self._cluster)
        return None

    # --- convergence -------------------------------------------------------------------------------------------------

    def _problem(self) -> str | None:
        """Why the cluster has not recovered; None if it has."""
        for name, server in self._cluster.servers.items():
            if server.given_up.done():
                return f"{name} has given up: {server.given_up.result()}"
        if self._cluster.leader is None:
            return "no meta server leads"
        if not self._cluster.is_settled():
            return self._unsettled()
        return self._clients.unconverged()

    def _unsettled(self) -> str:
        servers = self._cluster.servers
        views = {name: s.view.revision for name, s in servers.items() if not isinstance(s, MetaServer)}
        slots = {name: s.core.slots.unsettled() for name, s in servers.items() if isinstance(s, DataServer)}
        return f"the cluster has not settled: views {views}, unsettled slots {slots}"

    async def _until_well(self, what: str, seconds: float) -> float:
        try:
            return await self._cluster.until(lambda: self._problem() is None, what, seconds, POLL_SECONDS)
        except RequestTimeout:
            problem = self._problem()
            self._verdict.violate("convergence", f"{what} has not recovered after {seconds:g} s: {problem}")
            return seconds
