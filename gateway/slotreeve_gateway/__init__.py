"""A gateway: the registry for programs that do not use our client.

This page is what authors of faces need. A face is a plugin of the port ``face``: its ``build`` takes its gateway with
``Gateway.of(context)`` and adds its pages to ``gateway.pages``, or listens by itself (docs/gateway.md).
"""

from __future__ import annotations

from slotreeve_client import Filter, LeaseAnswers, Provider

from slotreeve_gateway.access import Caller, GatewayAccess, Right
from slotreeve_gateway.directory import OWN_INSTANCE, ServiceDirectory
from slotreeve_gateway.gateway import Gateway
from slotreeve_gateway.pages import FacePages
from slotreeve_gateway.registry import DEFAULT_TTL_SECONDS, Registration, Registry, in_zone
from slotreeve_gateway.servers import ClusterServers
from slotreeve_gateway.turns import Turns
from slotreeve_gateway.views import ServiceView
from slotreeve_gateway.waiting import while_there

__all__ = [
    "DEFAULT_TTL_SECONDS",
    "OWN_INSTANCE",
    "Caller",
    "ClusterServers",
    "FacePages",
    "Filter",
    "Gateway",
    "GatewayAccess",
    "LeaseAnswers",
    "Provider",
    "Registration",
    "Registry",
    "Right",
    "ServiceDirectory",
    "ServiceView",
    "Turns",
    "in_zone",
    "while_there",
]
