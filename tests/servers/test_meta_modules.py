"""The parts of a meta server's core, each alone: committed view, provided configuration, shadow, addresses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec
import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import ElectionError, ModelError, StorageError
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Leadership, Versioned
from slotreeve_conformance.virtual_time import run
from slotreeve_election_mysql.state import CopiedState
from slotreeve_protocol.meta_messages import ConfigEntry, PutConfig, View
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.provided import MAX_KEY_LENGTH
from slotreeve_servers.meta.arranging.table import KEY, CommittedView
from slotreeve_servers.meta.configuration import MAX_VALUE_BYTES, MOST_BYTES, PREFIX, ProvidedConfig
from slotreeve_servers.meta.members.addresses import ELECTION_PORT_OFFSET, MetaAddresses
from slotreeve_servers.meta.settings import MetaSettings
from slotreeve_servers.meta.swap.shadow import Shadow

from tests.servers.scripted_election import ScriptedElection, ScriptedState

RULES = MetaSettings(lease_seconds=6.0, lost_connection_seconds=0.5, unseen_seconds=2.0)


def node(name: str, life: int = 1) -> Node:
    role = Role.DATA if name.startswith("data") else Role.SESSION
    return Node(name, role, f"{name}:1", f"{name}@{life}")


# --- committed view and provided configuration -----------------------------------------------------------------------


def test_the_committed_view_is_what_the_meta_state_holds() -> None:
    async def scenario(_rng: random.Random) -> None:
        state = ScriptedState()
        committed = CommittedView(state)
        assert committed.read().revision == 0
        view = View(1, 1, SlotTable(), [node("a")], [])
        await committed.commit(view, 0)
        assert committed.read() == view
        assert committed.read() is committed.read()
        state.store(KEY, b"nonsense")
        with pytest.raises(StorageError, match=r"'view' \(version 2\) cannot be read"):
            committed.read()

    run(scenario)


def test_provided_configuration_is_written_read_and_deleted() -> None:
    async def scenario(_rng: random.Random) -> None:
        state = ScriptedState()
        configs = ProvidedConfig(state)
        empty = configs.digest
        assert await configs.put(PutConfig("k", b"v", None), 1) == ConfigEntry("k", b"v", 1)
        assert await configs.put(PutConfig("k", None, None), 1) == ConfigEntry("k", None, 2)
        state.store("view", msgspec.msgpack.encode("something else"))
        assert configs.entries() == [ConfigEntry("k", None, 2)]
        assert configs.entries("x") == []
        assert configs.digest != empty

    run(scenario)


def test_configuration_that_an_accepted_older_state_does_not_have_counts_no_more() -> None:
    async def refuse(key: str, value: bytes, expected_version: int | None, term: int) -> int:
        raise AssertionError("nothing is written here")

    state = CopiedState(refuse)
    configs = ProvidedConfig(state)
    empty = configs.digest, configs.total, configs.orders
    orders = Orders(banned=frozenset({"data-2"}))
    view, stored = (1, "view", Versioned(b"v", 1, 1)), Versioned(b"\x01" + orders.encode(), 1, 1)
    state.apply([view, (2, PREFIX + ORDERS_KEY, stored)])
    assert (configs.total, configs.orders) == (1, orders)
    assert configs.digest != empty[0]
    state.replace([view])
    assert (configs.digest, configs.total, configs.orders) == empty


@pytest.mark.parametrize(
    ("key", "value"), [("", b""), (" ", b""), ("k" * (MAX_KEY_LENGTH + 1), b""), ("k", b"x" * (MAX_VALUE_BYTES + 1))]
)
def test_configuration_without_a_key_or_beyond_its_bounds_is_refused(key: str, value: bytes) -> None:
    async def scenario(_rng: random.Random) -> None:
        with pytest.raises(ModelError):
            await ProvidedConfig(ScriptedState()).put(PutConfig(key, value, None), 1)

    run(scenario)


def test_configuration_of_exactly_the_largest_size_is_taken() -> None:
    async def scenario(_rng: random.Random) -> None:
        entry = await ProvidedConfig(ScriptedState()).put(
            PutConfig("k" * MAX_KEY_LENGTH, b"x" * MAX_VALUE_BYTES, None), 1
        )
        assert entry.version == 1

    run(scenario)


def test_configuration_may_not_grow_beyond_what_one_message_holds_but_orders_are_given_and_values_deleted() -> None:
    async def scenario(_rng: random.Random) -> None:
        configs = ProvidedConfig(ScriptedState())

        async def put(key: str, value: bytes | None) -> None:
            await configs.put(PutConfig(key, value, None), 1)

        full = MOST_BYTES // MAX_VALUE_BYTES - 1
        for number in range(full):
            await put(f"k{number}", bytes(MAX_VALUE_BYTES))
        left = MOST_BYTES - full * MAX_VALUE_BYTES - sum(len(f"k{number}") for number in range(full))
        await put("last", bytes(left - len("last")))
        with pytest.raises(ModelError, match=f"would have {MOST_BYTES + 1} bytes"):
            await put("k", b"")
        await put("k0", bytes(MAX_VALUE_BYTES))
        await put("k0", None)
        await put("k", b"")
        await put("k1", b"")
        await put("k1", bytes(MAX_VALUE_BYTES))
        with pytest.raises(ModelError, match="delete values"):
            await put("k0", bytes(MAX_VALUE_BYTES))
        await put(ORDERS_KEY, Orders(push_stopped=True).encode())
        assert configs.orders.push_stopped

    run(scenario)


def test_orders_that_cannot_be_read_leave_the_former_ones_in_force() -> None:
    state = ScriptedState()
    configs = ProvidedConfig(state)
    assert configs.orders == Orders()
    state.store(PREFIX + ORDERS_KEY, b"\x01" + Orders(push_stopped=True).encode())
    assert configs.orders.push_stopped
    state.store(PREFIX + ORDERS_KEY, b"\x01nonsense")
    assert configs.orders.push_stopped


# --- shadow ----------------------------------------------------------------------------------------------------------


class ShadowElection(ScriptedElection):
    """A second election that reports what the test tells it, or fails to start."""

    def __init__(self, failure: ElectionError | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.report: Callable[[Leadership], None] = lambda leadership: None

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        if self.failure is not None:
            raise self.failure
        self.report = changed


def leads(leader: str | None) -> Leadership:
    return Leadership(leader, 1, False, 0.0, "made up")


def test_a_shadow_reports_changes_and_leaderless_time_of_both_elections() -> None:
    async def scenario(_rng: random.Random) -> None:
        election = ShadowElection()
        shadow = Shadow("postgres", election, LoopClock())
        await shadow.start()
        await asyncio.sleep(1.0)
        shadow.real_changed(leads("a"))
        await asyncio.sleep(2.0)
        assert not shadow.report().agrees
        election.report(leads("b"))
        election.report(leads(None))
        election.report(leads("c"))
        report = shadow.report()
        assert (report.agrees, report.changes, report.shadow_changes) == (True, 1, 2)
        assert (report.leaderless_seconds, report.shadow_leaderless_seconds) == (1.0, 3.0)
        await shadow.stop()

    run(scenario)


def test_a_shadow_that_cannot_start_says_why_and_stops_nothing() -> None:
    async def scenario(_rng: random.Random) -> None:
        shadow = Shadow("postgres", ShadowElection(ElectionError("no database")), LoopClock())
        await shadow.start()
        report = shadow.report()
        assert (report.agrees, report.failure) == (False, "no database")

    run(scenario)


# --- addresses -------------------------------------------------------------------------------------------------------


CONFIGURED = {"meta-1": "10.0.0.1:7710", "meta-2": "10.0.0.2:7710"}


def test_a_meta_server_that_has_announced_its_election_is_known_at_the_port_below() -> None:
    class Meets(ScriptedElection):
        announced = {"meta-1": f"10.0.0.9:{7710 + ELECTION_PORT_OFFSET}"}  # noqa: RUF012

    addresses = MetaAddresses(CONFIGURED, Meets)
    assert addresses.all() == {"meta-1": "10.0.0.9:7710", "meta-2": "10.0.0.2:7710"}
    assert [addresses.has_moved(name) for name in CONFIGURED] == [True, False]


def test_where_members_do_not_meet_the_configured_addresses_are_those_of_the_meta_servers() -> None:
    for addresses in (MetaAddresses(CONFIGURED, ScriptedElection), MetaAddresses(CONFIGURED)):
        assert addresses.all() == CONFIGURED
        assert not addresses.has_moved("meta-1")


@pytest.mark.parametrize("address", ["10.0.0.9:2", "10.0.0.9:", "nowhere"])
def test_an_announced_address_at_which_no_meta_server_can_be_is_not_used(address: str) -> None:
    class Meets(ScriptedElection):
        announced = {"meta-1": address}  # noqa: RUF012

    addresses = MetaAddresses(CONFIGURED, Meets)
    assert addresses.all() == CONFIGURED
    assert not addresses.has_moved("meta-1")
