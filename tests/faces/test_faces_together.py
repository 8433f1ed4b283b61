"""What is registered through one face is seen through every other one, and by our client, with the same fields."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import dns.asyncquery
import dns.message
import dns.rdatatype
import pytest
from slotreeve_harness.free_ports import free_address
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Instance

from tests.faces.stage import OnStage, Stage

SERVICE = "shop"
ALL = "rest,consul,eureka,prometheus,envoy,dns"
TTL_SECONDS = 600
VERSION = "2"
Seen = dict[str, tuple[str, int, str]]
"""Address, port and the metadata entry ``version``, by id."""


async def by_client(stage: Stage, name: str, address: str) -> None:
    instance = Instance(address, 80, id=name, metadata={"version": VERSION})
    await stage.sdk.leases.register(SERVICE, name, encode_instance(instance), ttl_seconds=TTL_SECONDS)


async def by_rest(stage: Stage, name: str, address: str) -> None:
    body = {"address": address, "port": 80, "metadata": {"version": VERSION}, "ttl_seconds": TTL_SECONDS}
    answer = await stage.http.put(f"/v1/services/{SERVICE}/instances/{name}", json=body)
    assert answer.status_code == 200, answer.text


async def by_consul(stage: Stage, name: str, address: str) -> None:
    check = {"TTL": f"{TTL_SECONDS}s", "Status": "passing"}
    body = {"Name": SERVICE, "ID": name, "Address": address, "Port": 80, "Meta": {"version": VERSION}, "Check": check}
    answer = await stage.http.put("/v1/agent/service/register", json=body)
    assert answer.status_code == 200, answer.text


async def by_eureka(stage: Stage, name: str, address: str) -> None:
    instance = {
        "instanceId": name,
        "ipAddr": address,
        "port": {"$": 80, "@enabled": "true"},
        "status": "UP",
        "leaseInfo": {"durationInSecs": TTL_SECONDS},
        "metadata": {"version": VERSION},
    }
    answer = await stage.http.post(f"/eureka/apps/{SERVICE}", json={"instance": instance})
    assert answer.status_code == 204, answer.text


async def seen_by_client(stage: Stage) -> Seen:
    found = [provider.instance for provider in await stage.sdk.get(SERVICE)]
    return {one.id: (one.address, one.port, one.metadata["version"]) for one in found if one is not None}


async def seen_by_rest(stage: Stage) -> Seen:
    found = (await stage.http.get(f"/v1/services/{SERVICE}/instances")).json()["instances"]
    return {one["id"]: (one["address"], one["port"], one["metadata"]["version"]) for one in found}


async def seen_by_consul(stage: Stage) -> Seen:
    found = [one["Service"] for one in (await stage.http.get(f"/v1/health/service/{SERVICE}?passing")).json()]
    return {one["ID"]: (one["Address"], one["Port"], one["Meta"]["version"]) for one in found}


async def seen_by_eureka(stage: Stage) -> Seen:
    answer = await stage.http.get(f"/eureka/apps/{SERVICE}", headers={"Accept": "application/json"})
    if answer.status_code == 404:
        return {}
    found: Any = answer.json()["application"]["instance"]
    return {one["instanceId"]: (one["ipAddr"], int(one["port"]["$"]), one["metadata"]["version"]) for one in found}


async def seen_by_prometheus(stage: Stage) -> Seen:
    seen: Seen = {}
    for group in (await stage.http.get(f"/prometheus/targets/{SERVICE}")).json():
        address, _, port = group["targets"][0].rpartition(":")
        labels = group["labels"]
        seen[labels["__meta_slotreeve_id"]] = (address, int(port), labels["__meta_slotreeve_metadata_version"])
    return seen


async def seen_by_envoy(stage: Stage) -> Seen:
    answer = await stage.http.post("/v3/discovery:endpoints", json={"resource_names": [SERVICE]})
    seen: Seen = {}
    for locality in answer.json()["resources"][0]["endpoints"]:
        for endpoint in locality["lbEndpoints"]:
            at = endpoint["endpoint"]["address"]["socketAddress"]
            fields = endpoint["metadata"]["filterMetadata"]["slotreeve"]
            assert endpoint["healthStatus"] == "HEALTHY"
            seen[fields["id"]] = (at["address"], at["portValue"], fields["version"])
    return seen


async def addresses_by_dns(port: int) -> set[str]:
    query = dns.message.make_query(f"{SERVICE}.service.slotreeve.", "A")
    answer = await dns.asyncquery.udp(query, "127.0.0.1", 10, port)
    return {record.to_text() for rrset in answer.answer for record in rrset if record.rdtype is dns.rdatatype.A}


WRITERS = {"client": by_client, "rest": by_rest, "consul": by_consul, "eureka": by_eureka}
READERS: dict[str, Callable[[Stage], Awaitable[Seen]]] = {
    "client": seen_by_client,
    "rest": seen_by_rest,
    "consul": seen_by_consul,
    "eureka": seen_by_eureka,
    "prometheus": seen_by_prometheus,
    "envoy": seen_by_envoy,
}


def test_every_face_shows_what_every_other_one_registered(on_stage: OnStage) -> None:
    port = int(free_address().rpartition(":")[2])

    async def story(stage: Stage) -> None:
        wanted: Seen = {}
        for number, (writer, register) in enumerate(WRITERS.items()):
            name, address = f"{writer}-1", f"10.0.0.{number}"
            await register(stage, name, address)
            wanted[name] = (address, 80, VERSION)

        for reader, see in READERS.items():

            async def sees_all(see: Callable[[Stage], Awaitable[Seen]] = see) -> bool:
                return await see(stage) == wanted

            await stage.until(sees_all, f"{reader} shows {wanted}")

        async def dns_has_all() -> bool:
            return await addresses_by_dns(port) == {address for address, _, _ in wanted.values()}

        await stage.until(dns_has_all, "DNS has every address")

    on_stage(story, faces=ALL, settings={"face.dns.port": port})


def test_what_one_face_ends_is_gone_in_all_of_them(on_stage: OnStage) -> None:
    async def story(stage: Stage) -> None:
        for number, (writer, register) in enumerate(WRITERS.items()):
            await register(stage, f"{writer}-1", f"10.0.0.{number}")
        assert (await stage.http.delete(f"/v1/services/{SERVICE}/instances/consul-1")).status_code == 204
        assert (await stage.http.put("/v1/agent/service/deregister/eureka-1")).status_code == 200
        assert (await stage.http.delete(f"/eureka/apps/{SERVICE}/rest-1")).status_code == 200
        assert await stage.sdk.leases.deregister(SERVICE, "client-1")

        async def nobody_is_left() -> bool:
            return not any(await asyncio.gather(*(see(stage) for see in READERS.values())))

        await stage.until(nobody_is_left, "every face shows nothing")

    on_stage(story, faces=ALL.removesuffix(",dns"))


@pytest.mark.parametrize("writer", WRITERS)
def test_an_operators_override_is_seen_whoever_registered(on_stage: OnStage, writer: str) -> None:
    async def story(stage: Stage) -> None:
        await WRITERS[writer](stage, "one", "10.0.0.1")
        answer = await stage.http.put(f"/v1/services/{SERVICE}/instances/one/override", json={"enabled": False})
        assert answer.status_code in (200, 204), answer.text

        async def is_disabled() -> bool:
            shown = (await stage.http.get(f"/v1/services/{SERVICE}/instances")).json()["instances"]
            consul = (await stage.http.get(f"/v1/health/service/{SERVICE}?passing")).json()
            envoy = await seen_by_envoy(stage)
            return shown[0]["enabled"] is False and not consul and not envoy

        await stage.until(is_disabled, "every face shows the override")

    on_stage(story, faces=ALL.removesuffix(",dns"))
