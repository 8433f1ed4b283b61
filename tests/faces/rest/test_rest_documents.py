"""JSON from and to instances, queries, and paths. Pure."""

from __future__ import annotations

import json
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ModelError, NotThere, RequestError
from slotreeve_client import Health, Instance, Provider
from slotreeve_face_rest.documents import InstanceBody, encode, shown
from slotreeve_face_rest.queries import InstancesQuery, ServicesQuery
from slotreeve_gateway.rest import Answer, RestOperation
from slotreeve_gateway.rest.override_body import OverrideBody
from slotreeve_gateway.rest.queries import query_of
from slotreeve_gateway.rest.routes import NoSuchMethod, RestRoutes
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.overrides import Override

LINE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INSTANCES = st.builds(
    Instance,
    address=st.sampled_from(["10.0.0.1", "::1", "a.example.org"]),
    port=st.integers(0, 65_535),
    scheme=st.sampled_from(["", "http", "a+b.c-1"]),
    weight=st.integers(0, 65_535),
    zone=LINE,
    tags=st.lists(LINE, max_size=4, unique=True).map(tuple),
    metadata=st.dictionaries(LINE, TEXT, max_size=4),
    health=st.sampled_from(Health),
    health_note=TEXT,
    enabled=st.booleans(),
    id=LINE,
)


def provider(instance: Instance) -> Provider:
    return Provider("r-1", instance.zone, (encode_instance(instance),))


@given(INSTANCES)
def test_what_is_shown_can_be_registered_and_is_the_same_instance(instance: Instance) -> None:
    document = json.loads(encode(shown(provider(instance))))
    assert document.pop("register_id") == "r-1"
    body = msgspec.json.decode(json.dumps(document), type=InstanceBody)
    assert body.instance(body.id, "elsewhere") == instance


@given(INSTANCES, st.integers(0, 65_535), st.booleans())
def test_an_overridden_instance_shows_what_its_provider_says(instance: Instance, weight: int, enabled: bool) -> None:
    override = Override(weight=weight, enabled=enabled)
    document = json.loads(encode(shown(provider(instance).overridden({instance.id: override}))))
    assert (document["weight"], document["enabled"]) == (weight, enabled)
    said = {"weight": instance.weight, "enabled": instance.enabled}
    assert document.get("said") == (None if (weight, enabled) == (instance.weight, instance.enabled) else said)


def test_bytes_of_a_provider_are_shown_in_base64() -> None:
    document = json.loads(encode(shown(Provider("r-1", "east", (b"\xff\x00", b"text")))))
    assert document == {"register_id": "r-1", "zone": "east", "data": ["/wA=", "dGV4dA=="]}


def test_an_override_is_shown_as_it_may_be_sent() -> None:
    override = Override(weight=0, enabled=False, drain=True, note="new disk")
    sent = encode(OverrideBody.of(override))
    assert msgspec.json.decode(sent, type=OverrideBody).override() == override


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (b"foo=1", "unknown field `foo`"),
        (b"index=x", "$.index"),
        (b"index=-1", "$.index"),
        (b"index=99999999999999999999", "$.index"),
        (b"wait=-1", "$.wait"),
        (b"wait=nan", "$.wait"),
        (b"index=1&index=2", "index is given twice"),
        (b"worst_health=good", "'good'"),
        (b"enabled_only=perhaps", "$.enabled_only"),
        (b"tag=", "$.tag"),
        (b"zone=%FF", "cannot be read"),
        (b"&".join([b"tag=a"] * 101), "cannot be read"),
    ],
)
def test_a_query_that_is_not_good_is_refused_by_the_name_of_its_parameter(query: bytes, says: str) -> None:
    with pytest.raises(RequestError) as caught:
        query_of(query, InstancesQuery)
    assert says in str(caught.value)


def test_a_query_is_read() -> None:
    query = query_of(b"index=5&wait=0.5&tag=a&tag=b%26c&zone=z+1&enough=2&worst_health=passing", InstancesQuery)
    assert (query.index, query.wait, query.tag, query.zone) == (5, 0.5, ("a", "b&c"), "z 1")
    assert query.filter is not None
    assert (query.filter.tags, query.filter.enough) == ({"a", "b&c"}, 2)
    assert query_of(b"", ServicesQuery) == ServicesQuery()


def test_enough_without_a_zone_is_refused() -> None:
    with pytest.raises(ModelError, match="enough is 3"):
        query_of(b"enough=3", InstancesQuery).filter  # noqa: B018


def routes() -> RestRoutes[str]:
    good = {200: Answer("good")}
    paths = [("GET", "/v1/s"), ("PUT", "/v1/s/{service}/i/{id}"), ("GET", "/v1/s/{service}/i/{id}"), ("POST", "/v1/b")]
    return RestRoutes(
        [RestOperation(method, path, path, "", f"{method} {path}", good) for method, path in paths], "/v1/openapi.json"
    )


@given(TEXT, TEXT)
def test_names_in_a_path_may_be_any_text(service: str, instance_id: str) -> None:
    path = f"/v1/s/{quote(service, safe='')}/i/{quote(instance_id, safe='')}"
    operation, names = routes().find("PUT", path.encode())
    assert operation.handler == "PUT /v1/s/{service}/i/{id}"
    assert names == {"service": service, "id": instance_id}


@pytest.mark.parametrize("path", [b"/v1/s/", b"/v1", b"", b"/v1/s/a/j/b", b"/v1/s/a/i/b/c", b"/v1/S", b"/v1%2Fs"])
def test_another_path_is_not_there(path: bytes) -> None:
    with pytest.raises(NotThere):
        routes().find("GET", path)


def test_another_method_is_told_those_that_are_good() -> None:
    with pytest.raises(NoSuchMethod, match="PUT, GET, HEAD") as caught:
        routes().find("DELETE", b"/v1/s/a/i/b")
    assert caught.value.allowed == ("PUT", "GET", "HEAD")
    with pytest.raises(NoSuchMethod, match="it knows POST"):
        routes().find("HEAD", b"/v1/b")


def test_a_head_asks_as_a_get_does() -> None:
    assert routes().find("HEAD", b"/v1/s")[0].method == "GET"


def test_a_path_that_is_not_utf_8_is_refused() -> None:
    for path in (b"/v1/s/%FF/i/a", b"/v1/s/\xff/i/a"):
        with pytest.raises(RequestError, match="not UTF-8"):
            routes().find("GET", path)
