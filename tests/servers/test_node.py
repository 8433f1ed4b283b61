"""What all servers are made of: the end of a turn, dispatch, peers."""

from __future__ import annotations

import asyncio
import logging

import pytest
from slotreeve.errors import ModelError
from slotreeve.model.nodes import Role
from slotreeve.ports import Message
from slotreeve_conformance.virtual_time import VirtualClock
from slotreeve_protocol.client_messages import Datum, Get, ListServices, Publish, Services, Withdraw
from slotreeve_protocol.general_messages import Counters, Done, Failed, GetCounters, Ping
from slotreeve_protocol.slot_messages import Compare
from slotreeve_servers.node.dispatch import UNEXPECTED, Handlers
from slotreeve_servers.node.outbox import Peer, Request, Retry, TurnEnd
from slotreeve_servers.node.peers import LONGEST_READ_SECONDS, Peers
from slotreeve_servers.node.supervisor import Supervisor

from tests.servers.node_scene import Scene, play
from tests.servers.recording_outbox import RecordingOutbox


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


def test_each_message_goes_to_its_method_and_each_request_gets_its_reply() -> None:
    taken: list[tuple[str, Message]] = []
    held: list[Request] = []

    def begin(peer: Peer, message: ListServices, request: Request) -> None:
        held.append(request)

    handlers = Handlers(
        {Withdraw: lambda peer, message: taken.append((peer.node, message))},
        {Get: lambda peer, message: Datum(message.data_info_id, 7, [])},
        {ListServices: begin},
    )

    async def scenario() -> None:
        scene = Scene(handlers)
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


def test_what_no_handler_takes_is_refused_counted_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        scene = Scene(Handlers({Withdraw: lambda peer, message: None}))
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
        handlers = Handlers({Publish: lambda peer, message: taken.append(message)}, {Compare: take})
        scene = Scene(handlers)
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
        scene = Scene(Handlers(requests={Get: fail}))
        await scene.listen()
        connection, _ = await scene.connect()
        assert await connection.ask(Get("s"), 1.0) == Failed(ModelError.code, "no such service")

    play(scenario)


def test_a_peer_that_has_gone_takes_nothing_and_disturbs_nobody() -> None:
    async def scenario() -> None:
        scene = Scene(Handlers())
        await scene.listen()
        connection, received = await scene.connect()
        (peer,) = scene.peer_owner.here
        assert scene.peers.send(peer, Done())
        await asyncio.sleep(0.1)
        assert received == [Done()]
        connection.close("enough")
        await asyncio.sleep(0.1)
        assert scene.peer_owner.gone == ["tool"]
        assert not scene.peers.send(peer, Done())
        assert not scene.peers.ask(peer, Ping(), lambda reply, error: None, 1.0)
        scene.peers.reply(Request(peer, 1), Done())
        scene.peers.close(peer, "again")

    play(scenario)


def test_what_waits_for_everything_to_be_read_comes_after_all_that_had_arrived() -> None:
    events: list[str] = []

    async def scenario() -> None:
        scene = Scene(Handlers({Publish: lambda peer, message: events.append(f"publish {message.sequence}")}))
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


def test_a_server_knows_how_long_a_peer_was_silent_whose_connection_it_has_closed_itself() -> None:
    async def scenario() -> None:
        scene = Scene(Handlers())
        await scene.listen()
        near, _ = await scene.connect("near")
        await scene.connect("far")
        scene.peers.attend()
        (ended, closed) = scene.peer_owner.here
        await asyncio.sleep(2.0)
        near.close("the tool has ended")
        scene.peers.close(closed, "it does not read")
        await asyncio.sleep(0.1)
        assert scene.peer_owner.here == []
        assert ended.silence_at_close is None
        assert closed.silence_at_close == pytest.approx(2.0, abs=0.2)
        scene.peers.silence()

    play(scenario)


def test_a_silent_server_sends_nothing_and_runs_no_timer() -> None:
    async def scenario() -> None:
        scene = Scene(Handlers())
        await scene.listen()
        _, received = await scene.connect()
        (peer,) = scene.peer_owner.here
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
        scene = Scene(Handlers())
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
