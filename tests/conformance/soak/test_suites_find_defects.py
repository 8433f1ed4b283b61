"""A suite that cannot fail is no suite: each contract finds a plugin that breaks it."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence

import pytest
from slotreeve import Context, Draft, Limits, Plan, Server, SlotTable
from slotreeve.clock import Clock
from slotreeve.errors import InvalidTable
from slotreeve.ports import (
    Assigner,
    Balancer,
    Election,
    Leadership,
    MetaState,
    SlotFunction,
    Transport,
    TransportCounters,
    Versioned,
)
from slotreeve_conformance import election_chosen, virtual_time
from slotreeve_conformance.assigner import AssignerContract
from slotreeve_conformance.balancer import BalancerContract
from slotreeve_conformance.election import ElectionContract
from slotreeve_conformance.election_backend import ElectionBackend, InstalledBackend
from slotreeve_conformance.election_choice import Choice
from slotreeve_conformance.election_faults import ElectionFaultsContract
from slotreeve_conformance.election_scene import ElectionScene
from slotreeve_conformance.election_state import ElectionStateContract
from slotreeve_conformance.properties import PROPERTY
from slotreeve_conformance.slot_function import SlotFunctionContract
from slotreeve_conformance.transport import TransportContract
from slotreeve_conformance.transport_faults import TransportFaultsContract
from slotreeve_protocol.packets import ChannelLimits
from slotreeve_transport_memory.transport import MemoryTransport


def finds(test: Callable[..., object], *arguments: object) -> None:
    """The test fails."""
    with pytest.raises((AssertionError, InvalidTable)):
        test(*arguments)


# --- pure plugins ----------------------------------------------------------------------------------------------------


class LazyAssigner:
    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        return None


class RestlessBalancer:
    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        draft = Draft(table, servers)
        for slot in draft.slots:
            for follower in draft.followers(slot):
                draft.lead(slot, follower, "for a change")
                return draft.plan()
        return None


class OneSlot:
    def slot_of(self, key: str) -> int:
        return 0


class LazyContract(AssignerContract):
    def build(self) -> Assigner:
        return LazyAssigner()


class RestlessContract(BalancerContract):
    def build(self) -> Balancer:
        return RestlessBalancer()


class OneSlotContract(SlotFunctionContract):
    def build(self, slots: int) -> SlotFunction:
        return OneSlot()


def test_an_assigner_that_leaves_gaps_is_found() -> None:
    finds(LazyContract().test_the_result_is_valid)


def test_a_balancer_that_never_ends_is_found() -> None:
    finds(RestlessContract().test_repeated_calls_end_and_every_step_is_valid)


def test_a_slot_function_that_spreads_unevenly_is_found() -> None:
    finds(OneSlotContract().test_similar_keys_spread_evenly_over_any_number_of_slots, 16)


def test_property_tests_try_the_same_examples_at_every_run() -> None:
    assert PROPERTY.derandomize


# --- elections -------------------------------------------------------------------------------------------------------


class EmptyState:
    """A meta state that acknowledges every write and stores none."""

    def read(self, key: str) -> Versioned | None:
        return None

    def keys(self) -> Sequence[str]:
        return []

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        return 1

    def watch(self, changed: Callable[[str, Versioned], None]) -> Callable[[], None]:
        return lambda: None


class Usurper:
    """An election whose node always leads."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.state: MetaState = EmptyState()

    def leadership(self) -> Leadership:
        return Leadership(self._node, 1, True, math.inf, "elected")

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        changed(self.leadership())

    async def resign(self) -> None:
        """It never does."""

    async def stop(self) -> None:
        """It has nothing to stop."""


class UsurperBackend(ElectionBackend):
    name = "usurper"

    def build(self, context: Context) -> Election:
        return Usurper(context.node)


class UsurperContract(ElectionContract):
    def make_backend(self) -> ElectionBackend:
        return UsurperBackend()


@pytest.fixture
def usurpers() -> UsurperContract:
    made = UsurperContract()
    made._record = lambda _name, _value: None
    return made


def test_two_leaders_are_found_by_every_part_of_the_suite(usurpers: UsurperContract) -> None:
    finds(usurpers.test_one_node_leads_and_all_know_it, 3)
    finds(usurpers.test_many_rivals_never_lead_at_once_over_many_changes)


def test_a_state_that_forgets_is_found(usurpers: UsurperContract) -> None:
    finds(usurpers.test_a_write_is_read_everywhere_with_its_version_and_term)


def test_the_suite_is_made_of_leadership_state_and_faults_and_needs_a_back_end() -> None:
    assert issubclass(ElectionContract, ElectionStateContract)
    assert issubclass(ElectionContract, ElectionFaultsContract)
    with pytest.raises(NotImplementedError):
        ElectionScene().make_backend()


def test_an_election_of_the_command_line_has_its_options_and_attributes_in_each_scenario() -> None:
    choice = Choice("fle", InstalledBackend, {"name": "fle", "rivals": 7}, {"lease_ms": 300})
    made = choice.backend()
    assert isinstance(made, InstalledBackend)
    assert (made.name, made.rivals, made.options["lease_ms"]) == ("fle", 7, 300)
    assert choice.backend() is not made
    assert issubclass(election_chosen.TestElection, ElectionContract)


# --- transports ------------------------------------------------------------------------------------------------------


class Uncounted(MemoryTransport):
    """A transport that loses its counters."""

    @property
    def counters(self) -> TransportCounters:
        return TransportCounters()


class UncountedContract(TransportFaultsContract):
    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return Uncounted(clock, "node", limits=limits)

    def run(self, main: Coroutine[None, None, None]) -> None:
        virtual_time.run(lambda _rng: main)


def test_a_transport_that_does_not_count_faults_is_found() -> None:
    finds(UncountedContract().test_a_handler_that_raises_is_counted_and_ends_that_connection_only, "received")
    finds(UncountedContract().test_oversize_frames_are_dropped_and_counted_and_the_third_ends_the_connection)


class Optimist(MemoryTransport):
    """A transport that shows signs of life which it has not had."""

    def has_answered(self, address: str) -> bool:
        return True


class OptimistContract(TransportContract):
    def build(self, clock: Clock, limits: ChannelLimits) -> Transport:
        return Optimist(clock, "node", limits=limits)

    def run(self, main: Coroutine[None, None, None]) -> None:
        virtual_time.run(lambda _rng: main)


def test_a_transport_that_makes_signs_of_life_up_is_found() -> None:
    finds(OptimistContract().test_a_sign_of_life_is_of_one_address_and_goes_with_the_connection)
