"""How late callbacks are, and who is told."""

from __future__ import annotations

import asyncio
import random
import threading

from slotreeve.clock import LoopClock
from slotreeve_client.audience import connected_clients, subscribers_of
from slotreeve_client.callback_thread import CallbackThread
from slotreeve_client.condition import cluster_condition
from slotreeve_client.lateness import WINDOW_SECONDS, CallbackLateness
from slotreeve_conformance import virtual_time
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport


class Scene:
    """CallbackLateness on a clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0
        self.late = CallbackLateness(lambda: self.time)

    def run(self, key: str, seconds: float) -> None:
        self.late.begins(key)
        self.time += seconds
        self.late.ends()


def test_a_callback_is_late_by_its_wait_and_its_own_time() -> None:
    scene = Scene()
    scene.late.waits("a")
    scene.time += 2
    scene.run("a", 3)
    assert scene.late.seconds() == 5
    scene.time += WINDOW_SECONDS
    assert scene.late.seconds() == 5, "it is remembered"
    scene.time += WINDOW_SECONDS
    assert scene.late.seconds() == 0


def test_a_change_that_comes_while_one_waits_does_not_make_it_younger_and_one_while_it_runs_begins_anew() -> None:
    scene = Scene()
    scene.late.waits("a")
    scene.time += 4
    scene.late.waits("a")
    scene.late.begins("a")
    scene.time += 1
    scene.late.waits("a")
    scene.time += 1
    scene.late.ends()
    assert scene.late.seconds() == 6
    scene.time += 2 * WINDOW_SECONDS
    scene.late.seconds()
    scene.time += WINDOW_SECONDS
    assert scene.late.seconds() == 1 + 3 * WINDOW_SECONDS, "the change that came while it ran waits"


def test_what_runs_and_what_waits_is_late_before_it_has_ended() -> None:
    scene = Scene()
    scene.late.waits("a")
    scene.late.waits("b")
    scene.late.begins("a")
    scene.time += 7
    assert scene.late.seconds() == 7
    scene.late.ends()
    scene.time += 1
    assert scene.late.seconds() == 8, "b still waits"


def test_a_thread_of_callbacks_tells_how_late_it_is_while_a_function_of_the_user_hangs() -> None:
    now = [0.0]
    thread = CallbackThread(lambda: now[0])
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert go_on.wait(30)

    thread.submit("slow", "a slow one", slow)
    assert begun.wait(30)
    now[0] = 4.0
    assert thread.late_seconds() == 4.0
    go_on.set()
    done = threading.Event()
    thread.submit("next", "one that is quick", done.set)
    assert done.wait(30)
    for _ in range(3):
        now[0] += WINDOW_SECONDS
        late = thread.late_seconds()
    assert late == 0.0
    thread.close()


def test_operators_see_which_client_runs_its_callbacks_late_and_that_it_has_recovered() -> None:
    async def scenario(rng: random.Random) -> None:
        async with SimulatedCluster(rng, meta=1, data=2, session=2) as cluster:
            provider, quick, slow = (cluster.client(name=name) for name in ("provider", "quick", "slow"))
            late = 4.0
            slow.callbacks_elsewhere(lambda: late)
            await quick.subscribe("a.Service").ready()
            await slow.subscribe("a.Service").ready()
            provider.publish("a.Service", "x")
            await provider.flush()
            transport = MemoryTransport(LoopClock(), "operator", cluster.network)
            asked = transport, "slotreeve", [cluster.address("meta-1")]
            await asyncio.sleep(20)
            listed = {one.id: one for each in (await connected_clients(*asked)).clients.values() for one in each}
            assert listed[slow.client_id].late_seconds == 4.0
            assert listed[quick.client_id].late_seconds < 1.0
            found = {o.id: o for each in (await subscribers_of(*asked, "a.Service")).subscribers.values() for o in each}
            assert found[slow.client_id].late_seconds == 4.0
            assert any("1 client of session-" in text and "late" in text for text in (await problems(asked)))
            late = 0.0
            await asyncio.sleep(20)
            assert await problems(asked) == []
            late = float("nan")
            await asyncio.sleep(20)
            await slow.close()
            assert await problems(asked) == []

    virtual_time.run(scenario, seed=1)


async def problems(asked: tuple[MemoryTransport, str, list[str]]) -> list[str]:
    return (await cluster_condition(*asked)).problems()
