"""Followers compared with their leaders, when nothing goes on."""

from __future__ import annotations

from slotreeve_servers.data.server import DataServer

from slotreeve_simulator.simulated_cluster import SimulatedCluster

Content = dict[str, tuple[int, int, str]]


def follower_difference(cluster: SimulatedCluster) -> str | None:
    """How a follower's records differ from those of its leader; None if none does. Call it in a calm cluster: what is
    on its way is a difference too."""
    servers = {name: server for name, server in cluster.servers.items() if isinstance(server, DataServer)}
    for name, server in servers.items():
        for number, held in server.core.slots.held.items():
            leader = servers.get(held.slot.leader or "")
            if held.leads or leader is None or number not in leader.core.slots.held:
                continue
            missing = _tombstones(leader, number) - _tombstones(server, number)
            if missing:
                return f"{name}, which follows slot {number} of {held.slot.leader}, lacks the tombstones of {missing}"
            ours, theirs = _content(server, number), _content(leader, number)
            if ours != theirs:
                differing = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
                return (
                    f"{name}, which follows slot {number} of {held.slot.leader}, differs in {', '.join(differing[:3])}"
                )
    return None


def _content(server: DataServer, number: int) -> Content:
    records = server.core.slots.held[number].store.records()
    return {record.register_id: (record.incarnation, record.version, record.session) for record in records}


def _tombstones(server: DataServer, number: int) -> set[str]:
    return set(server.core.slots.held[number].store.tombstones)
