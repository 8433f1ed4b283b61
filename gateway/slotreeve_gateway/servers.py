"""The way from a gateway to the servers of its cluster, for what operators see and do."""

from __future__ import annotations

from dataclasses import dataclass

from slotreeve.ports import Transport


@dataclass(frozen=True)
class ClusterServers:
    """What the functions of :mod:`slotreeve_client.administration`, ``condition`` and ``audience`` are called with.

    Attributes:
        transport: to any server of the cluster.
        cluster: name of the cluster.
        metas: addresses of the meta servers; empty where the configuration names none.
    """

    transport: Transport
    cluster: str
    metas: tuple[str, ...]
