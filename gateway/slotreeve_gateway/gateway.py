"""What a face has of the gateway that it belongs to."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from slotreeve.clock import Clock
from slotreeve.errors import PluginError
from slotreeve.model.nodes import Role
from slotreeve.ports import Context
from slotreeve_servers.node.settings_in_force import SettingsInForce
from slotreeve_servers.settings import Settings

from slotreeve_gateway.access import GatewayAccess
from slotreeve_gateway.pages import FacePages
from slotreeve_gateway.registry import Registry
from slotreeve_gateway.servers import ClusterServers


@dataclass(frozen=True)
class Gateway:
    """What a face is built with, as ``context.gateway``.

    Attributes:
        registry: services and leases.
        servers: the way to the servers of the cluster, for what operators see and do.
        access: who may do what. A face finds the caller's token where its protocol has it, and asks for each service.
        pages: where a face that speaks HTTP adds its application. All of them share one listener, which sees to TLS
            and to the limits of connections, headers and bodies.
        clock, rng: the source of time and the source of random numbers.
        name: of this gateway.
        zone: the failure domain that it is in; empty if not said.
        cluster: name of the cluster.
        host: where faces with a listener of their own listen, such as DNS.
        settings_in_force: the settings of this gateway, which an operator may change.
    """

    registry: Registry
    servers: ClusterServers
    access: GatewayAccess
    pages: FacePages
    clock: Clock
    rng: random.Random
    name: str
    zone: str
    cluster: str
    host: str
    settings_in_force: SettingsInForce = field(default_factory=lambda: SettingsInForce(Settings(), {}, Role.GATEWAY))

    @classmethod
    def of(cls, context: Context) -> Gateway:
        """The gateway in the context that a face is built with.

        Raises:
            PluginError: there is none: faces are built by gateways only.
        """
        if not isinstance(context.gateway, cls):
            raise PluginError("a face is built by a gateway only (slotreeve gateway run)")
        return context.gateway
