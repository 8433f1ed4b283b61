"""What callers of a gateway say over HTTP, in the languages of the faces in which they can register."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slotreeve_gateway.views import STEPS

from slotreeve_simulator.simulated_gateway import GatewayAnswer

JSON = {"Content-Type": "application/json", "Accept": "application/json"}
ADDRESS = "10.0.0.1"


@dataclass(frozen=True)
class HttpCall:
    """A request. It may wait at the gateway for ``wait_seconds``."""

    method: str
    path: str
    body: object = b""
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    wait_seconds: float = 0.0


class HttpDialect(Protocol):
    """The requests of one face. Services are data ids, leases their ids, times seconds."""

    def register(self, service: str, lease_id: str, ttl: float) -> HttpCall:
        """Register a lease, or replace it."""

    def renew(self, service: str, lease_id: str) -> HttpCall:
        """Renew it; 404 says that there is none."""

    def end(self, service: str, lease_id: str) -> HttpCall:
        """End it; 404 says that there was none."""

    def read(self, service: str, index: int, wait: float) -> HttpCall:
        """Read the service; with an ``index`` once it has a greater one, where the face can wait."""

    def shown(self, answer: GatewayAnswer) -> set[str]:
        """The lease ids that an answer to ``read`` shows."""

    def index(self, answer: GatewayAnswer) -> int:
        """The index of the answer; 0 where the face has none."""

    def version(self, index: int) -> int:
        """The version of the service that an index stands for."""


class RestDialect:
    """The face ``rest``."""

    def register(self, service: str, lease_id: str, ttl: float) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("PUT", self._one(service, lease_id), {"address": ADDRESS, "ttl_seconds": ttl})

    def renew(self, service: str, lease_id: str) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("PUT", f"{self._one(service, lease_id)}/renewal")

    def end(self, service: str, lease_id: str) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("DELETE", self._one(service, lease_id))

    def read(self, service: str, index: int, wait: float) -> HttpCall:
        """See HttpDialect."""
        asked = f"?index={index}&wait={wait:g}" if index else ""
        return HttpCall("GET", f"/v1/services/{service}/instances{asked}", wait_seconds=wait)

    def shown(self, answer: GatewayAnswer) -> set[str]:
        """See HttpDialect."""
        return {instance["id"] for instance in answer.json["instances"]}

    def index(self, answer: GatewayAnswer) -> int:
        """See HttpDialect."""
        return int(answer.json["index"])

    def version(self, index: int) -> int:
        """See HttpDialect."""
        return index

    def _one(self, service: str, lease_id: str) -> str:
        return f"/v1/services/{service}/instances/{lease_id}"


class ConsulDialect:
    """The face ``consul``."""

    def register(self, service: str, lease_id: str, ttl: float) -> HttpCall:
        """See HttpDialect."""
        check = {"TTL": f"{ttl:g}s", "Status": "passing"}
        body = {"Name": service, "ID": lease_id, "Address": ADDRESS, "Port": 80, "Check": check}
        return HttpCall("PUT", "/v1/agent/service/register", body)

    def renew(self, service: str, lease_id: str) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("PUT", f"/v1/agent/check/pass/service:{lease_id}")

    def end(self, service: str, lease_id: str) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("PUT", f"/v1/agent/service/deregister/{lease_id}")

    def read(self, service: str, index: int, wait: float) -> HttpCall:
        """See HttpDialect."""
        asked = f"&index={index}&wait={wait:g}s" if index else ""
        return HttpCall("GET", f"/v1/health/service/{service}?passing{asked}", wait_seconds=wait)

    def shown(self, answer: GatewayAnswer) -> set[str]:
        """See HttpDialect."""
        return {entry["Service"]["ID"] for entry in answer.json}

    def index(self, answer: GatewayAnswer) -> int:
        """See HttpDialect."""
        return int({name.lower(): value for name, value in answer.headers.items()}["x-consul-index"])

    def version(self, index: int) -> int:
        """See HttpDialect."""
        return index // STEPS


class EurekaDialect:
    """The face ``eureka``, which cannot wait."""

    def register(self, service: str, lease_id: str, ttl: float) -> HttpCall:
        """See HttpDialect."""
        instance = {"instanceId": lease_id, "ipAddr": ADDRESS, "leaseInfo": {"durationInSecs": int(ttl)}}
        return HttpCall("POST", f"/eureka/apps/{service}", {"instance": instance})

    def renew(self, service: str, lease_id: str) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("PUT", f"/eureka/apps/{service}/{lease_id}")

    def end(self, service: str, lease_id: str) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("DELETE", f"/eureka/apps/{service}/{lease_id}")

    def read(self, service: str, index: int, wait: float) -> HttpCall:
        """See HttpDialect."""
        return HttpCall("GET", f"/eureka/apps/{service}")

    def shown(self, answer: GatewayAnswer) -> set[str]:
        """See HttpDialect."""
        if answer.status == 404:
            return set()  # an application without instances
        return {instance["instanceId"] for instance in json.loads(answer.body)["application"]["instance"]}

    def index(self, answer: GatewayAnswer) -> int:
        """See HttpDialect."""
        return 0

    def version(self, index: int) -> int:
        """See HttpDialect."""
        return index


HTTP_DIALECTS: Mapping[str, HttpDialect] = {
    "rest": RestDialect(),
    "consul": ConsulDialect(),
    "eureka": EurekaDialect(),
}
"""By the name of the face."""
