"""What all servers are made of: dispatch, peers, links, membership, supervised loops."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import ConfigError, ModelError
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotTable
from slotreeve.ports import Connection, Handler, Hello, Listener, Message
from slotreeve_conformance.virtual_time import VirtualClock, run
from slotreeve_protocol.client_messages import Datum, Get, ListServices, Publish, Services, Withdraw
from slotreeve_protocol.general_messages import Counters, Done, Failed, GetCounters, Ping
from slotreeve_protocol.meta_messages import Heartbeat, LeaderIs, LeaseGranted, Stopping, View
from slotreeve_protocol.slot_messages import Compare
from slotreeve_servers.node.attention import AttendedClock
from slotreeve_servers.node.dispatch import UNEXPECTED, Desk, Dispatcher
from slotreeve_servers.node.links import SILENCE_SECONDS, LinkMaker, Links
from slotreeve_servers.node.membership import Incomplete, Membership
from slotreeve_servers.node.outbox import Peer, Request, Retry, TurnEnd
from slotreeve_servers.node.peers import LONGEST_READ_SECONDS, Peers
from slotreeve_servers.node.supervisor import Supervisor, Wake
from slotreeve_transport_memory.network import MemoryNetwork
from slotreeve_transport_memory.transport import MemoryTransport

from tests.servers.recording_outbox import RecordingOutbox, a_peer


def play(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    async def main(_rng: random.Random) -> None:
        await scenario()

    run(main)


# --- the end of a turn, and trying again -----------------------------------------------------------------------------


def test_an_action_runs_once_at_the_end_of_a_turn_however_often_it_was_asked_for() -> None:
    outbox, runs = RecordingOutbox(), list[int]()
    flush = TurnEnd(outbox, lambda: runs.append(1))
    for _ in range(3):
        flush.soon()
    assert runs == []
    outbox.end_turn()
    flush.soon()
    outbox.end_turn()
    assert len(runs) == 2


def test_a_retry_runs_once_after_its_time() -> None:
    outbox, runs = RecordingOutbox(), list[float]()
    retry = Retry(outbox, 1.0, lambda: runs.append(outbox.now()))
    retry.later()
    outbox.advance(0.5)
    retry.later()
    outbox.advance(5.0)
    retry.later()
    outbox.advance(5.0)
    assert runs == [101.0, 106.5]


# --- dispatch and peers ----------------------------------------------------------------------------------------------


class Guest:
    """Writes down which peers came and went."""

    def __init__(self) -> None:
        self.here: list[Peer] = []
        self.gone: list[str] = []

    def opened(self, peer: Peer) -> None:
        self.here.append(peer)

    def closed(self, peer: Peer, reason: str) -> None:
        self.here.remove(peer)
        self.gone.append(peer.node)

    def counters(self) -> dict[str, int]:
        return {"peers": len(self.here)}


class Scene:
    """A server of one desk on the memory transport, and tools that connect to it."""

    def __init__(self, desk: Desk) -> None:
        self.clock = VirtualClock()
        self.network = MemoryNetwork()
        self.supervisor = Supervisor(self.clock)
        self.peers = Peers(self.clock, self.supervisor)
        self.guest = Guest()
        self.dispatcher = Dispatcher(self.peers, Role.SESSION, desk, self.guest, self.guest)
        self.listener: Listener | None = None

    async def listen(self) -> str:
        transport = MemoryTransport(self.clock, "server", self.network)
        self.listener = await transport.listen("server:1", hello("server", Role.SESSION), self.dispatcher)
        return self.listener.address

    async def connect(self, name: str = "tool", role: Role = Role.CLIENT) -> tuple[Connection, list[Message]]:
        tool = Reader()
        transport = MemoryTransport(self.clock, name, self.network)
        connection = await transport.connect("server:1", hello(name, role), tool, 1.0)
        return connection, tool.received_messages


class Reader:
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        self.received_messages: list[Message] = []

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        self.received_messages.append(message)

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do."""


def hello(name: str, role: Role) -> Hello:
    return Hello("test", name, role, f"{name}@1")


def test_each_message_goes_to_its_method_and_each_request_gets_its_reply() -> None:
    taken: list[tuple[str, Message]] = []
    held: list[Request] = []

    def begin(peer: Peer, message: ListServices, request: Request) -> None:
        held.append(request)

    desk = Desk(
        {Withdraw: lambda peer, message: taken.append((peer.node, message))},
        {Get: lambda peer, message: Datum(message.data_info_id, 7, [])},
        {ListServices: begin},
    )

    async def scenario() -> None:
        scene = Scene(desk)
        await scene.listen()
        connection, _ = await scene.connect()
        connection.send(Withdraw())
        assert await connection.ask(Get("s"), 1.0) == Datum("s", 7, [])
        assert taken == [("tool", Withdraw())]
        waiting = asyncio.ensure_future(connection.ask(ListServices(""), 5.0))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        scene.peers.reply(held[0], Services({}))
        assert await waiting == Services({})

    play(scenario)


def test_what_a_desk_does_not_take_is_refused_counted_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        scene = Scene(Desk({Withdraw: lambda peer, message: None}))
        await scene.listen()
        connection, _ = await scene.connect()
        connection.send(Publish(1, []))
        refused = await connection.ask(Get("s"), 1.0)
        assert refused == Failed(UNEXPECTED, "this server does not take Get from a client")
        assert await connection.ask(Withdraw(), 1.0) == Failed(
            UNEXPECTED, "this server does not take Withdraw from a client"
        )
        assert scene.dispatcher.unexpected == 3
        assert await connection.ask(Ping(), 1.0) == Done()
        assert await connection.ask(GetCounters(), 1.0) == Counters({"peers": 1})

    with caplog.at_level(logging.WARNING):
        play(scenario)
    assert "Publish from the client tool is no message that this server takes" in caplog.text


def test_a_message_from_a_role_that_may_not_send_it_never_reaches_the_core() -> None:
    taken: list[Message] = []

    def take(peer: Peer, message: Message) -> Message:
        taken.append(message)
        return Done()

    async def scenario() -> None:
        desk = Desk({Publish: lambda peer, message: taken.append(message)}, {Compare: take})
        scene = Scene(desk)
        await scene.listen()
        (client, _), (data, _) = await scene.connect(), await scene.connect("data-1", Role.DATA)
        assert await data.ask(Compare([]), 1.0) == Done()
        assert await client.ask(Compare([]), 1.0) == Failed(
            UNEXPECTED, "this server does not take Compare from a client"
        )
        data.send(Publish(1, []))
        await asyncio.sleep(0.1)
        assert taken == [Compare([])]
        assert scene.dispatcher.unexpected == 2

    play(scenario)


def test_an_error_of_ours_becomes_the_reply() -> None:
    def fail(peer: Peer, message: Message) -> Message:
        raise ModelError("no such service")

    async def scenario() -> None:
        scene = Scene(Desk(requests={Get: fail}))
        await scene.listen()
        connection, _ = await scene.connect()
        assert await connection.ask(Get("s"), 1.0) == Failed(ModelError.code, "no such service")

    play(scenario)


def test_a_peer_that_has_gone_takes_nothing_and_disturbs_nobody() -> None:
    async def scenario() -> None:
        scene = Scene(Desk())
        await scene.listen()
        connection, received = await scene.connect()
        (peer,) = scene.guest.here
        assert scene.peers.send(peer, Done())
        await asyncio.sleep(0.1)
        assert received == [Done()]
        connection.close("enough")
        await asyncio.sleep(0.1)
        assert scene.guest.gone == ["tool"]
        assert not scene.peers.send(peer, Done())
        assert not scene.peers.ask(peer, Ping(), lambda reply, error: None, 1.0)
        scene.peers.reply(Request(peer, 1), Done())
        scene.peers.close(peer, "again")

    play(scenario)


def test_what_waits_for_everything_to_be_read_comes_after_all_that_had_arrived() -> None:
    events: list[str] = []

    async def scenario() -> None:
        scene = Scene(Desk({Publish: lambda peer, message: events.append(f"publish {message.sequence}")}))
        await scene.listen()
        scene.peers.listener = scene.listener
        connection, _ = await scene.connect()
        scene.network.freeze("server")
        for number in range(3):
            connection.send(Publish(number, []))
            await asyncio.sleep(0.1)
        scene.network.thaw("server")
        scene.peers.when_read(lambda: events.append("all read"))
        await asyncio.sleep(0.1)
        connection.send(Publish(3, []))
        await asyncio.sleep(0.1)
        assert events == ["publish 0", "publish 1", "publish 2", "all read", "publish 3"]

    play(scenario)


def test_packets_that_come_in_without_end_delay_an_action_for_a_limited_time() -> None:
    class Busy:
        address, has_unread = "server:1", True

        async def close(self) -> None:
            """Nothing to do."""

    async def scenario() -> None:
        peers = Peers(VirtualClock(), Supervisor(VirtualClock()))
        peers.listener = Busy()
        began, ran = peers.now(), list[float]()
        peers.when_read(lambda: ran.append(peers.now() - began))
        await asyncio.sleep(LONGEST_READ_SECONDS + 1.0)
        assert LONGEST_READ_SECONDS <= ran[0] < LONGEST_READ_SECONDS + 0.2

    play(scenario)


def test_a_silent_server_sends_nothing_and_runs_no_timer() -> None:
    async def scenario() -> None:
        scene = Scene(Desk())
        await scene.listen()
        _, received = await scene.connect()
        (peer,) = scene.guest.here
        runs: list[str] = []
        scene.peers.after(0.1, lambda: runs.append("timer"))
        scene.peers.at_turns_end(lambda: runs.append("turn"))
        scene.peers.silence()
        assert not scene.peers.send(peer, Done())
        assert not scene.peers.ask(peer, Ping(), lambda reply, error: None, 1.0)
        await asyncio.sleep(1.0)
        assert (runs, received) == ([], [])

    play(scenario)


def test_repeated_actions_follow_their_own_pauses_and_survive_a_failure() -> None:
    async def scenario() -> None:
        scene = Scene(Desk())
        times: list[float] = []

        def action() -> float | None:
            times.append(round(scene.clock.now() - began, 3))
            if len(times) == 3:
                raise RuntimeError("made up by this test")
            return 0.25 if len(times) == 1 else None

        began = scene.clock.now()
        scene.peers.repeat("made up", 1.0, action)
        await asyncio.sleep(4.0)
        await scene.supervisor.stop()
        assert times[:3] == [1.0, 1.25, 2.25]
        assert len(times) > 3
        assert scene.supervisor.failures == {"made up": 1}

    play(scenario)


# --- supervised loops ------------------------------------------------------------------------------------------------


def test_a_loop_that_fails_starts_again_and_one_that_returns_has_ended() -> None:
    async def scenario() -> None:
        supervisor, runs = Supervisor(LoopClock()), list[str]()

        async def fails_twice() -> None:
            runs.append("run")
            if len(runs) < 3:
                raise RuntimeError("made up by this test")

        supervisor.start("fails twice", fails_twice)
        await asyncio.sleep(5.0)
        assert (len(runs), supervisor.failures) == (3, {"fails twice": 2})
        await supervisor.stop()

    play(scenario)


def test_an_action_that_is_run_once_is_not_repeated_when_it_fails() -> None:
    async def scenario() -> None:
        supervisor, runs = Supervisor(LoopClock()), list[int]()

        async def fails() -> None:
            runs.append(1)
            raise RuntimeError("made up by this test")

        def fails_at_once() -> None:
            raise RuntimeError("made up by this test")

        supervisor.once("commit", fails)
        peers = Peers(LoopClock(), supervisor)
        peers.after(1.0, fails_at_once)
        peers.at_turns_end(fails_at_once)
        await asyncio.sleep(5.0)
        assert (len(runs), supervisor.failures) == (1, {"commit": 1, "timer": 1, "end of turn": 1})
        assert not supervisor._tasks, "a finished task is kept"
        await supervisor.stop()

    play(scenario)


def test_the_first_reason_to_give_up_counts() -> None:
    async def scenario() -> None:
        supervisor = Supervisor(LoopClock())
        supervisor.give_up(ConfigError("first"))
        supervisor.give_up(ConfigError("second"))
        assert str(supervisor.given_up.result()) == "first"

    play(scenario)


def test_a_wake_is_remembered_and_a_sleeper_wakes_by_itself() -> None:
    async def scenario() -> None:
        clock = LoopClock()
        wake, began = Wake(clock), clock.now()
        wake.set()
        wake.set()
        await wake.wait(60.0)
        assert clock.now() == began
        await wake.wait(2.0)
        assert clock.now() == began + 2.0

    play(scenario)


# --- links -----------------------------------------------------------------------------------------------------------


def maker(scene: Scene, transport: MemoryTransport, attention: AttendedClock | None = None) -> LinkMaker:
    return LinkMaker(transport, scene.clock, lambda: hello("linker", Role.DATA), attention or scene.peers.attention)


class LinkScene:
    """A server, and links to it from a process whose attended clock advances."""

    def __init__(self) -> None:
        self.scene = Scene(Desk())
        self.supervisor, self.handler = Supervisor(self.scene.clock), Reader()
        self.near = Peers(self.scene.clock, self.supervisor)
        self.near.attend()
        transport = MemoryTransport(self.scene.clock, "linker", self.scene.network)
        self.links = Links(maker(self.scene, transport, self.near.attention), self.supervisor, self.handler)

    async def start(self) -> Connection:
        await self.scene.listen()
        self.links.aim({"server": "server:1"})
        await asyncio.sleep(0.1)
        return self.links.connected["server"]

    async def stop(self) -> None:
        self.near.silence()
        await self.supervisor.stop()


def test_an_idle_link_carries_a_ping_each_second_so_both_ends_see_that_the_other_one_lives() -> None:
    async def scenario() -> None:
        world = LinkScene()
        connection = await world.start()
        (peer,) = world.scene.guest.here
        world.scene.peers.attend()
        for _ in range(20):
            await asyncio.sleep(0.5)
            assert world.scene.peers.silent_for(peer) < 1.1
            assert world.near.attention.since(connection.heard_at) < 1.1
        assert world.links.connected == {"server": connection}
        world.scene.peers.silence()
        await world.stop()

    play(scenario)


def test_a_link_over_which_nothing_arrives_is_closed_and_made_again() -> None:
    async def scenario() -> None:
        world = LinkScene()
        first = await world.start()
        world.scene.network.freeze("server")
        await asyncio.sleep(SILENCE_SECONDS - 0.2)
        assert not first.closed
        await asyncio.sleep(1.5)
        assert first.closed
        assert world.links.connected == {}
        world.scene.network.thaw("server")
        await asyncio.sleep(1.5)
        assert not world.links.connected["server"].closed
        await world.stop()

    play(scenario)


def test_an_attempt_to_make_a_link_gets_more_time_after_each_that_failed() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()
        world.scene.network.freeze("server")
        attempts: list[float] = []

        class Counting(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                attempts.append(timeout_seconds)
                return await super().connect(address, hello, handler, timeout_seconds)

        transport = Counting(world.scene.clock, "patient", world.scene.network)
        links = Links(maker(world.scene, transport), world.supervisor, world.handler)
        links.aim({"server": "server:1"})
        await asyncio.sleep(60.0)
        assert attempts[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 16.0]
        world.scene.network.thaw("server")
        await asyncio.sleep(20.0)
        assert not links.connected["server"].closed
        await world.stop()

    play(scenario)


def test_a_process_that_was_frozen_itself_closes_no_link_for_that() -> None:
    async def scenario() -> None:
        world = LinkScene()
        first = await world.start()
        world.near.silence()  # its clock stands still
        world.scene.network.freeze("linker")
        await asyncio.sleep(60.0)
        world.near.attend()
        world.scene.network.thaw("linker")
        await asyncio.sleep(10.0)
        assert world.links.connected == {"server": first}
        await world.stop()

    play(scenario)


def test_a_peer_that_has_gone_is_silent_for_ever() -> None:
    async def scenario() -> None:
        scene = Scene(Desk())
        await scene.listen()
        connection, _ = await scene.connect()
        (peer,) = scene.guest.here
        assert scene.peers.silent_for(peer) < 0.1
        connection.close("enough")
        await asyncio.sleep(0.1)
        assert scene.peers.silent_for(peer) == float("inf")

    play(scenario)


def test_an_attempt_for_a_peer_that_was_dropped_and_is_wanted_again_does_not_take_the_place_of_the_newer_link() -> None:
    async def scenario() -> None:
        world = LinkScene()
        await world.scene.listen()
        pauses = [0.5, 0.0]

        class Late(MemoryTransport):
            async def connect(self, address: str, hello: Hello, handler: Handler, timeout_seconds: float) -> Connection:
                await asyncio.sleep(pauses.pop(0))
                return await super().connect(address, hello, handler, timeout_seconds)

        links = Links(
            maker(world.scene, Late(world.scene.clock, "late", world.scene.network)), world.supervisor, world.handler
        )
        links.aim({"server": "server:1"})
        await asyncio.sleep(0.1)
        links.aim({})
        links.aim({"server": "server:1"})
        await asyncio.sleep(0.2)
        link = links.connected["server"]
        await asyncio.sleep(1.0)
        assert links.connected == {"server": link}
        assert not link.closed
        assert len(world.scene.guest.here) == 1
        await world.stop()

    play(scenario)


def test_links_are_made_again_when_lost_and_ended_when_no_longer_wanted() -> None:
    async def scenario() -> None:
        scene = Scene(Desk())
        await scene.listen()
        links_supervisor, handler = Supervisor(scene.clock), Reader()
        transport = MemoryTransport(scene.clock, "linker", scene.network)
        links = Links(maker(scene, transport), links_supervisor, handler)
        links.aim({"server": "server:1", "nobody": "nowhere:1"})
        await asyncio.sleep(1.0)
        assert list(links.connected) == ["server"]
        first = links.connected["server"]
        scene.peers.close(scene.guest.here[0], "made up by this test")
        await asyncio.sleep(1.0)
        assert first.closed
        assert not links.connected["server"].closed
        links.aim({})
        await asyncio.sleep(1.0)
        assert links.connected == {}
        assert scene.guest.here == []
        await links_supervisor.stop()

    play(scenario)


# --- membership ------------------------------------------------------------------------------------------------------


class Member:
    """A core that writes down its views and grants."""

    def __init__(self) -> None:
        self.revisions: list[tuple[int, int]] = []
        self.grants: list[LeaseGranted] = []

    def view_changed(self, old: View, view: View) -> None:
        self.revisions.append((old.revision, view.revision))

    def unsettled(self) -> Incomplete:
        return Incomplete([7], [])

    def lease_granted(self, leader: Peer, granted: LeaseGranted) -> None:
        self.grants.append(granted)


class MemberScene:
    """A member with two meta servers."""

    def __init__(self) -> None:
        self.outbox, self.member = RecordingOutbox(), Member()
        node = Node("data-1", Role.DATA, "data-1:1", "data-1@1")
        self.membership = Membership(self.outbox, node, 1.0, self.member)
        self.meta = {name: a_peer(name, Role.META) for name in ("meta-1", "meta-2")}
        self.membership.start()
        for peer in self.meta.values():
            self.membership.opened(peer)
        self.outbox.end_turn()

    def heartbeats(self) -> list[str]:
        """To which meta servers heartbeats are on their way; they are dropped."""
        asked = [r.peer.node for r in self.outbox.requests if isinstance(r.message, Heartbeat)]
        self.outbox.requests.clear()
        return asked

    def take(self, name: str, message: Message) -> None:
        self.membership.desk.messages[type(message)](self.meta[name], message)
        self.outbox.end_turn()


def test_without_a_known_leader_every_meta_server_gets_a_heartbeat_then_only_the_leader() -> None:
    scene = MemberScene()
    heartbeat = scene.outbox.requests[0].message
    assert isinstance(heartbeat, Heartbeat)
    assert (heartbeat.unsettled, heartbeat.stopping) == ([7], Stopping.NO)
    scene.outbox.answer(LeaderIs(3, "meta-2", None))
    scene.heartbeats()
    scene.outbox.advance(1.0)
    assert scene.heartbeats() == ["meta-2"]
    scene.outbox.advance(3.0)
    assert scene.heartbeats() == ["meta-2"] * 3


def test_the_leader_is_looked_for_where_another_meta_server_names_it_and_an_older_name_changes_nothing() -> None:
    class Places:
        def __init__(self) -> None:
            self.found_at: list[tuple[str, str | None]] = []

        def found(self, name: str, moved_to: str | None) -> None:
            self.found_at.append((name, moved_to))

    scene = MemberScene()
    places = scene.membership.places = Places()
    scene.take("meta-1", LeaderIs(5, "meta-2", "b:9", is_moved=True))
    scene.take("meta-1", LeaderIs(4, "meta-1", "a:9", is_moved=True))
    scene.take("meta-1", LeaderIs(5, None, None))
    scene.take("meta-1", LeaderIs(5, "meta-2", "b:1"))
    assert places.found_at == [("meta-2", "b:9"), ("meta-2", None)]


def test_a_leader_of_a_lower_term_is_not_followed() -> None:
    scene = MemberScene()
    scene.take("meta-1", LeaderIs(5, "meta-2", None))
    scene.take("meta-1", LeaderIs(4, "meta-1", None))
    scene.heartbeats()
    scene.outbox.advance(1.0)
    assert scene.heartbeats() == ["meta-2"]


def test_whoever_has_committed_a_newer_view_is_followed_although_terms_began_anew() -> None:
    scene = MemberScene()
    scene.take("meta-1", View(5, 9, SlotTable(), [], []))
    scene.take("meta-2", View(1, 9, SlotTable(), [], []))
    assert scene.membership.leader is scene.meta["meta-1"]
    scene.take("meta-2", View(1, 10, SlotTable(), [], []))
    assert scene.membership.leader is scene.meta["meta-2"]
    assert scene.member.revisions == [(0, 9), (9, 10)]
    scene.take("meta-1", LeaderIs(2, "meta-1", None))
    assert scene.membership.leader is scene.meta["meta-1"]


def test_only_newer_views_are_taken_and_each_is_confirmed_by_a_heartbeat() -> None:
    scene = MemberScene()
    scene.heartbeats()
    for revision in (2, 1, 2, 3):
        scene.take("meta-1", View(1, revision, SlotTable(), [], []))
    assert scene.member.revisions == [(0, 2), (2, 3)]
    assert scene.heartbeats() == ["meta-1"] * 2


def test_a_leader_that_does_not_answer_or_is_lost_is_followed_no_more() -> None:
    scene = MemberScene()
    scene.take("meta-1", LeaderIs(1, "meta-1", None))
    scene.outbox.requests.clear()
    scene.outbox.advance(1.0)
    scene.outbox.answer(None, TimeoutError())
    assert scene.membership.leader is None
    scene.outbox.advance(1.0)
    assert scene.heartbeats() == ["meta-1", "meta-2"]
    scene.take("meta-1", LeaderIs(2, "meta-1", None))
    scene.membership.closed(scene.meta["meta-1"], "lost")
    scene.outbox.end_turn()
    assert scene.heartbeats()[-1] == "meta-2"


def test_a_grant_carries_the_view_the_right_to_leave_and_reaches_the_core() -> None:
    scene = MemberScene()
    scene.membership.announce_stop(Stopping.FOR_GOOD)
    scene.outbox.end_turn()
    granted = LeaseGranted(4, 5.0, View(4, 9, SlotTable(), [], []), 0, True)
    sent_at = scene.outbox.now()
    scene.outbox.requests = [r for r in scene.outbox.requests if r.peer.node == "meta-2"]
    scene.outbox.time += 0.4
    scene.outbox.answer(granted)
    assert scene.membership.may_leave
    assert scene.membership.granted_at == sent_at
    assert scene.membership.leader is scene.meta["meta-2"]
    assert scene.member.revisions == [(0, 9)]
    assert scene.member.grants == [granted]


def test_the_late_end_of_an_older_connection_to_a_meta_server_does_not_end_the_newer_one() -> None:
    scene = MemberScene()
    scene.take("meta-1", LeaderIs(1, "meta-1", None))
    newer = a_peer("meta-1", Role.META)
    scene.membership.opened(newer)
    scene.membership.closed(scene.meta["meta-1"], "lost")
    scene.outbox.end_turn()
    scene.heartbeats()
    scene.outbox.advance(1.0)
    assert "meta-1" in scene.heartbeats()
