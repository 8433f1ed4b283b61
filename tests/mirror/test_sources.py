"""What is read of other registries, from answers that are given by the test."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import SlotreeveError, Unreachable
from slotreeve_mirror.consul import ConsulSource
from slotreeve_mirror.mirror import SourceState
from slotreeve_mirror.nacos import PAGE, NacosSource
from slotreeve_mirror.source import SourcePages, first_of

GROUP = "DEFAULT_GROUP"


def entry(node: int, service_id: str = "web") -> dict[str, Any]:
    service = {"ID": service_id, "Service": "web", "Port": 80, "Address": "", "Tags": [], "Meta": {}}
    return {"Node": {"Node": f"n{node}", "Address": f"10.0.0.{node}"}, "Service": service, "Checks": []}


def consul(request: httpx.Request) -> httpx.Response:
    headers = {"X-Consul-Index": "7"}
    if request.url.path.endswith("catalog/services"):
        return httpx.Response(200, json={"web": [], "dark": []}, headers=headers)
    if request.url.path.endswith("dark"):
        return httpx.Response(500, text="rpc error")
    return httpx.Response(200, json=[entry(1), entry(2), entry(3, "web-3")], headers=headers)


async def read(url: str) -> SourceState:
    return await first_of(ConsulSource(SourcePages(url, transport=httpx.MockTransport(consul)), LoopClock(), GROUP))


def test_instances_of_several_machines_with_one_id_are_told_apart_by_their_machine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = asyncio.run(read("http://op:s3cret@consul:8500"))
    assert {place.lease_id: one.address for place, one in state.instances.items()} == {
        "web@n1": "10.0.0.1",
        "web@n2": "10.0.0.2",
        "web-3": "10.0.0.3",
    }
    assert [name.partition("#")[0] for name in state.unknown] == ["dark"]
    assert "http://consul:8500/v1/health/service/dark answers 500" in caplog.text
    assert "s3cret" not in caplog.text


def test_no_error_of_a_source_has_the_password_in_its_address() -> None:
    async def body() -> SlotreeveError:
        pages = SourcePages(
            "http://op:s3cret@consul:8500", transport=httpx.MockTransport(lambda _: httpx.Response(500))
        )
        with pytest.raises(Unreachable, match="http://consul:8500/") as caught:
            await first_of(ConsulSource(pages, LoopClock(), GROUP))
        return caught.value

    assert "s3cret" not in str(asyncio.run(body()))


def test_a_service_that_is_deleted_while_the_pages_are_read_hides_no_other_one() -> None:
    names = [f"s{number:03d}" for number in range(PAGE + 1)]
    asked = list[int]()

    def nacos(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("service/list"):
            return httpx.Response(200, json={"hosts": [{"ip": "10.0.0.1", "port": 80}]})
        page = int(request.url.params["pageNo"])
        left = names if not asked else names[1:]  # the first one goes after the first page
        asked.append(page)
        return httpx.Response(200, json={"count": len(left), "doms": left[(page - 1) * PAGE : page * PAGE]})

    async def body() -> SourceState:
        pages = SourcePages("http://nacos", transport=httpx.MockTransport(nacos))
        return await first_of(NacosSource(pages, LoopClock(), GROUP, 0.01, {}))

    found = {place.service.partition("#")[0] for place in asyncio.run(body()).instances}
    assert found == set(names[1:])
