"""Every face keeps the contract of faces."""

from __future__ import annotations

from slotreeve_protocol.instance import Instance
from slotreeve_simulator.face_contract import FaceContract, FaceRequest
from slotreeve_simulator.simulated_gateway import SimulatedGateway

from tests.faces.dns.dns_contract import DnsFaceContract

SERVICE = "com.example.Web"
JSON = {"Content-Type": "application/json"}
MANY = {"service": SERVICE, "address": "10.0.0.2"}
LISTS_OF_CONSUL = (
    "/v1/agent/self",
    "/v1/agent/services",
    "/v1/agent/checks",
    "/v1/catalog/services",
    "/v1/catalog/nodes",
    "/v1/catalog/datacenters",
    "/v1/status/leader",
    "/v1/status/peers",
)


class TestRest(FaceContract):
    face = "rest"
    service = SERVICE
    shown = SERVICE
    lists = ("/v1/services",)
    requests = (
        FaceRequest(
            "PUT", f"/v1/services/{SERVICE}/instances/web-1", {"address": "10.0.0.1", "ttl_seconds": 600}, JSON
        ),
        FaceRequest("GET", "/v1/services"),
        FaceRequest("GET", f"/v1/services/{SERVICE}/instances"),
        FaceRequest("GET", f"/v1/services/{SERVICE}/instances/web-1"),
        FaceRequest("PUT", f"/v1/services/{SERVICE}/instances/web-1/renewal"),
        FaceRequest("PUT", f"/v1/services/{SERVICE}/instances/web-1/override", {"weight": 1}, JSON),
        FaceRequest("GET", f"/v1/services/{SERVICE}/instances/web-1/override"),
        FaceRequest("DELETE", f"/v1/services/{SERVICE}/instances/web-1/override"),
        FaceRequest(
            "POST", "/v1/bulk/register", {"registrations": [{"service": SERVICE, "address": "10.0.0.2"}]}, JSON
        ),
        FaceRequest("POST", "/v1/bulk/renew", {"leases": {SERVICE: ["10.0.0.2"]}}, JSON),
        FaceRequest("POST", "/v1/bulk/deregister", {"leases": {SERVICE: ["10.0.0.2"]}}, JSON),
        FaceRequest("GET", "/v1/openapi.json", is_open=True),
    )


class TestConsul(FaceContract):
    face = "consul"
    service = SERVICE
    shown = "web-1"
    lists = LISTS_OF_CONSUL
    requests = (
        FaceRequest(
            "PUT",
            "/v1/agent/service/register",
            {"Name": SERVICE, "ID": "web-1", "Address": "10.0.0.1", "Port": 80, "Check": {"TTL": "600s"}},
        ),
        FaceRequest("PUT", "/v1/agent/check/pass/service:web-1"),
        FaceRequest("PUT", "/v1/agent/check/warn/service:web-1?note=slow"),
        FaceRequest("PUT", "/v1/agent/check/update/service:web-1", {"Status": "passing", "Output": "well"}),
        FaceRequest("GET", f"/v1/health/service/{SERVICE}?passing"),
        FaceRequest("GET", f"/v1/health/checks/{SERVICE}"),
        FaceRequest("GET", f"/v1/catalog/service/{SERVICE}"),
        *(FaceRequest("GET", path) for path in LISTS_OF_CONSUL),
    )


class TestEureka(FaceContract):
    face = "eureka"
    service = "web"
    shown = "web-1"
    lists = ("/eureka/apps", "/eureka/apps/delta")
    requests = (
        FaceRequest(
            "POST",
            "/eureka/apps/WEB",
            {
                "instance": {
                    "instanceId": "web-1",
                    "ipAddr": "10.0.0.1",
                    "port": {"$": 80, "@enabled": "true"},
                    "leaseInfo": {"durationInSecs": 600},
                }
            },
            JSON,
        ),
        FaceRequest("PUT", "/eureka/apps/WEB/web-1"),
        FaceRequest("GET", "/eureka/apps"),
        FaceRequest("GET", "/eureka/apps/delta"),
        FaceRequest("PUT", "/eureka/apps/WEB/web-1/status?value=OUT_OF_SERVICE"),
        FaceRequest("DELETE", "/eureka/apps/WEB/web-1/status"),
    )


class TestPrometheus(FaceContract):
    face = "prometheus"
    service = SERVICE
    shown = "10.0.0.1"
    lists = ("/prometheus/targets",)
    requests = (FaceRequest("GET", "/prometheus/targets"), FaceRequest("GET", f"/prometheus/targets/{SERVICE}"))


class TestEnvoy(FaceContract):
    face = "envoy"
    service = SERVICE
    shown = "10.0.0.1"
    requests = (FaceRequest("POST", "/v3/discovery:endpoints", {"resource_names": [SERVICE]}, JSON),)


class TestAdmin(FaceContract):
    face = "admin"
    service = SERVICE
    shown = SERVICE
    requests = (
        FaceRequest("GET", "/v1/admin/status"),
        FaceRequest("GET", "/v1/admin/members"),
        FaceRequest("GET", "/v1/admin/slots?slot=1"),
        FaceRequest("GET", "/v1/admin/orders"),
        FaceRequest("GET", "/v1/admin/configuration?prefix=a"),
        FaceRequest("GET", "/v1/admin/election"),
        FaceRequest("GET", "/v1/admin/overrides"),
        FaceRequest("GET", "/v1/admin/clients?limit=1"),
        FaceRequest("GET", f"/v1/admin/services/{SERVICE}/subscribers"),
        FaceRequest("PUT", "/v1/admin/drains/data-2", headers=JSON),
        FaceRequest("DELETE", "/v1/admin/orders/banned/data-2", headers=JSON),
        FaceRequest("PUT", "/v1/admin/orders/banned/session-9", headers=JSON),
        FaceRequest("PUT", "/v1/admin/orders/push-stop", {"except": ["10.0.0.7"]}, JSON),
        FaceRequest("DELETE", "/v1/admin/orders/push-stop", headers=JSON),
        FaceRequest("PUT", "/v1/admin/orders/clients-off/10.0.0.9", headers=JSON),
        FaceRequest("DELETE", "/v1/admin/orders/clients-off/10.0.0.9", headers=JSON),
        FaceRequest("PUT", "/v1/admin/configuration/a", {"value": "b"}, JSON),
        FaceRequest("PUT", "/v1/admin/configuration/a", {"base64": "AA==", "expected_version": None}, JSON),
        FaceRequest("GET", "/v1/admin/configuration/a"),
        FaceRequest("DELETE", "/v1/admin/configuration/a", headers=JSON),
        FaceRequest("POST", "/v1/admin/election/resignation?dry_run=true", {"to": ""}, JSON),
        FaceRequest("GET", "/v1/admin/openapi.json", is_open=True),
    )


class TestDns(DnsFaceContract):
    service = SERVICE
    shown = "com"
    requests = (
        FaceRequest("SOA", "slotreeve.", is_open=True),
        FaceRequest("NS", "slotreeve.", is_open=True),
        FaceRequest("A", "_tcp.service.slotreeve.", is_open=True),
        FaceRequest("A", "0a000001.addr.slotreeve.", is_open=True),
        *(
            FaceRequest(kind, name)
            for kind in ("A", "AAAA", "SRV", "TXT")
            for name in ("com.example.Web.service.slotreeve.", "_com.example.Web._tcp.service.slotreeve.")
        ),
        FaceRequest("A", "example.Web._tcp.slotreeve."),
    )

    async def begin(self, gateway: SimulatedGateway) -> None:
        await super().begin(gateway)
        await gateway.registry.register(SERVICE, Instance("10.0.0.1", 80), 600)


class TestConsole(FaceContract):
    face = "console"
    service = SERVICE
    shown = SERVICE
    lists = ("/ui/services",)
    requests = (
        FaceRequest("GET", "/ui/"),
        FaceRequest("GET", "/ui/services"),
        FaceRequest("GET", f"/ui/services/{SERVICE}"),
        FaceRequest("GET", "/ui/servers"),
        FaceRequest("GET", "/ui/slots"),
        FaceRequest("GET", "/ui/slots.json"),
        FaceRequest("GET", "/ui/election"),
        FaceRequest("GET", "/ui/configuration"),
        FaceRequest("GET", "/ui/static/console.css", is_open=True),
    )
