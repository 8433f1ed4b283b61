"""From a configuration to servers: who a node is, what it binds, which plugins it gets; servers that start and stop."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.errors import ConfigError, PluginError
from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Transport
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_machines.storage import MemoryStorage
from slotreeve_protocol.meta_messages import Stopping
from slotreeve_servers.data.server import DataServer
from slotreeve_servers.launch import ELECTION_PORT_OFFSET, Launcher, check_shadow
from slotreeve_servers.meta.server import MetaServer
from slotreeve_servers.node.environment import Environment
from slotreeve_servers.node.server import MemberServer, NodeServer
from slotreeve_servers.node.settings import GatewaySettings
from slotreeve_servers.session.server import SessionServer
from slotreeve_servers.settings import load_settings


def launcher(**flags: object) -> Launcher:
    """Flags are dotted keys with __ for a dot."""
    dotted = {key.replace("__", "."): value for key, value in flags.items()}
    return Launcher(load_settings(None, {}, dotted), Catalogue.load(), VirtualClock(), random.Random(1))


def in_loop(test: object) -> None:
    async def main(_rng: random.Random) -> None:
        assert callable(test)
        test()

    run(main)


def test_a_node_is_named_by_its_role_and_address_unless_told_otherwise() -> None:
    def scenario() -> None:
        node, bind = launcher().node(Role.DATA)
        assert (node.name, node.address, bind) == ("data-127.0.0.1:7720", "127.0.0.1:7720", "127.0.0.1:7720")
        assert node.process_id.startswith("data-127.0.0.1:7720@")
        node, bind = launcher(node__name="d", node__port_offset=5, node__zone="z").node(Role.SESSION)
        assert (node.name, node.address, node.zone) == ("d", "127.0.0.1:7735", "z")

    in_loop(scenario)


def test_two_lives_of_a_node_have_two_process_ids() -> None:
    def scenario() -> None:
        one = launcher()
        assert one.node(Role.DATA)[0].process_id != one.node(Role.DATA)[0].process_id

    in_loop(scenario)


def test_a_meta_server_must_have_a_place_in_the_cluster() -> None:
    def scenario() -> None:
        node, _ = launcher(cluster__meta={"m": "127.0.0.1:9"}).node(Role.META)
        assert (node.name, node.address) == ("m", "127.0.0.1:9")
        with pytest.raises(ConfigError, match=r"node\.name .*'x' is not in \[cluster\.meta\], which names meta-1"):
            launcher(node__name="x").node(Role.META)

    in_loop(scenario)


OPEN = {"gateway__listen": "0.0.0.0:1"}
WITH_TLS = {"gateway__tls_certificate": "cert.pem", "gateway__tls_key": "key.pem"}
WITH_TOKENS = {"gateway__authentication": "tokens"}


TOKENS = {"gateway.authentication": "tokens"}
OPENID = {
    "gateway.oidc_issuer": "https://sso.example.com",
    "gateway.oidc_audience": "slotreeve",
    "gateway.grants": {"group:a": ["read:*"]},
}


@pytest.mark.parametrize(
    ("protected", "lacks"),
    [
        ({}, r"there is no tokens .* and TLS .*; set that, listen on loopback, or accept it with node\.insecure"),
        (WITH_TLS, r"there is no tokens \(gateway\.authentication = \"tokens\"\); set"),
        (WITH_TOKENS, r"there is no TLS \(gateway\.tls_certificate, gateway\.tls_key\); set"),
    ],
    ids=["neither", "no tokens", "no TLS"],
)
def test_a_gateway_that_others_can_reach_needs_tokens_and_tls_or_the_word_insecure(
    protected: dict[str, object], lacks: str, caplog: pytest.LogCaptureFixture
) -> None:
    def scenario() -> None:
        with pytest.raises(ConfigError, match=lacks):
            launcher(**OPEN, **protected).gateway_node()
        assert not caplog.records
        assert launcher(**OPEN, **protected, node__insecure=True).gateway_node().address == "0.0.0.0:1"
        assert "can be reached from other machines without" in caplog.text
        assert launcher(gateway__listen="localhost:1", **protected).gateway_node().address == "localhost:1"
        assert launcher(gateway__listen="[::1]:1", **protected).gateway_node().address == "[::1]:1"

    in_loop(scenario)


def test_a_gateway_with_tokens_and_tls_may_listen_anywhere() -> None:
    def scenario() -> None:
        assert launcher(**OPEN, **WITH_TLS, **WITH_TOKENS).gateway_node().address == "0.0.0.0:1"

    in_loop(scenario)


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        ({"gateway.tls_certificate": "a"}, "expected both or none"),
        ({"gateway.tls_key": "a"}, "expected both or none"),
        ({"gateway.tls_client_ca": "a"}, "expected tls_certificate and tls_key as well"),
        ({"gateway.grants": {"group:a": ["read:*"]}}, 'expected authentication = "tokens"'),
        (TOKENS | {"gateway.grants": {"shop": ["read:*"]}}, "expected group:NAME, subject:NAME, or a URI"),
        (TOKENS | {"gateway.grants": {"group:a": ["fly:*"]}}, "expected read:PATTERN"),
        (TOKENS | {"gateway.grants": {"spiffe://x/y": ["read:*"]}}, "expected tls_client_ca as well"),
        (TOKENS | {"gateway.oidc_issuer": "https://x"}, "expected both or none"),
        (TOKENS | {"gateway.oidc_issuer": "https://x", "gateway.oidc_audience": "y"}, "expected grants as well"),
        (TOKENS | OPENID | {"gateway.oidc_issuer": "http://sso.example.com"}, "neither https nor on this machine"),
        (TOKENS | OPENID | {"gateway.oidc_keys": "ftp://127.0.0.1/keys"}, "neither https nor on this machine"),
        ({"gateway.anonymous": "read:*"}, 'expected authentication = "tokens"'),
        ({"gateway.authentication": "tokens", "gateway.anonymous": "all"}, "expected read:PATTERN"),
        ({"gateway.authentication": "token"}, "'none' or 'tokens'"),
    ],
)
def test_settings_of_a_gateway_that_do_not_go_together_are_refused(flags: dict[str, object], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        load_settings(None, {}, flags)


def test_rights_of_anonymous_callers_may_be_written_as_a_list_with_commas() -> None:
    assert GatewaySettings().anonymous == ()
    given = {"gateway.authentication": "tokens", "gateway.anonymous": "read:a,read:b"}
    assert load_settings(None, {}, given).settings.gateway.anonymous == ("read:a", "read:b")


def test_an_address_that_others_can_reach_needs_the_word_insecure() -> None:
    def scenario() -> None:
        with pytest.raises(ConfigError, match=r"node\.bind.*0\.0\.0\.0:1 can be reached from other machines"):
            launcher(node__bind="0.0.0.0:1").node(Role.DATA)
        assert launcher(node__bind="0.0.0.0:1", node__insecure=True).node(Role.DATA)[1] == "0.0.0.0:1"
        assert launcher(node__bind="localhost:1").node(Role.DATA)[1] == "localhost:1"

    in_loop(scenario)


def test_a_plugin_that_does_not_exist_is_refused_before_anything_starts() -> None:
    def scenario() -> None:
        with pytest.raises(PluginError, match=r"there is no balancer 'evn'.*did you mean 'even'"):
            launcher(balancer__use="evn")

    in_loop(scenario)


def test_a_shadow_must_be_another_election_than_the_one_in_use() -> None:
    catalogue = Catalogue.load()
    assert check_shadow(load_settings(None, {}, {}), catalogue) is None
    with pytest.raises(ConfigError, match="'fle' is the election in use; a shadow must be another one"):
        check_shadow(load_settings(None, {}, {"meta.shadow_election": "fle"}), catalogue)


def test_an_environment_carries_the_facts_of_the_cluster_and_an_event_log_where_one_is_asked_for(
    tmp_path: Path,
) -> None:
    def scenario() -> None:
        quiet = launcher(cluster__slots=8, transport__use="memory").environment(Role.DATA)
        assert (quiet.facts, quiet.events) == (SlotFacts(8, 2, "crc32c"), None)
        assert quiet.hello().facts == quiet.facts
        assert isinstance(quiet.transport, Transport)
        recorded = launcher(events__path=str(tmp_path / "e"), transport__use="memory").environment(Role.SESSION)
        assert recorded.events is not None
        assert (tmp_path / "e").is_dir()

    in_loop(scenario)


def test_each_role_gets_its_server_and_every_server_starts_and_stops() -> None:
    async def main(_rng: random.Random) -> None:
        flags: dict[str, object] = {
            "transport__use": "memory",
            "election__fle__data_dir": "m",
            "cluster__meta": {"meta-1": "127.0.0.1:7710"},
        }
        for role, kind in ((Role.META, MetaServer), (Role.DATA, DataServer), (Role.SESSION, SessionServer)):
            one = launcher(**flags)
            environment = one.environment(role)
            assert isinstance(environment, Environment)
            server = one.server(environment, lambda directory: MemoryStorage())
            assert isinstance(server, kind)
            assert isinstance(server, NodeServer)
            assert isinstance(server, MemberServer) is (role is not Role.META)
            await server.stop(Stopping.NO)  # harmless before the start
        for role in (Role.DATA, Role.SESSION):
            one = launcher(**flags)
            server = one.server(one.environment(role), lambda directory: MemoryStorage())
            await server.start()
            assert server.address
            assert server.counters()["loop_failures"] == 0
            await server.stop()
        assert ELECTION_PORT_OFFSET == 2

    run(main)


def test_a_meta_server_says_at_its_start_which_swap_would_be_refused(caplog: pytest.LogCaptureFixture) -> None:
    def scenario() -> None:
        flags = {"election__mysql__lease_ms": 900, "election__fle__data_dir": "state"}
        built = launcher(**flags)
        environment = built.environment(Role.META)
        built.server(environment, lambda path: MemoryStorage(path).open())
        assert "a swap to the election mysql would be refused" in caplog.text
        assert "a swap to the election fle" not in caplog.text

    in_loop(scenario)


@pytest.mark.parametrize("name", ["..", ".", "../../x", "a/b", "a_b", "a b", "%2E.", "x" * 5000, "ä" * 5000, "a\0b"])
def test_each_server_has_a_directory_of_its_own_for_its_history_whatever_its_name_is(tmp_path: Path, name: str) -> None:
    top = tmp_path / "history"

    async def main(_rng: random.Random) -> None:
        for cluster, node in (("c", name), (name, "n"), ("c", "n"), ("c", name + "y")):
            made = launcher(cluster__name=cluster, node__name=node, history__directory=str(top)).environment(
                Role.DATA, keeps_history=True
            )
            assert made.history is not None
            kept.append(made)
        for environment in kept:
            assert environment.history is not None
            await environment.history.close()

    kept: list[Environment] = []
    run(main)
    assert len(list(top.glob("*/*/lock"))) == len(list(tmp_path.rglob("lock"))) == 4
