"""The checks of leases can fail, and tolerate what they must."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random

import pytest
from slotreeve.errors import RequestTimeout
from slotreeve.model.datum import NO_VERSION
from slotreeve_conformance.virtual_time import run
from slotreeve_simulator.cluster import ScenarioCluster
from slotreeve_simulator.copies_watch import CopiesWatch
from slotreeve_simulator.gateway_watch import GatewayWatch
from slotreeve_simulator.lease_callers import LeaseCaller, LeaseCallers
from slotreeve_simulator.lease_watch import LeaseWatch, WatchedLease, longest_end
from slotreeve_simulator.scenario import Scenario, WorkloadPlan
from slotreeve_simulator.servers_watch import ServersWatch
from slotreeve_simulator.simulated_gateways import SimulatedGateways
from slotreeve_simulator.trace import Trace
from slotreeve_simulator.verdict import RunVerdict

ID = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


class Scene:
    """A watch, at second 10, with one lease that must live until second 15."""

    def __init__(self) -> None:
        self.now = 10.0
        trace = Trace(lambda: self.now)
        self.verdict = RunVerdict(trace)
        self.cluster = ScenarioCluster(Scenario(), 1)
        servers = ServersWatch(self.cluster, 2, lambda: self.now, trace, self.verdict)
        copies = CopiesWatch(2, servers, self.verdict)
        self.watch = LeaseWatch(self.cluster, copies, lambda: self.now, trace, self.verdict)
        self.lease = self.watch.add(ID, "a", 5.0)
        self.watch.acknowledged(self.lease, 10.0)

    @property
    def found(self) -> str:
        return str(self.verdict.violation or "")


def with_scene(seconds: float, what: str) -> str:
    async def body(rng: random.Random) -> str:
        scene = Scene()
        lease: WatchedLease = scene.lease
        scene.now = seconds
        match what:
            case "unknown":
                scene.watch.called_unknown(lease)
            case "unseen":
                scene.watch.seen(ID, 7, {"a", "b"}, {"b"})
            case "ended by its caller":
                lease.is_open = True
                scene.watch.seen(ID, 7, {"a"}, set())
            case "unseen in an older version":
                lease.version = 8
                scene.watch.seen(ID, 7, {"a"}, set())
            case "unseen in a version that is not known":
                lease.version = 8
                scene.watch.seen(ID, NO_VERSION, {"a"}, set())
            case "unseen in the version of its acknowledgement":
                lease.version = 7
                scene.watch.seen(ID, 7, {"a"}, set())
            case "all copies lost":
                lease.lost_at = 11.0
                scene.watch.called_unknown(lease)
                scene.watch.acknowledged(lease, 12.0)
                assert scene.watch.must_live(lease)
        return scene.found

    return run(body, seed=1)


def test_a_lease_that_is_unknown_or_unseen_before_its_time_is_over_is_a_violation() -> None:
    assert "I16: lease a is unknown 0.500 s before" in with_scene(14.5, "unknown")
    assert "I16: lease a is seen no more 1.000 s before" in with_scene(14.0, "unseen")


def test_what_was_seen_before_it_was_acknowledged_may_vanish_in_a_version_before_the_acknowledgement() -> None:
    assert with_scene(14.0, "unseen in an older version") == ""
    assert "I16: lease a is seen no more" in with_scene(14.0, "unseen in the version of its acknowledgement")
    assert "I16: lease a is seen no more" in with_scene(14.0, "unseen in a version that is not known")


def test_the_version_of_a_lease_is_that_of_its_first_acknowledgement() -> None:
    async def body(rng: random.Random) -> None:
        scene = Scene()
        async with scene.cluster:
            client = scene.cluster.client()
            subscription = client.subscribe("s")
            await client.leases.register("s", "b", "x", ttl_seconds=60.0)
            await scene.cluster.until(lambda: subscription.instances, "the lease is seen")
            lease = scene.watch.add(ID, "b", 60.0)
            scene.watch.acknowledged(lease, 10.0)
            first = lease.version
            assert first == subscription.version > NO_VERSION
            await client.leases.register("s", "c", "x", ttl_seconds=60.0)
            scene.watch.acknowledged(lease, 11.0)  # renewed
            assert lease.version == first
            scene.now = 100.0
            scene.watch.acknowledged(lease, 100.0)  # its time was over: registered again
            assert lease.version > first

    run(body, seed=1)


def test_after_its_time_and_after_its_caller_has_ended_it_it_may_be_gone() -> None:
    assert with_scene(15.1, "unknown") == with_scene(15.1, "unseen") == ""
    assert with_scene(11.0, "ended by its caller") == ""


def test_one_whose_copies_were_all_lost_is_watched_again_from_its_next_acknowledgement() -> None:
    assert with_scene(12.5, "all copies lost") == ""


@pytest.mark.parametrize("is_doubtful", [False, True])
def test_one_whose_end_was_acknowledged_is_nowhere_unless_a_registration_of_it_may_still_arrive(
    is_doubtful: bool,
) -> None:
    async def body(rng: random.Random) -> None:
        scene = Scene()
        async with scene.cluster:
            client = scene.cluster.client()
            await client.leases.register("s", "b", "x", ttl_seconds=60.0)
            lease = scene.watch.add(ID, "b", 60.0)
            lease.is_open, lease.is_doubtful = True, is_doubtful
            name, slot = next(scene.watch._leaders(ID))
            scene.watch._check(name, slot, [lease])
            assert scene.found == ""
            scene.watch.ended(lease)
            scene.watch._check(name, slot, [lease])
            assert ("is in sync and has lease b, whose end was acknowledged" in scene.found) is not is_doubtful

    run(body, seed=1)


def test_the_longest_end_has_the_hold_of_the_guard_in_it() -> None:
    async def body(rng: random.Random) -> None:
        scene = Scene()
        assert 64 < longest_end(scene.cluster.settings) < 70
        assert scene.watch.overdue(60.0, 10.0) is None
        gateways = SimulatedGateways(0, 1, scene.cluster)
        gateway_watch = GatewayWatch(gateways, scene.watch, scene.verdict)
        callers = LeaseCallers(
            WorkloadPlan(), 1, scene.cluster, scene.watch, gateway_watch, Trace(lambda: 0.0), lambda: 0.0
        )
        callers.come_all()
        assert await callers.problem() is None

    run(body, seed=1)


class Forgetful:
    """Implements LeaseUse. It fails to register leases until ``works_at``, and forgets all from ``forgets_at`` on."""

    def __init__(self, works_at: float, forgets_at: float) -> None:
        self.seen: set[str] = set()
        self._works_at, self._forgets_at = works_at, forgets_at
        self._known: set[str] = set()

    async def register(self, lease_id: str, ttl: float) -> None:
        """See LeaseUse."""
        if asyncio.get_running_loop().time() < self._works_at:
            raise RequestTimeout("nobody answers")
        self._known.add(lease_id)

    async def renew(self, lease_ids: list[str]) -> tuple[set[str], set[str]]:
        """See LeaseUse."""
        if asyncio.get_running_loop().time() >= self._forgets_at:
            self._known.clear()
        return set(lease_ids) - self._known, set()

    async def end(self, lease_id: str) -> None:
        """See LeaseUse."""
        self._known.discard(lease_id)

    async def follow(self) -> None:
        """See LeaseUse."""


def forgotten(works_after: float, forgets_after: float) -> str | None:
    async def body(rng: random.Random) -> str | None:
        now = asyncio.get_running_loop().time
        scene, began = Scene(), now()
        use = Forgetful(began + works_after, began + forgets_after)
        trace = Trace(lambda: scene.now)
        caller = LeaseCaller(use, "s", scene.watch, trace, rng, is_steady=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20.0):
                await caller.run(now)
        return caller.forgotten_since(began)

    return run(body)


def test_a_lease_that_was_never_acknowledged_is_not_forgotten_where_it_is_unknown() -> None:
    assert forgotten(10.0, math.inf) is None


def test_a_lease_that_was_acknowledged_is_forgotten_where_it_is_unknown() -> None:
    assert forgotten(0.0, 15.0) is not None
