"""Two clients under one id."""

from __future__ import annotations

import pytest
from slotreeve.keys import Principal
from slotreeve.model.nodes import Role
from slotreeve_servers.node.outbox import Peer

from tests.servers.core_scenes import SessionScene


def closed(scene: SessionScene) -> list[str]:
    return [str(effect.what) for effect in scene.outbox.take("closed")]


def come(scene: SessionScene, address: str, life: int = 1) -> Peer:
    peer = Peer("client-1", Role.CLIENT, f"client-1@{life}", address)
    scene.core.opened(peer)
    return peer


def test_the_second_of_two_clients_with_one_id_is_told_as_often_as_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    scene = SessionScene()
    first = come(scene, "10.0.0.1:1")
    told = "another client, at 10.0.0.1:1, has the id 'client-1'; this one needs an id of its own"
    for port in (1, 2):
        second = come(scene, f"10.0.0.2:{port}", life=2)
        assert closed(scene) == [told]
        scene.core.closed(second, told)
    assert list(scene.core.clients) == [first]
    assert scene.core.counters()["clients_refused"] == 2
    assert sum("ALARM" in line for line in caplog.messages) == 2


def test_a_client_is_let_in_beside_any_connections_of_its_own() -> None:
    scene = SessionScene()
    connections = [come(scene, f"10.0.0.1:{port}") for port in range(3)]
    scene.core.closed(connections[1], "gone")
    come(scene, "10.0.0.1:9")
    assert closed(scene) == []
    assert scene.core.counters()["clients_refused"] == 0


def test_an_id_is_free_again_when_its_client_has_gone() -> None:
    scene = SessionScene()
    first = come(scene, "10.0.0.1:1")
    second = come(scene, "10.0.0.2:1", life=2)
    scene.core.closed(second, "told")
    scene.core.closed(first, "gone")
    closed(scene)
    come(scene, "10.0.0.2:2", life=2)
    assert closed(scene) == []


def test_an_id_is_free_for_the_next_process_where_the_former_one_was_one_connection_too_many() -> None:
    scene = SessionScene(most_connections_of_key=1)

    def with_key(name: str, life: int = 1) -> Peer:
        proven = Principal("shop", Role.CLIENT, "k" * 40)
        peer = Peer(name, Role.CLIENT, f"{name}@{life}", "10.0.0.1:1", proven=proven)
        scene.core.opened(peer)
        return peer

    first, refused = with_key("client-0"), with_key("client-1")
    scene.core.closed(refused, "one too many")
    scene.core.closed(first, "gone")
    closed(scene)
    again = with_key("client-1", life=2)
    assert closed(scene) == []
    assert list(scene.core.clients) == [again]
