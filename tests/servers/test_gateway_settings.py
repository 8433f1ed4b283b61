"""Where a gateway listens, and which session servers it knows."""

from __future__ import annotations

import random

import pytest
from pydantic import ValidationError
from slotreeve.catalogue import Catalogue
from slotreeve.errors import ConfigError
from slotreeve.model.nodes import Node, Role
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_servers.launch import Launcher
from slotreeve_servers.node.settings import GatewaySettings
from slotreeve_servers.settings import load_settings


def gateway_node(**flags: object) -> Node:
    settings = load_settings(None, {}, {key.replace("__", "."): value for key, value in flags.items()})

    async def build(rng: random.Random) -> Node:
        return Launcher(settings, Catalogue.load(), VirtualClock(), rng).gateway_node()

    return run(build)


def test_a_gateway_listens_on_loopback_and_is_named_after_its_address() -> None:
    node = gateway_node(node__port_offset=1_000)
    assert (node.role, node.address, node.name) == (Role.GATEWAY, "127.0.0.1:8740", "gateway-127.0.0.1:8740")
    assert gateway_node(node__name="edge-1", gateway__listen="127.0.0.1:80").name == "edge-1"


def test_an_address_that_others_can_reach_is_refused_unless_that_is_accepted() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.listen .*0\.0\.0\.0:7740 can be reached from other machines"):
        gateway_node(gateway__listen="0.0.0.0:7740")
    assert gateway_node(gateway__listen="0.0.0.0:7740", node__insecure=True).address == "0.0.0.0:7740"
    with pytest.raises(ConfigError, match=r"gateway\.listen .*'nonsense' is not host:port"):
        gateway_node(gateway__listen="nonsense")


def test_session_servers_are_a_list_or_a_text_with_commas() -> None:
    assert GatewaySettings(sessions=("a:1", "b:2")).sessions == ("a:1", "b:2")
    assert GatewaySettings.model_validate({"sessions": "a:1,b:2"}).sessions == ("a:1", "b:2")
    with pytest.raises(ValidationError):
        GatewaySettings(sessions=())
