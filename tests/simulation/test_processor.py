"""Work takes virtual time."""

from __future__ import annotations

import pytest
from slotreeve_protocol.client_messages import Published
from slotreeve_protocol.codec import Kind, encode_frame, encode_message
from slotreeve_protocol.general_messages import Ping
from slotreeve_protocol.packets import ChannelLimits, FrameQueue
from slotreeve_simulator.packet_kinds import NO_TAG, first_tag, message_tags
from slotreeve_simulator.processor import Costs, SimulatedProcessor, load_costs

PING = encode_message(Ping())


class Now:
    seconds = 10.0

    def __call__(self) -> float:
        return self.seconds


def test_packets_and_timers_occupy_the_processor_one_after_the_other() -> None:
    now = Now()
    processor = SimulatedProcessor(now, Costs({"other": (500, 0), "Ping": (1000, 1e5), "timer": (10, 0)}))
    assert processor.busy_for() == 0.0
    processor.handled(PING)
    processor.timer_ran()
    assert processor.busy_for() == pytest.approx(0.001 + len(PING) * 1e-4 + 10e-6)
    now.seconds += 0.0005
    assert processor.busy_for() == pytest.approx(0.0005 + len(PING) * 1e-4 + 10e-6)
    now.seconds += 5.0
    assert processor.busy_for() == 0.0
    processor.handled(encode_message(Published([])))
    assert processor.busy_for() == pytest.approx(0.0005)


def test_a_starved_process_is_slower_and_a_stalled_one_waits() -> None:
    now = Now()
    processor = SimulatedProcessor(now, Costs({"other": (1000, 0), "timer": (10, 0)}))
    processor.slowness = 20.0
    processor.handled(PING)
    assert processor.busy_for() == pytest.approx(0.02)
    processor.stall(0.5)
    assert processor.busy_for() == pytest.approx(0.5)


def test_starvations_at_once_multiply_and_each_ends_with_its_own_fault() -> None:
    now = Now()
    processor = SimulatedProcessor(now, Costs({"other": (1000, 0), "timer": (10, 0)}))

    def cost() -> float:
        now.seconds += 1.0
        processor.handled(PING)
        return processor.busy_for()

    first = processor.starve(5.0)
    second = processor.starve(4.0)
    assert cost() == pytest.approx(0.02)
    first()
    assert cost() == pytest.approx(0.004)
    second()
    assert cost() == pytest.approx(0.001)


def test_stalls_at_once_end_with_the_last_one_and_do_not_add_up() -> None:
    now = Now()
    processor = SimulatedProcessor(now, Costs({"other": (1000, 0), "timer": (10, 0)}))
    processor.stall(2.0)
    processor.stall(6.0)
    processor.stall(3.0)
    assert processor.stalled_for() == processor.busy_for() == pytest.approx(6.0)
    now.seconds += 6.5
    assert processor.stalled_for() == processor.busy_for() == 0.0


@pytest.mark.parametrize("kind", [Kind.MESSAGE, Kind.REQUEST, Kind.REPLY])
def test_the_kind_of_a_packet_is_that_of_its_first_message(kind: Kind) -> None:
    frame = encode_frame(kind, Ping(), 7)
    assert first_tag(frame) == message_tags()["Ping"]
    queue = FrameQueue(ChannelLimits())
    queue.add(frame)
    queue.add(encode_message(Published([])))
    assert first_tag(queue.take_packet()) == message_tags()["Ping"]


def test_a_packet_that_is_cut_short_has_no_kind() -> None:
    assert first_tag(PING[:1]) == NO_TAG


def test_the_costs_are_measured_figures() -> None:
    costs = load_costs()
    assert 1e-6 < costs.timer < 1e-3
    for base, per_byte in costs.by_tag:
        assert 1e-6 < base < 1e-2
        assert 0.0 <= per_byte < 1e-5
