"""The driver keeps order: of effects, of events that arrive meanwhile, and around effects that take their time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_machines.driver import NEVER, Driver, EffectQueue, Pending, Started, Tick

Event = str | Started | Tick


class Echo:
    """A machine: each event is a space-separated list of effects; ``fail`` raises."""

    def __init__(self) -> None:
        self.deadline = NEVER

    def step(self, event: Event, now: float) -> Sequence[str]:
        if event == "fail":
            raise ValueError("the step failed")
        return event.split() if isinstance(event, str) else [type(event).__name__]


class Recorder:
    """What was performed. ``slow...`` takes its time, ``again:x`` takes the event x, ``break`` raises."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.pending: list[Pending] = []
        self.errors: list[str] = []
        self.driver: Driver[Event, str]

    def perform(self, effect: str) -> Pending | None:
        if effect == "break":
            raise ValueError("the effect failed")
        self.done.append(effect)
        if effect.startswith("again:"):
            self.driver.take(effect.removeprefix("again:"))
        if effect.startswith("slow"):
            self.pending.append(Pending())
            return self.pending[-1]
        return None

    def failed(self, error: Exception) -> None:
        self.errors.append(str(error))


def driven(recorder: Recorder, clock: VirtualClock, machine: Echo | None = None) -> Driver[Event, str]:
    recorder.driver = Driver(clock, recorder)
    recorder.driver.run(machine or Echo())
    return recorder.driver


def play(*events: str) -> Recorder:
    """A recorder after these events; ``finish`` and ``finish badly`` end the oldest effect that takes its time."""
    recorder = Recorder()

    async def main(_rng: random.Random) -> None:
        driver = driven(recorder, VirtualClock())
        for event in events:
            if event == "finish":
                recorder.pending.pop(0).finish()
            elif event == "finish badly":
                recorder.pending.pop(0).finish(OSError("no space left"))
            elif event == "stop":
                driver.stop()
            else:
                driver.take(event)

    run(main, 0)
    return recorder


def test_effects_are_carried_out_in_order() -> None:
    assert play("a b", "c").done == ["Started", "a", "b", "c"]


def test_an_event_taken_during_an_effect_waits_for_the_effects_before_it() -> None:
    assert play("again:x b", "c").done == ["Started", "again:x", "b", "x", "c"]


def test_events_before_the_first_run_wait_for_it() -> None:
    recorder = Recorder()

    async def main(_rng: random.Random) -> None:
        driver: Driver[Event, str] = Driver(VirtualClock(), recorder)
        driver.take("early")
        assert recorder.done == []
        driver.run(Echo())

    run(main, 0)
    assert recorder.done == ["Started", "early"]


def test_no_effect_is_carried_out_before_a_slow_one_is_finished() -> None:
    assert play("slow b", "c").done == ["Started", "slow"]
    assert play("slow b", "c", "finish").done == ["Started", "slow", "b", "c"]
    assert play("slow1 slow2 b", "finish", "c").done == ["Started", "slow1", "slow2"]


def test_a_slow_effect_that_fails_ends_the_machine_and_what_follows_it_is_never_done() -> None:
    recorder = play("slow b", "c", "finish badly", "d")
    assert recorder.done == ["Started", "slow"]
    assert recorder.errors == ["no space left"]


@pytest.mark.parametrize(("event", "error"), [("fail", "the step failed"), ("a break b", "the effect failed")])
def test_a_step_or_an_effect_that_raises_ends_the_machine(event: str, error: str) -> None:
    recorder = play(event, "c")
    assert recorder.errors == [error]
    assert not {"b", "c"} & set(recorder.done)


def test_a_stopped_machine_does_nothing_more_even_when_its_slow_effect_is_finished() -> None:
    recorder = play("slow b", "c", "stop", "finish", "d")
    assert recorder.done == ["Started", "slow"]
    assert recorder.errors == []


def test_a_machine_that_runs_after_another_was_stopped_starts_from_nothing() -> None:
    recorder = Recorder()

    async def main(_rng: random.Random) -> None:
        driver = driven(recorder, VirtualClock())
        driver.take("slow b")
        driver.stop()
        driver.run(Echo())
        recorder.pending.pop().finish()

    run(main, 0)
    assert recorder.done == ["Started", "slow", "Started"]


def test_the_machine_is_stepped_while_a_slow_effect_is_not_finished() -> None:
    class Counting(Echo):
        def __init__(self) -> None:
            super().__init__()
            self.stepped: list[Event] = []

        def step(self, event: Event, now: float) -> Sequence[str]:
            self.stepped.append(event)
            return super().step(event, now)

    recorder, machine = Recorder(), Counting()

    async def main(_rng: random.Random) -> None:
        driver = driven(recorder, VirtualClock(), machine)
        driver.take("slow b")
        driver.take("c")
        assert machine.stepped[1:] == ["slow b", "c"]
        assert recorder.done == ["Started", "slow"]
        assert driver.is_pending
        recorder.pending.pop().finish()
        assert not driver.is_pending

    run(main, 0)
    assert recorder.done == ["Started", "slow", "b", "c"]


def test_a_queue_of_effects_may_let_one_overtake_a_slow_effect() -> None:
    class Overtaking(EffectQueue[str]):
        def take(self, is_pending: bool) -> str | None:
            urgent = next((effect for effect in self._waiting if effect.startswith("urgent")), None)
            if urgent is None:
                return super().take(is_pending)
            self._waiting.remove(urgent)
            return urgent

    recorder = Recorder()

    async def main(_rng: random.Random) -> None:
        recorder.driver = Driver(VirtualClock(), recorder, Overtaking())
        recorder.driver.run(Echo())
        recorder.driver.take("slow b")
        recorder.driver.take("c urgent")
        assert recorder.done == ["Started", "slow", "urgent"]
        recorder.pending.pop().finish()

    run(main, 0)
    assert recorder.done == ["Started", "slow", "urgent", "b", "c"]


def test_the_timer_follows_the_deadline_also_during_a_slow_effect() -> None:
    recorder = Recorder()

    async def main(_rng: random.Random) -> None:
        clock, machine = VirtualClock(), Echo()
        driver = driven(recorder, clock, machine)
        machine.deadline = clock.now() + 1.0
        driver.take("a")
        await asyncio.sleep(0.9)
        assert recorder.done == ["Started", "a"]
        machine.deadline = NEVER
        driver.take("slow")
        machine.deadline = clock.now() + 1.0
        driver.take("b")
        machine.deadline = NEVER
        await asyncio.sleep(5.0)
        assert recorder.done == ["Started", "a", "slow"]
        recorder.pending.pop().finish()
        assert recorder.done == ["Started", "a", "slow", "b", "Tick"]
        await asyncio.sleep(60.0)
        assert recorder.done[5:] == []

    run(main, 0)


@given(st.lists(st.sampled_from(["a", "b slow c", "again:x d", "slow slow", "finish"]), max_size=12))
def test_whatever_is_slow_the_effects_are_those_of_the_events_in_order(events: list[str]) -> None:
    """The dumb twin: nothing is slow, so every event is done before the next one begins."""
    recorder = Recorder()

    async def main(_rng: random.Random) -> None:
        driver = driven(recorder, VirtualClock())
        for event in events:
            if event != "finish":
                driver.take(event)
            elif recorder.pending:
                recorder.pending.pop(0).finish()
        while recorder.pending:
            recorder.pending.pop(0).finish()

    run(main, 0)
    twin = ["Started"]
    for event in events:
        if event != "finish":
            twin += event.split()
    assert [effect for effect in recorder.done if effect != "x"] == twin
    assert recorder.done.count("x") == events.count("again:x d")
