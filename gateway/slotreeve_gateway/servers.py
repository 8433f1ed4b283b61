"""The way from a gateway to the servers of its cluster, for what operators see and do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slotreeve.errors import Unreachable
from slotreeve.ports import Transport
from slotreeve_client.on_behalf import OnBehalf


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

    @property
    def asked(self) -> tuple[Transport, str, tuple[str, ...]]:
        """The first arguments of those functions.

        Raises:
            Unreachable: the configuration names no meta servers.
        """
        if not self.metas:
            raise Unreachable("the gateway knows no meta server; name them in its configuration (cluster.meta)")
        return self.transport, self.cluster, self.metas

    def on_behalf(self, who: str) -> ClusterServers:
        """The same, for requests that somebody else has made. ``who`` comes into the logs of the servers."""
        return replace(self, transport=OnBehalf(self.transport, who))
