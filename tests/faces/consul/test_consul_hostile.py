"""What is wrong, hostile or not allowed is answered with 4xx and a text, and the face goes on."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve_face_consul.durations import seconds_of, text_of
from slotreeve_face_consul.options import ConsulOptions
from slotreeve_face_consul.queries import ConsulQuery
from slotreeve_face_consul.registrations import registration, ttl_seconds_of, update
from slotreeve_protocol.instance import Health

from tests.faces.gateway_on_trial import GatewayOnTrial, Trial, play

GOOD = {"Name": "web", "ID": "web-1", "Address": "10.0.0.1", "Port": 80}
DEEP = b"[" * 200_000
BAD_BODIES: dict[str, object] = {
    "empty": b"",
    "no JSON": b"{",
    "a list": [],
    "deep": DEEP,
    "deep in a field": b'{"Name":"web","Tags":' + DEEP,
    "deep in what is ignored": b'{"Name":"web","Proxy":' + DEEP,
    "too large": b'{"Name":"' + b"x" * 300_000 + b'"}',
    "no UTF-8": b'{"Name":"\xff"}',
    "a lone surrogate": b'{"Name":"\\ud800","Address":"10.0.0.1"}',
    "no name": {"ID": "x"},
    "a blank name": GOOD | {"Name": " "},
    "a name with the delimiter": GOOD | {"Name": "a#@#b#@#c"},
    "a huge name": GOOD | {"Name": "n" * 3000},
    "a number as name": GOOD | {"Name": 5},
    "a huge id": GOOD | {"ID": "i" * 100_000},
    "an id with a line break": GOOD | {"ID": "a\nb"},
    "a port as text": GOOD | {"Port": "80"},
    "a port that is none": GOOD | {"Port": 70_000},
    "a port below 0": GOOD | {"Port": -1},
    "a huge port": GOOD | {"Port": 2**70},
    "an address that is none": GOOD | {"Address": "no address"},
    "tags as text": GOOD | {"Tags": "a"},
    "too many tags": GOOD | {"Tags": [str(number) for number in range(65)]},
    "meta of numbers": GOOD | {"Meta": {"a": 1}},
    "too much meta": GOOD | {"Meta": {str(number): "x" for number in range(65)}},
    "too much of everything": GOOD | {"Meta": {str(number): "x" * 1024 for number in range(60)}},
    "a weight of 0": GOOD | {"Weights": {"Passing": 0}},
    "a huge weight": GOOD | {"Weights": {"Passing": 2**64}},
    "weights as a list": GOOD | {"Weights": [1]},
    "a proxy": GOOD | {"Kind": "connect-proxy"},
    "a check as text": GOOD | {"Check": "ttl"},
    "checks as an object": GOOD | {"Checks": {"TTL": "10s"}},
    "a check without a kind": GOOD | {"Check": {"Name": "x"}},
    "an HTTP check": GOOD | {"Check": {"HTTP": "http://10.0.0.1", "Interval": "10s"}},
    "a script": GOOD | {"check": {"args": ["true"], "interval": "10s"}},
    "two TTL checks": GOOD | {"Checks": [{"TTL": "10s"}, {"TTL": "20s"}]},
    "a check id of its own": GOOD | {"Check": {"TTL": "10s", "CheckID": "mine"}},
    "a TTL without unit": GOOD | {"Check": {"TTL": "10"}},
    "a TTL of 0": GOOD | {"Check": {"TTL": "0s"}},
    "a TTL below 0": GOOD | {"Check": {"TTL": "-5s"}},
    "a TTL of two days": GOOD | {"Check": {"TTL": "48h"}},
    "a TTL without end": GOOD | {"Check": {"TTL": "9" * 400 + "s"}},
    "a number as TTL": GOOD | {"Check": {"TTL": 10}},
    "a status that is none": GOOD | {"Check": {"TTL": "10s", "Status": "fine"}},
    "a time that is none": GOOD | {"Check": {"TTL": "10s", "DeregisterCriticalServiceAfter": "soon"}},
}
BAD_QUERIES = [
    "index=-1",
    f"index={2**64}",
    "index=" + "9" * 5000,
    "index=1.5",
    "index=²",
    "index=1&wait=-1s",
    "index=1&wait=10",
    "index=1&wait=s",
    "index=1&wait=" + "1s" * 1000,
    "index=1&wait=1e9s",
    "wait=5x",
    "passing=maybe",
    "filter=Service.Port == 80",
    "node-meta=a:b",
    "ns=other",
    "peer=other",
    "dc=elsewhere",
    "&".join(f"tag={number}" for number in range(100)),
]
PATHS = [
    ("GET", "/v1/agent/nothing", 404),
    ("GET", "/v1/health/service/", 404),
    ("GET", "/v1/health", 404),
    ("GET", "/v1/agent/service/register", 405),
    ("PUT", "/v1/health/service/web", 405),
    ("DELETE", "/v1/catalog/services", 405),
    ("PUT", "/v1/agent/check/pass/web-1", 404),
    ("PUT", "/v1/agent/check/pass/service:", 400),
    ("PUT", "/v1/agent/check/pass/service:" + "i" * 600, 400),
    ("PUT", "/v1/agent/check/pass/service:a\x00b", 400),
    ("PUT", "/v1/agent/service/deregister/" + "i" * 10_000, 400),
    ("PUT", "/v1/agent/service/deregister/nobody", 404),
    ("GET", "/v1/health/service/" + "n" * 5000, 400),
    ("GET", "/v1/health/service/a#@#b", 400),
    ("GET", "/v1/health/service/ ", 400),
]


async def still_works(gateway: GatewayOnTrial) -> None:
    await gateway.register("after", "after-1")
    assert await gateway.statuses("after") == {"after-1": "critical"}
    assert gateway.face.counters()["consul_failed"] == 0


def test_a_bad_registration_is_refused_with_a_reason_and_registers_nothing() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        for what, body in BAD_BODIES.items():
            answer = await gateway.put("/v1/agent/service/register", body)
            assert answer.status in (400, 413), (what, answer)
            assert len(answer.body.decode()) > 10, what
            assert b"Traceback" not in answer.body
        assert (await gateway.get("/v1/health/service/web")).json == []
        await still_works(gateway)

    play(scenario)


def test_bad_queries_and_paths_are_refused() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("other")
        for query in BAD_QUERIES:
            for page in ("/v1/health/service/web", "/v1/catalog/services", "/v1/agent/self"):
                answer = await gateway.get(f"{page}?{query}")
                assert (answer.status, answer.headers["content-type"][:10]) == (400, "text/plain"), (query, answer)
                assert answer.seconds < 1
        for method, path, status in PATHS:
            refused = await gateway.ask(method, path)
            assert refused.status == status, (method, path[:60], refused)
            assert len(refused.body) < 1_000
        updates: list[object] = [b"", [], {"Status": "fine"}, {"Status": 5}, {"Status": "passing", "Output": 5}, DEEP]
        for body in updates:
            assert (await gateway.put("/v1/agent/check/update/service:web", body)).status == 400
        await still_works(gateway)

    play(scenario)


def test_bad_requests_at_the_same_time_fail_no_good_ones() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", "good")
        bad = [gateway.put("/v1/agent/check/pass/service:" + number * "x") for number in (600, 513, 1)]
        good = [gateway.put("/v1/agent/check/pass/service:good") for _ in range(3)]
        answers = await asyncio.gather(*bad, *good)
        assert [answer.status for answer in answers] == [400, 400, 404, 200, 200, 200]

    play(scenario)


def test_a_herd_of_unknown_ids_gets_404_in_bounded_time() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", "known")
        answers = await asyncio.gather(*(gateway.put(f"/v1/agent/check/pass/service:{n}") for n in range(500)))
        assert {answer.status for answer in answers} == {404}
        assert max(answer.seconds for answer in answers) < 3
        assert (await gateway.put("/v1/agent/check/pass/service:known")).status == 200

    play(scenario)


def test_all_clients_come_to_a_gateway_that_has_just_started_and_none_has_to_register_again() -> None:
    async def scenario(trial: Trial) -> None:
        first = await trial.gateway()
        await asyncio.gather(*(first.register(f"service-{n % 7}", f"{n}") for n in range(300)))
        second = await trial.gateway()
        unknown = [second.put(f"/v1/agent/check/pass/service:unknown-{n}") for n in range(300)]
        known = [second.put(f"/v1/agent/check/pass/service:{n}") for n in range(300)]
        answers = await asyncio.gather(*unknown, *known)
        assert [answer.status for answer in answers] == 300 * [404] + 300 * [200]
        assert set((await second.statuses("service-0")).values()) == {"passing"}

    play(scenario)


def test_a_herd_beyond_the_bound_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotreeve_face_consul.places.MOST_SEARCHES", 10)

    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", "known")
        answers = await asyncio.gather(*(gateway.put(f"/v1/agent/check/pass/service:{n}") for n in range(100)))
        assert {answer.status for answer in answers} == {404}
        assert all(answer.seconds < 0.1 for answer in answers)

    play(scenario)


@pytest.mark.parametrize("how", ["header", "bearer", "basic", "query"])
def test_a_token_is_taken_wherever_clients_put_it_and_its_rights_are_kept(how: str) -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway(checked=True)

        async def ask(token: str, method: str, path: str, body: object = b"") -> int:
            headers = {
                "header": {"X-Consul-Token": token},
                "bearer": {"Authorization": f"Bearer {token}"},
                "basic": {"Authorization": "Basic " + {"reader": "OnJlYWRlcg==", "writer": "OndyaXRlcg=="}[token]},
                "query": {},
            }[how]
            path += ("&" if "?" in path else "?") + f"token={token}" if how == "query" else ""
            return (await gateway.ask(method, path, body, headers)).status

        register, body = "/v1/agent/service/register", GOOD | {"Check": {"TTL": "10s"}}
        assert await ask("writer", "PUT", register, body) == 403, "the service is not one of its"
        assert await ask("reader", "PUT", register, body | {"Name": "open-web"}) == 403
        assert await ask("writer", "PUT", register, body | {"Name": "open-web"}) == 200
        assert await ask("reader", "PUT", "/v1/agent/check/pass/service:web-1") == 404, "it may not look for it"
        assert await ask("reader", "PUT", "/v1/agent/service/deregister/web-1") == 404
        assert await ask("writer", "PUT", "/v1/agent/check/pass/service:web-1") == 200
        assert await ask("reader", "GET", "/v1/health/service/open-web?passing=1") == 200
        assert await ask("reader", "GET", "/v1/health/service/closed") == 403
        gateway = await trial.gateway(checked=True)
        assert await ask("reader", "PUT", "/v1/agent/check/pass/service:web-1") == 404, "another gateway says the same"

    play(scenario)


def test_without_a_token_or_with_a_wrong_one_nothing_is_shown() -> None:
    async def scenario(trial: Trial) -> None:
        open_gateway, gateway = await trial.gateway(), await trial.gateway(checked=True)
        await open_gateway.register("open-web", "a")
        await open_gateway.register("closed", "b")
        wrong = {"X-Consul-Token": "wrong"}
        for headers, said in ((None, b"Permission denied: "), (wrong, b"ACL not found: ")):
            assert (await gateway.get("/v1/agent/self", headers=headers)).body.startswith(said)
        asked = [("GET", "/v1/agent/self"), ("GET", "/v1/catalog/services"), ("GET", "/v1/status/leader")]
        asked += [("GET", "/v1/health/service/open-web"), ("PUT", "/v1/agent/check/pass/service:a")]
        for method, path in asked:
            for headers in (None, wrong, {"Authorization": "Digest x"}, {"Authorization": "Basic \u00fc"}):
                assert (await gateway.ask(method, path, headers=headers)).status == 403
        await asyncio.sleep(1.5)
        reader = {"X-Consul-Token": "reader"}
        assert (await gateway.get("/v1/catalog/services", headers=reader)).json == {"open-web": []}
        assert set((await gateway.get("/v1/agent/services", headers=reader)).json) == {"a"}
        assert set((await gateway.get("/v1/agent/checks", headers=reader)).json) == {"service:a"}

    play(scenario)


def test_while_the_registry_does_not_answer_it_is_500_and_there_is_no_leader() -> None:
    async def scenario(trial: Trial) -> None:
        gateway = await trial.gateway()
        await gateway.register("web", "web-1")
        for name in list(trial.cluster.servers):
            if name.startswith("session"):
                trial.cluster.kill(name)
        await asyncio.sleep(2)
        assert (await gateway.get("/v1/status/leader")).json == ""
        assert (await gateway.put("/v1/agent/check/pass/service:web-1")).status == 500
        assert (await gateway.get("/v1/health/service/unseen")).status == 500
        assert await gateway.statuses("web") == {"web-1": "critical"}, "what it has seen is shown"

    play(scenario)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(
    ["Name", "id", "Tags", "Meta", "Check", "checks", "TTL", "ttl", "Port", "Weights", "Locality", "x"]
)
bodies = st.dictionaries(keys, json_values | st.dictionaries(keys, json_values, max_size=4), max_size=8)


@given(bodies, st.booleans())
@settings(max_examples=400)
def test_any_body_is_a_registration_or_refused_in_words(body: dict[str, object], ignoring: bool) -> None:
    options = ConsulOptions(ignore_other_checks=ignoring)
    try:
        found = registration(json.dumps(GOOD | body).encode(), "10.0.0.9", "", options)
    except ModelError:
        pass
    else:
        assert found.instance.address
        assert 1 <= found.ttl_seconds <= 86_400
    with pytest.raises(ModelError):
        update(json.dumps(body).encode())


@given(st.binary(max_size=200))
def test_any_query_string_is_read_or_refused_in_words(query: bytes) -> None:
    try:
        found = ConsulQuery.parse(query, "dc")
    except ModelError:
        pass
    else:
        assert 0 <= found.index < 2**64
        assert 0 < found.wait_seconds <= 600


@given(st.floats(1, 86_400))
def test_a_duration_survives_its_text(seconds: float) -> None:
    assert seconds_of("it", text_of(seconds)) == pytest.approx(seconds, abs=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_keys_are_read_in_either_case_and_with_or_without_lines_between_words(seed: int) -> None:
    rng = random.Random(seed)

    def written(key: str) -> str:
        parts = [part.capitalize() for part in key.split("_")]
        return rng.choice([key, "".join(parts), "".join(parts).lower(), key.upper()])

    check = {"ttl": "1m30s", "status": "warning", "deregister_critical_service_after": "90m", "name": "x"}
    body = {
        written("name"): "web",
        written("id"): "web-1",
        written("address"): "10.0.0.1",
        written("port"): 80,
        written("meta"): {"CaseStays": "Here"},
        written("tagged_addresses"): {"lan": {"address": "10.0.0.1"}},
        written("enable_tag_override"): True,
        written("weights"): {written("passing"): 5},
        written("locality"): {written("zone"): "west"},
    }
    listed = [{written(key): value for key, value in check.items()}]
    body |= {written("checks"): listed} if rng.random() < 0.5 else {written("check"): listed[0], "Checks": None}
    found = registration(json.dumps(body).encode(), "10.0.0.9", "east", ConsulOptions())
    assert (found.instance.id, found.ttl_seconds, found.instance.health) == ("web-1", 90, Health.WARNING)
    assert (found.instance.weight, found.instance.zone) == (5, "west")
    assert found.instance.metadata == {
        "CaseStays": "Here",
        "consul-ttl": "90s",
        "consul-deregister-after": "5400s",
    }
    assert ttl_seconds_of(found.instance) == 90


def test_what_is_not_said_is_filled_in() -> None:
    asked: dict[str, object] = {
        "Name": "web",
        "Tags": None,
        "Meta": None,
        "Port": None,
        "Weights": None,
        "Check": None,
        "Checks": [],
    }
    found = registration(json.dumps(asked).encode(), "::ffff:10.0.0.9", "east", ConsulOptions(unchecked_seconds=60))
    instance = found.instance
    assert (instance.id, instance.port, instance.zone, instance.weight) == ("web", 0, "east", 100)
    assert (instance.health, found.ttl_seconds, ttl_seconds_of(instance)) == (Health.PASSING, 60, None)


def test_checks_of_an_agent_are_accepted_where_the_option_says_so() -> None:
    body = json.dumps(GOOD | {"Check": {"HTTP": "http://10.0.0.1", "Interval": "10s"}}).encode()
    found = registration(body, "10.0.0.9", "", ConsulOptions(ignore_other_checks=True))
    assert (found.instance.health, found.ttl_seconds) == (Health.PASSING, 86_400)
