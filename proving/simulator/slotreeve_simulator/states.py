"""The states of a cluster in which a fault can strike it, for the table of faults by state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

from slotreeve_protocol.meta_messages import SlotCopies
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.simulated_cluster import SimulatedCluster


class ClusterState(StrEnum):
    """What is under way. A cluster may be in several states at once; it is quiet in none of the others."""

    QUIET = "quiet"
    """None of the others."""
    ELECTION = "election"
    """No meta server leads."""
    SLOT_MOVING = "slot moving"
    """A slot's leader does not serve it yet, or servers have different views."""
    FOLLOWER = "follower catching up"
    """A follower is not in sync with its leader."""
    ROUND = "departure round"
    """Data servers ask session servers before registrations end."""
    HELD = "losses held back"
    """Registrations of lost clients wait for evidence."""
    ARRIVING = "arriving"
    """A client arrives at a session server."""
    REPLAY = "replay"
    """A client has not sent everything again."""
    HERD = "herd waiting"
    """Clients are connected and wait to be let in."""
    PARTS = "parts"
    """A service in parts is on its way."""
    WRITES = "writes waiting"
    """Records are on their way to slot leaders."""
    TRIAL = "learner on trial"
    """Acknowledgements wait for a learner, too."""
    READY = "learner ready"
    """A learner is reported as complete, and is no follower yet."""
    LOST = "holder lost"
    """A holder that acknowledgements wait for is reported as not reached."""
    CONFIRMING = "leases unconfirmed"
    """Leases are stored, and the followers have not confirmed that they have them."""


def states_of(cluster: SimulatedCluster) -> list[ClusterState]:
    """The states that the cluster is in."""
    found = among(cluster, _LOOKS)
    return found or [ClusterState.QUIET]


def among(cluster: SimulatedCluster, states: Iterable[ClusterState]) -> list[ClusterState]:
    """Those of ``states`` that the cluster is in. Quiet is none of them: it takes a look at all."""
    data = [server for server in cluster.servers.values() if isinstance(server, DataServer)]
    sessions = [server for server in cluster.servers.values() if isinstance(server, SessionServer)]
    return [state for state in states if state in _LOOKS and _LOOKS[state](cluster, data, sessions)]


Look = Callable[[SimulatedCluster, list[DataServer], list[SessionServer]], bool]


def _slot_is_moving(cluster: SimulatedCluster, data: list[DataServer], _sessions: list[SessionServer]) -> bool:
    if len({view.revision for view in cluster.views()}) > 1:
        return True
    return any(not held.serving for server in data for held in server.core.slots.led())


def _follower_is_behind(_cluster: SimulatedCluster, data: list[DataServer], _sessions: list[SessionServer]) -> bool:
    return any(not held.leads and not held.synced for server in data for held in server.core.slots.held.values())


def _round_is_open(_cluster: SimulatedCluster, data: list[DataServer], _sessions: list[SessionServer]) -> bool:
    return any(server.core.endings.rounds.is_asking for server in data)


def _counts_data(counter: str) -> Look:
    return lambda _cluster, data, _sessions: any(server.core.endings.counters()[counter] for server in data)


def _counts_sessions(counter: str) -> Look:
    return lambda _cluster, _data, sessions: any(server.core.counters()[counter] for server in sessions)


def _is_replaying(_cluster: SimulatedCluster, _data: list[DataServer], sessions: list[SessionServer]) -> bool:
    return any(client.is_replaying for server in sessions for client in server.core.clients.values())


def _gathers_parts(_cluster: SimulatedCluster, _data: list[DataServer], sessions: list[SessionServer]) -> bool:
    return any(service.copy.parts for server in sessions for service in server.core.interests.services.values())


def _trusts_a_learner(_cluster: SimulatedCluster, data: list[DataServer], _sessions: list[SessionServer]) -> bool:
    led = ((server.core.in_sync, held) for server in data for held in server.core.slots.led())
    return any(in_sync.needed(held).difference(held.slot.followers) for in_sync, held in led)


def _reports(what: Callable[[SlotCopies], list[str]]) -> Look:
    return lambda _cluster, data, _sessions: any(
        what(copies) for server in data for copies in server.core.in_sync.reports()
    )


def _confirms(_cluster: SimulatedCluster, data: list[DataServer], _sessions: list[SessionServer]) -> bool:
    return any(server.core.confirmations.is_waiting for server in data)


_LOOKS: dict[ClusterState, Look] = {
    ClusterState.ELECTION: lambda cluster, _data, _sessions: cluster.leader is None,
    ClusterState.SLOT_MOVING: _slot_is_moving,
    ClusterState.FOLLOWER: _follower_is_behind,
    ClusterState.ROUND: _round_is_open,
    ClusterState.HELD: _counts_data("endings_held"),
    ClusterState.ARRIVING: _counts_data("clients_arriving"),
    ClusterState.REPLAY: _is_replaying,
    ClusterState.HERD: _counts_sessions("clients_waiting"),
    ClusterState.PARTS: _gathers_parts,
    ClusterState.WRITES: _counts_sessions("writes_waiting"),
    ClusterState.TRIAL: _trusts_a_learner,
    ClusterState.READY: _reports(lambda copies: copies.ready),
    ClusterState.LOST: _reports(lambda copies: copies.lost),
    ClusterState.CONFIRMING: _confirms,
}
