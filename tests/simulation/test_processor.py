"""Work takes virtual time."""

from __future__ import annotations

from slotreeve_simulator.processor import TIMER_SECONDS, SimulatedProcessor, load_costs


class Now:
    seconds = 10.0

    def __call__(self) -> float:
        return self.seconds


def test_packets_and_timers_occupy_the_processor_one_after_the_other() -> None:
    now = Now()
    processor = SimulatedProcessor(now, (0.001, 0.0001))
    assert processor.busy_for() == 0.0
    processor.handled(10)
    processor.timer_ran()
    assert abs(processor.busy_for() - (0.002 + TIMER_SECONDS)) < 1e-9
    now.seconds += 0.0015
    assert 0.0 < processor.busy_for() < 0.001
    now.seconds += 5.0
    assert processor.busy_for() == 0.0


def test_a_starved_process_is_slower_and_a_stalled_one_waits() -> None:
    now = Now()
    processor = SimulatedProcessor(now, (0.001, 0.0))
    processor.slowness = 20.0
    processor.handled(1)
    assert abs(processor.busy_for() - 0.02) < 1e-9
    processor.stall(0.5)
    assert abs(processor.busy_for() - 0.52) < 1e-9


def test_the_costs_are_measured_figures() -> None:
    per_packet, per_byte = load_costs()
    assert 1e-6 < per_packet < 1e-3
    assert 1e-10 < per_byte < 1e-6
