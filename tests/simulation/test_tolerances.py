"""Which faults may make registrations disappear."""

from __future__ import annotations

import pytest
from slotreeve_simulator.plan import Fault
from slotreeve_simulator.scenario import FaultKind
from slotreeve_simulator.tolerances import AFTERWARDS_SECONDS, Tolerances


class Run:
    """Tolerances with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tolerances = Tolerances(lambda: self.now, metas=3)

    def begins(self, kind: FaultKind, *first: str) -> None:
        self.tolerances.begins(Fault(0, 0.0, kind, 2.0, first))

    def tolerates(self, client: str = "client-1") -> bool:
        return self.tolerances.tolerates(client)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (FaultKind.PAUSE, "session-1"),
        (FaultKind.SLOW, "session-1"),
        (FaultKind.PARTITION, "session-1"),
        (FaultKind.PARTITION_ONE_WAY, "client-2"),
    ],
)
def test_a_fault_that_may_end_a_lease_is_tolerated_for_a_while(kind: FaultKind, first: str) -> None:
    run = Run()
    run.begins(kind, first)
    assert run.tolerates()
    run.now += 2.0 + AFTERWARDS_SECONDS - 0.1
    assert run.tolerates()
    run.now += 0.2
    assert not run.tolerates()


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        (FaultKind.CRASH_DATA, ("data-1",)),
        (FaultKind.PAUSE, ("data-1",)),
        (FaultKind.PARTITION, ("data-1", "meta-1")),
        (FaultKind.CUT_CLIENT, ("client-1",)),
        (FaultKind.CRASH_SESSION, ("session-1",)),
        (FaultKind.STOP_SERVER, ("session-1",)),
    ],
)
def test_a_fault_that_ends_no_lease_is_not_tolerated(kind: FaultKind, first: tuple[str, ...]) -> None:
    run = Run()
    run.begins(kind, *first)
    assert not run.tolerates()


def test_a_partition_with_half_of_the_meta_servers_is_tolerated() -> None:
    run = Run()
    run.begins(FaultKind.PARTITION, "meta-1", "meta-2")
    assert run.tolerates()


def test_the_loss_of_a_session_server_together_with_another_fault_is_tolerated() -> None:
    first_loss, first_other = Run(), Run()
    first_loss.begins(FaultKind.CRASH_SESSION, "session-1")
    first_loss.begins(FaultKind.CRASH_DATA, "data-1")
    first_other.begins(FaultKind.CRASH_DATA, "data-1")
    first_other.begins(FaultKind.CRASH_SESSION, "session-1")
    assert first_loss.tolerates()
    assert first_other.tolerates()


def test_a_paused_client_is_tolerated_alone_and_nothing_is_after_the_recovery() -> None:
    run = Run()
    run.begins(FaultKind.PAUSE_CLIENT, "client-1")
    assert (run.tolerates("client-1"), run.tolerates("client-2")) == (True, False)
    run.tolerances.recovered()
    assert not run.tolerates("client-1")
