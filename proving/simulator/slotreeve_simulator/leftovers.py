"""What a calm cluster must not keep: tables of things under way are empty again when nothing is under way."""

from __future__ import annotations

from slotreeve_servers.data.server import DataServer
from slotreeve_servers.session.server import SessionServer

from slotreeve_simulator.simulated_cluster import SimulatedCluster

EMPTY_COUNTERS = (
    *("clients_arriving", "endings_held", "clients_waiting", "clients_behind", "writes_waiting"),
    *("clients_refused", "names_refused"),
)
"""Counters of servers that are 0 in a calm cluster (docs/counters.md). The last two rise for good where two clients or
servers have one name, which nobody has here."""


def leftover(cluster: SimulatedCluster) -> str | None:
    """What some server of a calm cluster keeps without need; None if there is nothing."""
    for name, server in cluster.servers.items():
        counters = server.core.counters()
        for counter in EMPTY_COUNTERS:
            if counters.get(counter):
                return f"{name} has {counter} {counters[counter]}"
        settings = server.settings_in_force.report().settings
        live = [one.name for one in settings if one.is_live or one.value != one.configured]
        if live:
            return f"{name} still follows what an operator set for {', '.join(live)}"
        if isinstance(server, DataServer):
            problem = _of_slots(server)
            if problem is not None:
                return f"{name}: {problem}"
        if isinstance(server, SessionServer) and server.core.isolation.since is not None:
            return f"{name} sends its clients away: it counts as cut off from a leader"
    for name, client in cluster.clients.items():
        statistics = client.statistics()
        if statistics.unacknowledged or statistics.unconfirmed:
            return f"{name}: {statistics}"
    return None


def _of_slots(server: DataServer) -> str | None:
    members = {node.process_id for node in server.view.sessions}
    gone = server.core.lost_clients.gone
    if gone:
        return f"session processes {', '.join(sorted(gone))} count as gone, although nothing of them is left"
    for number, held in server.core.slots.held.items():
        if not held.leads:
            continue
        if held.leaving:
            return f"slot {number} waits for {held.leaving} departures"
        streams = [peer.node for peer in held.streams]
        if held.slot.learners:
            return f"slot {number} still has the learners {', '.join(held.slot.learners)}"
        awaited = server.core.in_sync.needed(held).symmetric_difference(held.slot.followers)
        if awaited:
            return f"slot {number} waits for others than its followers, or not for them: {', '.join(sorted(awaited))}"
        if held.copying:
            return f"slot {number} is still copied by {', '.join(sorted(peer.node for peer in held.copying))}"
        if sorted(streams) != sorted(held.slot.followers):
            return f"slot {number} is streamed to {streams}; its followers are {list(held.slot.followers)}"
        strangers = {
            peer.process_id
            for service in held.tracked.values()
            for peer in service.sessions
            if peer.process_id not in members
        }
        if strangers:
            return f"slot {number} is announced to {', '.join(sorted(strangers))}, which are no members"
    return None
