"""The contract of :class:`slotreeve.ports.Transport`, as tests.

Derive a class whose name begins with ``Test`` from :class:`TransportContract` in a module of your own tests::

    class TestMyTransport(TransportContract):
        def build(self, clock, limits):
            return MyTransport(clock, limits)

The suite does not kill or freeze processes; a transport's own tests must.
"""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import AddressInUse, ConnectionLost, Refused, RequestTimeout, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Hello
from slotreeve.ports.transport import SignsOfLife
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.general_messages import Done, Goodbye, Ping
from slotreeve_protocol.packets import ChannelLimits

from slotreeve_conformance.transport_faults import TransportFaultsContract
from slotreeve_conformance.transport_scene import (
    CLIENT,
    FACTS,
    PATIENCE_SECONDS,
    SERVER,
    Pair,
    RecordedAnswers,
    RecordingHandler,
    opaque,
    open_descriptors,
    turns,
    until,
)


class TransportContract(TransportFaultsContract):
    """The contract of transports; subclass it in a test module."""

    crowd = 1000
    """Number of connections that the test for leaks makes and closes."""

    # --- opening ---------------------------------------------------------------------------------------------

    def test_both_ends_get_the_hello_of_the_peer_before_anything_else(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            assert pair.client_handler.events == [("opened", near)]
            assert near.peer == SERVER
            assert not near.closed
            near.send(opaque(1))
            await until(lambda: bool(pair.server_handler.received_messages))
            far = pair.server_handler.connections[0]
            assert pair.server_handler.history(far) == ["opened", "received"]
            assert far.peer == CLIENT
            assert near.address == pair.address
            assert far.address

        self.check(scenario)

    def test_the_listener_tells_the_port_it_was_given(self) -> None:
        async def scenario(pair: Pair) -> None:
            assert int(pair.listener.address.rpartition(":")[2]) > 0

        self.check(scenario)

    @pytest.mark.parametrize(
        ("hello", "reason"),
        [
            (Hello("other", "client/1", Role.CLIENT, "p", facts=FACTS), "cluster 'test', not 'other'"),
            (Hello("test", "client/1", Role.CLIENT, "p", "", 7, 9, FACTS), "protocol versions 7..9"),
            (
                Hello("test", "client/1", Role.CLIENT, "p", facts=SlotFacts(128, 2, "crc32c")),
                "slots is 256 here and 128 there",
            ),
            (
                Hello("test", "client/1", Role.CLIENT, "p", facts=SlotFacts(256, 3, "crc32c")),
                "replicas is 2 here and 3 there",
            ),
            (
                Hello("test", "client/1", Role.CLIENT, "p", facts=SlotFacts(256, 2, "md5")),
                "function is 'crc32c' here and 'md5'",
            ),
        ],
    )
    def test_a_hello_that_does_not_fit_is_refused_with_the_reason(self, hello: Hello, reason: str) -> None:
        async def scenario(pair: Pair) -> None:
            with pytest.raises(Refused, match=reason):
                await pair.connect(hello)
            assert pair.server.counters.refused_hellos == 1
            await turns()
            assert pair.server_handler.events == pair.client_handler.events == []

        self.check(scenario)

    def test_a_peer_without_slot_facts_is_accepted(self) -> None:
        async def scenario(pair: Pair) -> None:
            assert (await pair.connect(Hello("test", "client/1", Role.CLIENT, "p"))).peer.facts == FACTS

        self.check(scenario)

    def test_an_address_in_use_is_named(self) -> None:
        async def scenario(pair: Pair) -> None:
            with pytest.raises(AddressInUse, match=pair.listener.address):
                await pair.client.listen(pair.listener.address, SERVER, RecordingHandler())

        self.check(scenario)

    def test_an_address_without_a_listener_is_unreachable_at_once(self) -> None:
        async def scenario(pair: Pair) -> None:
            await pair.listener.close()
            loop = asyncio.get_running_loop()
            started = loop.time()
            with pytest.raises(Unreachable, match=pair.listener.address) as unreachable:
                await pair.connect()
            assert unreachable.value.nobody_listens
            assert loop.time() - started < PATIENCE_SECONDS / 2
            assert pair.client_handler.events == []

        self.check(scenario)

    def test_a_connect_that_is_cancelled_leaves_nothing_behind(self) -> None:
        async def scenario(pair: Pair) -> None:
            for patience in range(12):
                attempt = asyncio.ensure_future(pair.connect())
                await turns(patience)
                in_time = attempt.cancel()
                await asyncio.gather(attempt, return_exceptions=True)
                # The caller waits for the cancelled task. A ``connect`` that ignores the cancellation would never end.
                assert attempt.cancelled() is in_time
                if not in_time:
                    attempt.result().close("the connection was made")
            await until(lambda: len(pair.client_handler.reasons) == len(pair.client_handler.connections))
            await until(lambda: len(pair.server_handler.reasons) == len(pair.server_handler.connections))

        self.check(scenario)

    def test_a_sign_of_life_is_of_one_address_and_goes_with_the_connection(self) -> None:
        async def scenario(pair: Pair) -> None:
            signs = pair.client
            if not isinstance(signs, SignsOfLife):
                pytest.skip("this transport shows no signs of life")
            other = await pair.server.listen(self.address, SERVER, pair.server_handler)
            assert not signs.has_answered(pair.address)
            near = await pair.connect()
            assert signs.has_answered(pair.address)
            assert not signs.has_answered(self.dialled(other.address))
            near.close("enough")
            assert not signs.has_answered(pair.address)
            await other.close()
            with pytest.raises(Unreachable):
                await pair.client.connect(self.dialled(other.address), CLIENT, pair.client_handler, PATIENCE_SECONDS)
            assert not signs.has_answered(self.dialled(other.address))

        self.check(scenario)

    # --- messages --------------------------------------------------------------------------------------------

    def test_replies_and_what_was_encoded_once_keep_their_place_among_messages(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            answered: list[int] = []
            near.request(opaque(0), lambda *_: answered.append(len(pair.client_handler.received_messages)), 9.0)
            await until(lambda: bool(pair.server_handler.requests))
            for number in range(0, 100, 2):
                far.send(opaque(number))
                far.send_encoded(encode_message(opaque(number + 1)))
            far.reply(pair.server_handler.requests[0][1], opaque(0))
            await until(lambda: bool(answered))
            assert pair.client_handler.received_messages == [opaque(number) for number in range(100)]
            assert answered == [100]

        self.check(scenario)

    def test_a_connection_has_room_while_less_than_half_of_its_queue_waits(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            assert near.has_room
            near.send(opaque(1, 3_000))
            assert near.has_room
            near.send(opaque(2, 3_000))
            assert not near.has_room
            await until(lambda: near.has_room)

        self.check(scenario, ChannelLimits(queue_bytes=8_000))

    @pytest.mark.parametrize("closing_end", [0, 1])
    def test_the_end_that_closes_knows_that_it_did(self, closing_end: int) -> None:
        async def scenario(pair: Pair) -> None:
            ends = await pair.both_ends()
            ends[closing_end].close("enough")
            await until(lambda: ends[0].closed and ends[1].closed)
            assert [end.ended_here for end in ends] == [closing_end == 0, closing_end == 1]

        self.check(scenario)

    def test_messages_arrive_once_and_in_order_both_ways_whatever_their_size(self) -> None:
        sizes = [0, 1, 100, 60_000, 70_000, 300_000]
        sent = [opaque(i, sizes[i % 60] if i % 60 < len(sizes) else i % 50) for i in range(3000)]

        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            for i, message in enumerate(sent):
                near.send(message)
                far.send(message)
                if i % 97 == 0:
                    await turns(1)
            await until(lambda: len(pair.server_handler.received_messages) >= len(sent))
            await until(lambda: len(pair.client_handler.received_messages) >= len(sent))
            await turns()
            assert pair.server_handler.received_messages == sent
            assert pair.client_handler.received_messages == sent

        self.check(scenario)

    def test_connections_do_not_mix(self) -> None:
        async def scenario(pair: Pair) -> None:
            clients = [RecordingHandler() for _ in range(20)]
            near = [await pair.connect(handler=recorder) for recorder in clients]
            await until(lambda: len(pair.server_handler.connections) == len(clients))
            for number in range(50):
                for i, (one, other) in enumerate(zip(near, pair.server_handler.connections, strict=True)):
                    one.send(opaque(number, i))
                    other.send(opaque(number, i))
            await until(lambda: all(len(recorder.received_messages) == 50 for recorder in clients))
            for i, recorder in enumerate(clients):
                assert recorder.received_messages == [opaque(number, i) for number in range(50)]

        self.check(scenario)

    def test_a_message_encoded_once_goes_to_many(self) -> None:
        async def scenario(pair: Pair) -> None:
            clients = [RecordingHandler() for _ in range(5)]
            for recorder in clients:
                await pair.connect(handler=recorder)
            await until(lambda: len(pair.server_handler.connections) == len(clients))
            frame = encode_message(opaque(1))
            for connection in pair.server_handler.connections:
                connection.send_encoded(frame)
            await until(lambda: all(recorder.received_messages == [opaque(1)] for recorder in clients))

        self.check(scenario)

    def test_both_ends_know_when_the_last_packet_arrived(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            for sender, receiver, handler in (
                (near, far, pair.server_handler),
                (far, near, pair.client_handler),
            ):
                before = receiver.heard_at
                await asyncio.sleep(0.02)
                assert receiver.heard_at == before
                sent_at = asyncio.get_running_loop().time()
                sender.send(opaque(1))
                await until(lambda handler=handler: bool(handler.received_messages))  # type: ignore[misc]
                assert before < sent_at <= receiver.heard_at <= asyncio.get_running_loop().time()

        self.check(scenario)

    def test_a_listener_knows_whether_packets_wait_to_be_read(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, _ = await pair.both_ends()
            assert not pair.listener.has_unread
            waited = sent = 0
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not waited:
                    for i in range(3000):
                        near.send(opaque(i, 1000))
                    sent += 3000
                    while len(pair.server_handler.received_messages) < sent:
                        waited += pair.listener.has_unread
                        await asyncio.sleep(0)
            await until(lambda: not pair.listener.has_unread)
            assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()

        self.check(scenario)

    # --- requests --------------------------------------------------------------------------------------------

    def test_each_request_gets_its_own_reply_in_whatever_order_they_come(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            answers = [RecordedAnswers() for _ in range(200)]
            for i, answered in enumerate(answers):
                near.request(opaque(i), answered, PATIENCE_SECONDS)
                assert answered.calls == []
            await until(lambda: len(pair.server_handler.requests) == len(answers))
            for connection, request_id, message in reversed(pair.server_handler.requests):
                connection.reply(request_id, message)
            await until(lambda: all(answered.calls for answered in answers))
            assert [answered.calls for answered in answers] == [[opaque(i)] for i in range(len(answers))]

        self.check(scenario)

    def test_both_ends_may_ask(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            asked = (end.ask(Ping(), PATIENCE_SECONDS) for end in (near, far) for _ in range(100))
            assert await asyncio.gather(*asked) == [Done()] * 200

        self.check(scenario)

    def test_a_request_that_timed_out_is_reported_once_and_its_late_reply_is_not(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            answered = RecordedAnswers()
            near.request(opaque(1), answered, 0.05)
            with pytest.raises(RequestTimeout):
                await near.ask(opaque(2), 0.02)
            await until(lambda: bool(answered.calls))
            for connection, request_id, message in pair.server_handler.requests:
                connection.reply(request_id, message)
            assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
            assert [type(call) for call in answered.calls] == [RequestTimeout]

        self.check(scenario)

    @pytest.mark.parametrize("closing_end", [0, 1])
    def test_the_end_of_the_connection_answers_what_was_asked(self, closing_end: int) -> None:
        async def scenario(pair: Pair) -> None:
            ends = await pair.both_ends()
            answered = RecordedAnswers()
            ends[0].request(opaque(1), answered, PATIENCE_SECONDS)
            waiting = asyncio.ensure_future(ends[0].ask(opaque(2), PATIENCE_SECONDS))
            await until(lambda: len(pair.server_handler.requests) == 2)
            ends[closing_end].close("enough")
            assert answered.calls == []
            with pytest.raises(ConnectionLost, match="enough"):
                await waiting
            await turns()
            assert [type(call) for call in answered.calls] == [ConnectionLost]

        self.check(scenario)

    # --- ending ----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("closing_end", [0, 1])
    def test_both_ends_learn_of_the_end_once_and_what_was_sent_before_arrives(self, closing_end: int) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            ends, handlers = (near, far), (pair.client_handler, pair.server_handler)
            for i in range(2000):
                ends[closing_end].send(opaque(i, 1000))
            ends[closing_end].close("enough")
            assert ends[closing_end].closed
            assert handlers[closing_end].reasons == [], "not from within close()"
            await until(lambda: bool(near.closed and far.closed and all(t.reasons for t in handlers)))
            ends[closing_end].close("again")
            await turns()
            assert [t.reasons for t in handlers] == [["enough"], ["enough"]]
            assert handlers[1 - closing_end].received_messages == [opaque(i, 1000) for i in range(2000)]
            for end, recorder in zip(ends, handlers, strict=True):
                assert recorder.history(end)[-1] == "closed"

        self.check(scenario)

    def test_nothing_can_be_sent_after_the_end(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            near.close("enough")
            answered = RecordedAnswers()
            with pytest.raises(ConnectionLost):
                near.send(opaque(1))
            with pytest.raises(ConnectionLost):
                near.request(opaque(1), answered, 0.01)
            with pytest.raises(ConnectionLost):
                await near.ask(opaque(1), 0.01)
            near.reply(1, Done())
            await until(lambda: bool(pair.client_handler.reasons))
            assert answered.calls == []

        self.check(scenario)

    def test_a_new_connection_is_a_new_one_and_the_old_stays_closed(self) -> None:
        async def scenario(pair: Pair) -> None:
            old_near, old_far = await pair.both_ends()
            old_far.close("enough")
            await until(lambda: old_near.closed)
            near, far = await pair.both_ends()
            assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
            assert old_near.closed
            assert old_far.closed
            assert near is not old_near
            assert far is not old_far

        self.check(scenario)

    def test_a_closed_listener_ends_its_connections_and_frees_its_address(self) -> None:
        async def scenario(pair: Pair) -> None:
            near = await pair.connect()
            await pair.listener.close()
            assert len(pair.server_handler.reasons) == 1
            await until(lambda: near.closed)
            again = await pair.server.listen(pair.listener.address, SERVER, pair.server_handler)
            assert again.address == pair.listener.address
            assert await (await pair.connect()).ask(Ping(), PATIENCE_SECONDS) == Done()
            await pair.listener.close()
            assert await (await pair.connect()).ask(Ping(), PATIENCE_SECONDS) == Done()

        self.check(scenario)

    def test_closing_a_transport_ends_everything_and_may_be_repeated(self) -> None:
        async def scenario(pair: Pair) -> None:
            near, far = await pair.both_ends()
            await pair.client.close()
            assert len(pair.client_handler.reasons) == 1
            await until(lambda: far.closed)
            await asyncio.gather(pair.client.close(), pair.server.close(), pair.listener.close())
            assert near.closed
            assert len(pair.server_handler.reasons) == 1
            with pytest.raises(Unreachable, match="closed"):
                await pair.connect()
            with pytest.raises(AddressInUse, match="closed"):
                await pair.server.listen(self.address, SERVER, RecordingHandler())

        self.check(scenario)

    def test_many_connections_come_and_go_without_a_trace(self) -> None:
        async def scenario(pair: Pair) -> None:
            async def come_and_go(times: int, closing_end: int) -> None:
                for _ in range(times):
                    recorder = RecordingHandler()
                    near = await pair.connect(handler=recorder)
                    assert await near.ask(Ping(), PATIENCE_SECONDS) == Done()
                    if closing_end == 0:
                        near.close("enough")
                    else:
                        near.send(Goodbye("enough"))
                    await until(lambda handler=recorder: bool(handler.reasons))  # type: ignore[misc]

            await come_and_go(2, 0)
            handler = pair.server_handler
            await until(lambda: len(handler.reasons) == len(handler.connections))
            await turns()
            tasks, descriptors = len(asyncio.all_tasks()), open_descriptors()
            await asyncio.gather(*(come_and_go(self.crowd // 10, i % 2) for i in range(10)))
            await until(lambda: len(handler.reasons) == len(handler.connections))
            assert len(handler.connections) == self.crowd // 10 * 10 + 2
            await until(lambda: open_descriptors() <= descriptors)
            await until(lambda: len(asyncio.all_tasks()) <= tasks)

        self.check(scenario)
