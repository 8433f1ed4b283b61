"""What the faults of a storm spare."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from slotreeve_simulator.fault_kinds import FaultKind
from slotreeve_simulator.faults import Fault
from slotreeve_simulator.plan import plan
from slotreeve_simulator.scenario import Scenario, built_in, load_scenario
from slotreeve_simulator.spared import BREAKS, LINKS, STANDING, Core, Spared, draw_core, role_of

SEEDS = 60


def struck_links(fault: Fault, core: Core) -> list[tuple[str, str]]:
    """The links that the fault cuts, each with a server of the core at one end."""
    kept = core.servers
    others = fault.others or core.processes
    return [(a, b) for a in fault.first for b in others if a != b and (a in kept or b in kept)]


@pytest.mark.parametrize("name", built_in())
def test_no_fault_strikes_the_core_of_its_storm(name: str) -> None:
    scenario = load_scenario(name)
    for seed in range(SEEDS):
        for storm in plan(scenario, seed, scenario.minutes):
            core = storm.core
            kept = core.servers if core.are_clients_struck else core.servers | core.clients
            for fault in storm.faults:
                if fault.kind in BREAKS:
                    continue
                if fault.kind in LINKS:
                    ends = [{role_of(end) for end in link} for link in struck_links(fault, core)]
                    assert all(roles <= {"meta", "session"} for roles in ends), (seed, str(fault), str(core))
                else:
                    standing = core.standing if fault.kind in STANDING else frozenset[str]()
                    assert (kept - standing).isdisjoint(fault.first), (seed, str(fault), str(core))


@pytest.mark.parametrize("name", built_in())
def test_each_core_has_a_client_a_session_server_and_a_copy_of_each_slot_or_all_session_servers(name: str) -> None:
    scenario = load_scenario(name)
    nodes, drawn = scenario.nodes, Counter[Spared]()
    replicas = int(nodes.settings.get("cluster.replicas", 2))
    for seed in range(SEEDS):
        core = draw_core(scenario, random.Random(seed))
        drawn[core.spared] += 1
        data = sum(role_of(server) == "data" for server in core.servers)
        sessions = sum(role_of(server) == "session" for server in core.servers)
        if core.spared is Spared.NOBODY:
            assert not core.servers | core.clients
            continue
        assert sessions >= 1
        assert core.clients
        assert core.standing <= core.servers
        assert len(core.standing) == (core.spared is Spared.LIVES)
        assert sessions == nodes.session or data > nodes.data - replicas
        client, is_held = min(core.clients), scenario.faults.is_held
        assert core.keeps(client) is (core.spared is not Spared.LIVES)
        assert core.is_exact(client) is (core.spared in (Spared.SESSIONS, Spared.DATA) and not is_held)
        assert core.knows_ends(client) is (core.spared is not Spared.HOLDERS and not is_held)
        assert not core.keeps("a stranger")
    if scenario.faults.spare:
        assert drawn.keys() == set(map(Spared, scenario.faults.spare))
    else:
        assert drawn[Spared.DATA] > 0
        assert scenario.faults.is_held or min(drawn[Spared.SESSIONS], drawn[Spared.NOBODY]) > 0


def test_a_fault_of_the_core_strikes_another_process_of_the_same_role() -> None:
    core = Core(
        Spared.HOLDERS,
        frozenset({"data-1", "data-2", "session-1"}),
        frozenset({"client-1"}),
        ("meta-1", "data-1", "data-2", "data-3", "session-1", "session-2", "client-1", "client-2"),
    )

    def spared(kind: FaultKind, *first: str, others: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
        faults = core.spare_all([Fault(0, 0.0, kind, 1.0, first, others)], random.Random(1))
        return (faults[0].first, faults[0].others) if faults else ((), ())

    assert spared(FaultKind.CRASH_DATA, "data-1") == (("data-3",), ())
    assert spared(FaultKind.CRASH_HOST, "data-2", "session-1") == (("data-3", "session-2"), ())
    zone = ("data-1", "session-1", "client-1", "client-2")
    assert spared(FaultKind.CRASH_ZONE, *zone) == (("data-3", "session-2", "client-2"), ())
    assert spared(FaultKind.CUT_OFF_CLIENT, "client-1", others=("session-1", "session-2")) == (
        ("client-2",),
        ("session-1", "session-2"),
    )
    assert spared(FaultKind.FLAP_CLIENT, "client-1") == (("client-1",), ())
    assert spared(FaultKind.CUT_CONTROL, "data-1", "data-3", others=("meta-1",)) == (("data-3",), ("meta-1",))
    assert spared(FaultKind.CUT_ZONE, "data-1", "session-1", others=("meta-1", "data-3")) == (
        ("session-2",),
        ("meta-1", "data-3"),
    )
    assert spared(FaultKind.CRASH_META, "meta-1") == (("meta-1",), ())
    assert spared(FaultKind.STALL_CLIENTS, "client-1", "client-2") == (("client-2",), ())
    assert spared(FaultKind.CUT_CLIENT, "client-1") == (("client-1",), ())
    assert spared(FaultKind.CUT_META, "session-1", others=("meta-1",)) == (("session-1",), ("meta-1",))
    assert spared(FaultKind.CUT_META, "data-1", others=("meta-1",)) == (("data-3",), ("meta-1",))
    assert spared(FaultKind.CUT_LINK, "client-1", others=("session-1",)) == ((), ())
    assert spared(FaultKind.CUT_LINK, "client-1", others=("session-2",)) == (("client-1",), ("session-2",))
    assert spared(FaultKind.CUT_LINK, "session-1", others=("client-2",)) == (("session-2",), ("client-2",))
    assert spared(FaultKind.ISOLATE_DATA, "data-2") == (("data-3",), ("meta-1", "session-2", "client-1", "client-2"))
    assert spared(FaultKind.SLOW, "data-3") == ((), ())
    assert spared(FaultKind.SLOW, "session-2") == (("session-2",), ())
    assert spared(FaultKind.ADD_DATA, "data-4") == ((), ())


def test_where_all_session_servers_are_spared_a_fault_of_one_is_left_out() -> None:
    core = Core(Spared.SESSIONS, frozenset({"session-1"}), frozenset({"client-1"}), ("data-1", "session-1", "client-1"))
    faults = [
        Fault(0, 0.0, FaultKind.CRASH_SESSION, 1.0, ("session-1",)),
        Fault(1, 0.0, FaultKind.CRASH_DATA, 1.0, ("data-1",)),
        Fault(2, 0.0, FaultKind.ADD_SESSION, 1.0, ("session-2",)),
    ]
    assert core.spare_all(faults, random.Random(1)) == faults[1:2]


def test_a_recording_spares_what_its_actions_leave_alone() -> None:
    def core(*actions: tuple[str, str]) -> Core:
        recorded = {
            "services": ["payments"],
            "clients": [{}],
            "actions": [{"at": 1.0, "kind": kind, "node": node} for kind, node in actions],
        }
        return plan(Scenario.model_validate({"recorded": recorded}), 1, 1.0)[0].core

    assert core(("crash_data", "data-1")).spared is Spared.SESSIONS
    assert core(("crash_session", "session-1")).servers == {"data-1", "data-2", "data-3", "session-2"}
    assert "client-1" not in core(("crash_client", "client-1")).clients
    assert "client-1" in core(("cut_client", "client-1")).clients
    assert core(("crash_data", "data-1"), ("crash_session", "session-1")).spared is Spared.NOBODY


def test_what_leaves_alone_what_a_scenario_is_about_is_drawn_seldom() -> None:
    def share(kind: FaultKind, spared: Spared) -> float:
        scenario = Scenario.model_validate({"faults": {"kinds": {kind: 1.0}}})
        cores = [draw_core(scenario, random.Random(seed)).spared for seed in range(400)]
        return cores.count(spared) / len(cores)

    assert share(FaultKind.CRASH_DATA, Spared.SESSIONS) > 1.5 * share(FaultKind.CRASH_DATA, Spared.DATA)
    assert share(FaultKind.CRASH_SESSION, Spared.DATA) > 1.5 * share(FaultKind.CRASH_SESSION, Spared.SESSIONS)
    assert share(FaultKind.CRASH_SESSION, Spared.LIVES) == 0.0


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 1, 2, 1), (1, 5, 4, 1), (5, 2, 1, 9)])
@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_a_core_fits_a_cluster_of_any_size(sizes: tuple[int, int, int, int], replicas: int) -> None:
    meta, data, session, clients = sizes
    nodes = {"meta": meta, "data": data, "session": session, "clients": clients}
    scenario = Scenario.model_validate({"nodes": {**nodes, "settings": {"cluster.replicas": replicas}}})
    for seed in range(SEEDS):
        core = draw_core(scenario, random.Random(seed))
        assert core.servers | core.clients <= set(scenario.nodes.processes)
        assert core.spared is Spared.NOBODY or core.clients
        for storm in plan(scenario, seed, 0.5):
            assert all(fault.first for fault in storm.faults)
