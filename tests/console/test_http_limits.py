"""Each limit of size and time of the HTTP end, against callers on raw sockets."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest
from slotreeve_console.http_end import HttpEnd
from slotreeve_console.limits import HttpLimits

from tests.console.http_callers import (
    GET,
    SOON,
    WIDE,
    Application,
    Caller,
    is_well,
    play,
    until,
)


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


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_answer_before_the_body_arrives_although_the_caller_wants_the_end(is_whole: bool) -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        head = b"POST /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 8000000\r\n\r\n"
        await caller.say(head)
        await asyncio.sleep(SOON)  # it is answered
        for _ in range(80 if is_whole else 40):
            await caller.say(bytes(100_000))
        answer = await caller.rest()
        assert b" 200 " in answer
        assert b"connection: close" in answer.lower()
        assert end.counters()["http_slow_requests"] == (0 if is_whole else 1)
        await until(lambda: end.counters()["http_connections"] == 0)

    play(scenario, replace(WIDE, body_seconds=WIDE.body_seconds if is_whole else 5 * SOON))


def test_a_body_that_comes_after_its_answer_does_not_keep_a_connection() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        callers = [await Caller.of(end) for _ in range(2)]
        for caller in callers:
            await caller.say(b"POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n")
            assert b" 200 " in await caller.answer()
            await caller.say(b"x")
        await callers[1].say(GET)
        assert b" 200 " in await callers[1].answer()
        assert await callers[0].rest() == b""
        assert await callers[1].rest() == b""

    play(scenario, replace(WIDE, head_seconds=SOON, idle_seconds=SOON))


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


def test_answers_that_nobody_takes_are_bounded_together_and_the_slowest_callers_are_ended() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        callers = [await Caller.of(end) for _ in range(6)]
        for caller in callers:
            caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
            # The kernel takes some of it, less than half.
            await caller.say(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n" + bytes(16_000_000))
            await until(lambda: application.at_work == 0)
        await until(lambda: end.counters()["http_slow_readers"] > 0)
        await asyncio.sleep(5 * SOON)  # it looks again
        assert end.counters()["http_slow_readers"] < len(callers), "some have room"
        for caller in (callers[0], callers[-1]):
            caller.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await callers[0].rest()) < 16_000_000
        assert len(await callers[-1].answer()) > 16_000_000
        for caller in callers:
            caller.writer.close()
        assert await is_well(end)

    play(scenario, replace(WIDE, idle_seconds=SOON, write_seconds=30.0, untaken_bytes=20_000_000))


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
