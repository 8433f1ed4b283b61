"""Clients that arrive: every data server is told, and they are let in a few at a time."""

from __future__ import annotations

from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.slot_messages import Presence
from slotreeve_servers.session.clients.arrivals import AT_ONCE, Arrivals
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.places import PLACE_SECONDS
from slotreeve_servers.session.records.routes import Routes
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer


class Scene:
    """The arrivals at a session server with a link to one data server."""

    def __init__(self) -> None:
        self.outbox, self.routes = RecordingOutbox(), Routes()
        self.data = a_peer("data-1", Role.DATA)
        self.routes.opened(self.data)
        self.arrivals = Arrivals(self.outbox, self.routes, SessionSettings(), self.let_in)
        self.inside: list[str] = []

    def let_in(self, client: ConnectedClient) -> None:
        self.inside.append(client.peer.node)

    def come(self, *names: str) -> list[ConnectedClient]:
        clients = [ConnectedClient(a_peer(name, Role.CLIENT)) for name in names]
        for client in clients:
            self.arrivals.opened(client)
        self.outbox.end_turn()
        return clients

    def end(self, client: ConnectedClient) -> None:
        self.arrivals.ended(client)
        self.outbox.end_turn()

    def told(self) -> list[tuple[list[str], list[str]]]:
        sent = [effect.what for effect in self.outbox.take("sent")]
        return [(one.arriving, one.arrived) for one in sent if isinstance(one, Presence)]


def test_the_clients_of_one_turn_are_told_in_one_message_and_let_in_at_once() -> None:
    scene = Scene()
    one, _ = scene.come("a", "b")
    assert scene.inside == ["a", "b"]
    assert scene.told() == [(["a", "b"], [])]
    scene.end(one)
    assert scene.told() == [([], ["a"])]
    assert not one.is_replaying


def test_a_client_that_is_lost_before_it_has_sent_everything_arrives_while_it_may_come_back() -> None:
    scene = Scene()
    one, two = scene.come("a", "b")
    scene.told()
    scene.arrivals.ended(two)
    scene.arrivals.lost(one, 0.3)
    scene.arrivals.lost(two, 0.3)
    scene.outbox.end_turn()
    assert scene.told() == [([], ["b"])]
    scene.outbox.advance(0.31)
    assert scene.told() == [([], ["a"])]


def test_a_client_that_is_turned_away_arrives_while_it_looks_for_another_server() -> None:
    scene = Scene()
    scene.arrivals.turned_away(ConnectedClient(a_peer("a", Role.CLIENT)), 0.3)
    scene.outbox.end_turn()
    assert scene.told() == [(["a"], [])]
    assert (scene.inside, scene.arrivals.waiting) == ([], 0)
    scene.outbox.advance(0.31)
    assert scene.told() == [([], ["a"])]


def test_a_data_server_that_is_linked_later_is_told_of_every_client_that_arrives() -> None:
    scene = Scene()
    scene.arrivals.link_opened(scene.data)
    assert scene.told() == [([], [])]
    one, _ = scene.come("a", "b")
    scene.end(one)
    scene.told()
    scene.arrivals.link_opened(scene.data)
    assert scene.told() == [(["b"], [])]


def test_by_an_older_connection_a_client_has_not_arrived_while_a_newer_one_arrives() -> None:
    scene = Scene()
    (older,) = scene.come("a")
    (newer,) = scene.come("a")
    scene.told()
    scene.end(older)
    assert scene.told() == []
    scene.end(newer)
    assert scene.told() == [([], ["a"])]


def test_a_client_that_leaves_and_comes_back_within_a_turn_still_arrives() -> None:
    scene = Scene()
    (older,) = scene.come("a")
    scene.told()
    scene.arrivals.ended(older)
    scene.come("a")
    assert scene.told() == [(["a"], [])]


def test_of_two_connections_of_a_client_each_is_let_in_whichever_ends_first() -> None:
    scene = Scene()
    scene.come(*[f"c{n}" for n in range(AT_ONCE)])
    older, newer = scene.come("a", "a")
    scene.end(newer)
    scene.outbox.advance(PLACE_SECONDS)
    assert scene.inside[AT_ONCE:] == ["a"]
    scene.told()
    scene.end(older)
    assert scene.told() == [([], ["a"])]


def test_of_a_herd_so_many_are_inside_at_a_time_and_those_that_are_done_make_room() -> None:
    scene = Scene()
    clients = scene.come(*[f"c{n}" for n in range(AT_ONCE + 3)])
    assert len(scene.inside) == AT_ONCE
    assert scene.arrivals.waiting == 3
    scene.end(clients[AT_ONCE + 2])  # it has gone before its turn came
    for client in clients[: AT_ONCE // 2 - 1]:
        scene.end(client)
    assert len(scene.inside) == AT_ONCE
    scene.end(clients[AT_ONCE // 2 - 1])
    assert scene.inside[-1] == f"c{AT_ONCE + 1}"
    assert (len(scene.inside), scene.arrivals.waiting) == (AT_ONCE + 2, 0)


def test_clients_that_send_for_long_do_not_keep_the_others_out() -> None:
    scene = Scene()
    scene.come(*[f"c{n}" for n in range(2 * AT_ONCE + 1)])
    scene.outbox.advance(PLACE_SECONDS)
    assert len(scene.inside) == 2 * AT_ONCE
    scene.outbox.advance(PLACE_SECONDS)
    assert len(scene.inside) == 2 * AT_ONCE + 1
    assert scene.arrivals.waiting == 0


def test_that_a_client_with_records_has_left_is_told_at_once() -> None:
    scene = Scene()
    one, two = scene.come("a", "b")
    scene.end(one)
    scene.end(two)
    scene.outbox.take()
    one.records["a-1"] = Publisher("a-1", "s", 1, 1, "session-1@1", "", (b"x",))
    scene.arrivals.lost(one, 0.3)
    scene.arrivals.lost(two, 0.3)
    scene.outbox.end_turn()
    assert [effect.what for effect in scene.outbox.take("sent")] == [Presence([], [], ["a"])]


def test_a_client_that_is_lost_amid_its_replay_with_some_records_arrives_no_more_after_a_while() -> None:
    scene = Scene()
    (client,) = scene.come("a")
    client.records["a-1"] = Publisher("a-1", "s", 1, 1, "session-1@1", "", (b"x",))
    scene.told()
    scene.arrivals.lost(client, 0.3)
    scene.outbox.advance(0.31)
    assert scene.told()[-1] == ([], ["a"])
