"""Two clients under one id."""

from __future__ import annotations

import pytest
from slotreeve.model.nodes import Role
from slotreeve_protocol.general_messages import Ping
from slotreeve_servers.node.outbox import Peer

from tests.servers.core_scenes import SessionScene
from tests.servers.recording_outbox import deliver


def closed(scene: SessionScene) -> list[str]:
    return [str(effect.what) for effect in scene.outbox.take("closed")]


def ping(scene: SessionScene, peer: Peer) -> None:
    deliver(scene.outbox, scene.core.desk, peer, Ping())


def come(scene: SessionScene, address: str) -> Peer:
    peer = Peer("client-1", Role.CLIENT, "client-1", address)
    scene.core.opened(peer)
    return peer


def test_the_second_of_two_clients_with_one_id_is_told_and_stays_out(caplog: pytest.LogCaptureFixture) -> None:
    scene = SessionScene()
    first, second = come(scene, "10.0.0.1:1"), come(scene, "10.0.0.2:1")
    for _ in range(2):
        ping(scene, second)
        ping(scene, first)
    told = "another client, at 10.0.0.1:1, has the id 'client-1' and lives; this one needs an id of its own"
    assert closed(scene) == [told]
    scene.core.closed(second, told)
    come(scene, "10.0.0.2:2")
    assert closed(scene) == [told]
    assert list(scene.core.clients) == [first]
    assert scene.core.counters()["clients_refused"] == 2
    assert sum("ALARM" in line for line in caplog.messages) == 2


def test_a_client_that_is_back_before_the_end_of_its_former_connection_is_noticed_is_let_in() -> None:
    scene = SessionScene()
    former, present = come(scene, "10.0.0.1:1"), come(scene, "10.0.0.1:2")
    ping(scene, former)  # it was under way
    for _ in range(5):
        ping(scene, present)
    scene.core.closed(former, "gone")
    again = come(scene, "10.0.0.1:3")
    scene.core.closed(present, "gone")
    for _ in range(5):
        ping(scene, again)
    assert closed(scene) == []
    assert scene.core.counters()["clients_refused"] == 0


def test_a_connection_beside_others_of_the_same_client_that_have_ended_is_its_only_one() -> None:
    scene = SessionScene()
    kept, abandoned, late = (come(scene, f"10.0.0.1:{port}") for port in (1, 2, 3))
    scene.core.closed(abandoned, "another session server answered sooner")
    ping(scene, kept)
    scene.core.closed(late, "another session server answered sooner")
    for _ in range(5):
        ping(scene, kept)
    again = come(scene, "10.0.0.1:4")
    ping(scene, kept)  # it was under way
    scene.core.closed(kept, "gone")
    for _ in range(5):
        ping(scene, again)
    assert closed(scene) == []
    assert scene.core.counters()["clients_refused"] == 0


def test_an_id_is_free_again_when_its_client_has_gone() -> None:
    scene = SessionScene()
    first, second = come(scene, "10.0.0.1:1"), come(scene, "10.0.0.2:1")
    for _ in range(2):
        ping(scene, first)
    scene.core.closed(second, "told")
    scene.core.closed(first, "gone")
    closed(scene)
    come(scene, "10.0.0.2:2")
    assert closed(scene) == []
