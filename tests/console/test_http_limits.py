"""Each limit of the HTTP end, against callers on raw sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from slotreeve_console.http_connection import MOST_PIPELINED
from slotreeve_console.http_end import SPARE_CONNECTIONS, HttpEnd
from slotreeve_console.limits import HttpLimits
from starlette.types import Receive, Scope, Send

PATIENCE = 20.0
WIDE = HttpLimits(
    connections=100, head_seconds=PATIENCE, body_seconds=PATIENCE, idle_seconds=20, write_seconds=PATIENCE
)
SOON = 0.2
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Application:
    """``/`` answers at once with the body that it got. ``/hold`` answers when it is let go. ``/stream`` sends small
    events, and ``/flood`` sends without end."""

    def __init__(self) -> None:
        self.letting_go = asyncio.Event()
        self.at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.at_work += 1
        try:
            await self._answer(scope["path"], receive, send)
        finally:
            self.at_work -= 1

    async def _answer(self, path: str, receive: Receive, send: Send) -> None:
        body, more = b"", path == "/"
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if path == "/hold":
            await self.letting_go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while path == "/flood":
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
            await asyncio.sleep(0)
        while path == "/stream" and not self.letting_go.is_set():
            await send({"type": "http.response.body", "body": b"event\n", "more_body": True})
            await asyncio.sleep(SOON / 4)
        await send({"type": "http.response.body", "body": body or b"done"})


class Caller:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, end: HttpEnd) -> Caller:
        host, _, port = end.address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=2**22))

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def rest(self) -> bytes:
        """What comes until the end, which may be a reset."""
        got = b""
        try:
            while part := await self.reader.read(65_536):
                got += part
        except ConnectionError:
            pass
        self.writer.close()
        return got

    async def answer(self) -> bytes:
        return await self.reader.readuntil(b"\r\n0\r\n\r\n")


Scenario = Callable[[HttpEnd, Application], Coroutine[Any, Any, None]]


def play(scenario: Scenario, limits: HttpLimits = WIDE) -> None:
    async def main() -> None:
        application = Application()
        end = HttpEnd(application, "127.0.0.1:0", limits=limits)
        await end.start()
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(end, application)
        finally:
            await end.stop()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - counts and logs have no event to wait for
        await asyncio.sleep(0.01)


async def is_well(end: HttpEnd) -> bool:
    caller = await Caller.of(end)
    await caller.say(LAST_GET)
    return b" 200 " in await caller.rest()


@pytest.mark.parametrize(
    "said",
    [
        b"GET /" + 20_000 * b"a" + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + 20_000 * b"a" + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + 17_000 * b"a",
        b"GET / HTTP/1.1\r\n" + b"".join(b"A%d: b\r\n" % i for i in range(200)) + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"A%d: %s\r\n" % (i, 500 * b"a") for i in range(50)),
        17_000 * b"\r\n",
    ],
    ids=["a long path", "a long header", "a header without end", "many headers", "headers without end", "empty lines"],
)
def test_a_head_that_is_too_large_is_refused_and_counted(said: bytes) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(said)
        assert (await caller.rest()).startswith(b"HTTP/1.1 431 ")
        assert end.counters()["http_bad_requests"] == 1
        assert await is_well(end)

    play(scenario)


@pytest.mark.parametrize("piece", [b"a", b"B: c\r\n"], ids=["one header", "many headers"])
def test_a_head_that_grows_piece_by_piece_is_refused_as_well(piece: bytes) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(b"GET / HTTP/1.1\r\nA: ")
        try:
            while not caller.reader.at_eof() and end.counters()["http_bad_requests"] == 0:
                await caller.say(100 * piece)
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        await until(lambda: end.counters()["http_bad_requests"] == 1)
        await caller.rest()

    play(scenario)


@pytest.mark.parametrize(
    "said",
    [b"0\r\nA: " + 40_000 * b"a", b"1;" + 400_000 * b"e", b"0\r\n" + 200 * b"A: b\r\n"],
    ids=["a trailer without end", "a chunk's extension without end", "many trailers"],
)
def test_what_surrounds_the_chunks_of_a_body_is_bounded(said: bytes) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for start in range(0, len(said), 10_000):
                await caller.say(said[start : start + 10_000])
                await asyncio.sleep(0.001)
        except ConnectionError:
            pass
        await until(lambda: end.counters()["http_bad_requests"] == 1)
        assert b" 200 " not in await caller.rest()

    play(scenario)


def test_a_large_body_and_a_head_near_the_limit_are_taken() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        body = 1_000_000 * b"b"
        for _ in range(2):
            head = b"POST / HTTP/1.1\r\nHost: x\r\nA: " + 16_000 * b"a" + b"\r\nContent-Length: 1000000\r\n\r\n"
            await caller.say(head)
            await caller.say(body)
            assert body in await caller.answer()
        caller.writer.close()

    play(scenario)


@pytest.mark.parametrize(
    "said",
    [b"", b"\r\n", b"GET / HT", b"GET / HTTP/1.1\r\nHost:", GET + b"GET / HTTP"],
    ids=["nothing", "an empty line", "half a line", "half a head", "half of a further head"],
)
def test_a_head_that_is_not_complete_in_time_ends_its_connection(said: bytes) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(said)
        await caller.rest()
        assert end.counters()["http_slow_requests"] == 1

    play(scenario, replace(WIDE, head_seconds=SOON))


def test_dripping_a_head_does_not_prolong_its_time() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(b"GET / HTTP/1.1\r\nA: ")
        reading = asyncio.ensure_future(caller.rest())
        while not reading.done():
            caller.writer.write(b"a")
            await asyncio.sleep(SOON / 10)
        assert await reading == b""

    play(scenario, replace(WIDE, head_seconds=SOON))


@pytest.mark.parametrize("answers_first", [False, True], ids=["the application waits", "the application has answered"])
def test_a_body_that_is_not_complete_in_time_ends_its_connection(answers_first: bool) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        path = b"/other" if answers_first else b"/"
        await caller.say(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        reading = asyncio.ensure_future(caller.rest())
        while not reading.done():
            caller.writer.write(b"drip")
            await asyncio.sleep(SOON / 10)
        assert (b" 200 " in await reading) is answers_first
        assert end.counters()["http_slow_requests"] == 1
        await until(lambda: application.at_work == 0)

    play(scenario, replace(WIDE, body_seconds=SOON))


def test_a_kept_connection_without_requests_ends_and_one_that_asks_is_kept() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        silent, asking = await Caller.of(end), await Caller.of(end)
        await silent.say(GET)
        await silent.answer()
        reading = asyncio.ensure_future(silent.rest())
        while not reading.done():
            await asking.say(GET)
            await asking.answer()
            await asyncio.sleep(SOON / 10)
        assert end.counters()["http_slow_requests"] == 0
        asking.writer.close()

    play(scenario, replace(WIDE, idle_seconds=SOON))


@pytest.mark.parametrize("path", [b"/hold", b"/stream"])
def test_long_polls_and_streams_outlive_every_limit_of_time(path: bytes) -> None:
    limits = HttpLimits(head_seconds=SOON, body_seconds=SOON, idle_seconds=SOON, write_seconds=SOON)

    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        # The empty line after the request is a habit of some callers, and must not count as a slow next request.
        await caller.say(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: application.at_work == 1)
        await caller.say(b"\r\n")
        await asyncio.sleep(8 * SOON)  # the limits are to pass
        application.letting_go.set()
        assert (await caller.answer()).endswith(b"done\r\n0\r\n\r\n")
        caller.writer.close()

    play(scenario, limits)


def test_a_reader_that_takes_nothing_is_ended_and_the_work_for_it_too() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await caller.say(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: end.counters()["http_slow_readers"] == 1)
        await until(lambda: application.at_work == 0 and end.counters()["http_connections"] == 0)
        caller.writer.close()
        assert await is_well(end)

    play(scenario, replace(WIDE, write_seconds=SOON))


def test_a_reader_that_takes_little_by_little_is_ended_as_well() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        host, _, port = end.address.rpartition(":")
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(slow, (host, int(port)))
            await loop.sock_sendall(slow, b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
            while not end.counters()["http_slow_readers"]:
                await loop.sock_recv(slow, 100)
                await asyncio.sleep(0.01)

    play(scenario, replace(WIDE, write_seconds=SOON))


def test_an_answer_that_is_complete_and_not_taken_does_not_keep_its_connection() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        body = 8_000_000
        await caller.say(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % body)
        await caller.say(bytes(body))
        await until(lambda: end.counters()["http_slow_readers"] == 1)
        await until(lambda: end.counters()["http_connections"] == 0)
        caller.writer.close()

    play(scenario, replace(WIDE, write_seconds=SOON))


def test_beyond_the_limit_new_connections_get_503_and_beyond_that_nothing_while_old_ones_are_served() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        served = [await Caller.of(end) for _ in range(3)]
        for caller in served:
            await caller.say(GET)
            await caller.answer()
        spare = [await Caller.of(end) for _ in range(SPARE_CONNECTIONS)]
        await until(lambda: end.counters()["http_connections"] == 3 + SPARE_CONNECTIONS)
        assert await (await Caller.of(end)).rest() == b""
        await spare[0].say(GET)
        refused = await spare[0].rest()
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in refused
        assert end.counters()["http_refused_connections"] == SPARE_CONNECTIONS + 1
        await served[0].say(GET)
        assert b" 200 " in await served[0].answer()
        for caller in (*served, *spare):
            caller.writer.close()

    play(scenario, replace(WIDE, connections=3))


def test_callers_that_ask_and_hang_up_hold_their_place_until_their_work_ends() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        for _ in range(10):
            caller = await Caller.of(end)
            await caller.say(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: application.at_work > 0)
            caller.writer.close()
        await until(lambda: application.at_work == 10)
        assert end.counters()["http_connections"] == 10
        await until(lambda: application.at_work == 0)
        await until(lambda: end.counters()["http_connections"] == 0)

    play(scenario, replace(WIDE, write_seconds=1.0))


def test_what_a_caller_asked_for_before_it_hung_up_is_done() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: application.at_work == 1)
        caller.writer.close()
        await caller.writer.wait_closed()
        application.letting_go.set()
        await until(lambda: application.at_work == 0)
        assert await is_well(end)

    play(scenario)


def test_requests_ahead_of_their_answers_are_answered_in_order_up_to_a_bound() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(b"".join(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n%02d" % i for i in range(10)))
        for i in range(10):
            assert b"%02d" % i in await caller.answer()
        caller.writer.close()
        greedy = await Caller.of(end)
        await greedy.say(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n" + (MOST_PIPELINED + 1) * GET)
        assert await greedy.rest() == b""
        assert end.counters()["http_bad_requests"] == 1

    play(scenario)


def test_an_offer_to_speak_another_protocol_is_ignored() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        for _ in range(3):
            await caller.say(
                b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nContent-Length: 4\r\n\r\nbody"
            )
            assert b"body" in await caller.answer()
        caller.writer.close()
        in_pieces = await Caller.of(end)
        await in_pieces.say(b"POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgr")
        await asyncio.sleep(SOON)
        await in_pieces.say(b"ade: h2c\r\nContent-Length: 50\r\n\r\n" + GET)
        answers = await in_pieces.rest()
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1") == 1  # a body is never taken for a request

    play(scenario)


@pytest.mark.parametrize(
    "said", [b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\x02\r\n\r\n", b"GET ?\xff\r\n\r\n"]
)
def test_bad_requests_are_counted_and_do_not_fill_the_log(said: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        for count in range(1, 4):
            caller = await Caller.of(end)
            await caller.say(said)
            assert (await caller.rest()).startswith(b"HTTP/1.1 400 ")
            assert end.counters()["http_bad_requests"] == count

    with caplog.at_level(logging.INFO):
        play(scenario)
    assert not [record for record in caplog.records if record.name != "asyncio"]


def test_stopping_ends_long_polls_after_a_second_without_a_word_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        application = Application()
        end = HttpEnd(application, "127.0.0.1:0", limits=WIDE)
        await end.start()
        callers = [await Caller.of(end) for _ in range(5)]
        for caller in callers:
            await caller.say(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: application.at_work == 5)
        async with asyncio.timeout(PATIENCE):
            await end.stop()
        assert application.at_work == 0
        for caller in callers:
            assert await caller.rest() == b""

    asyncio.run(main())
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
