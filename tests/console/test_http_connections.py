"""How many connections and requests an HTTP end takes, and what it does with bad ones, against raw sockets."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from slotreeve_console.http_connection import MOST_PIPELINED
from slotreeve_console.http_end import SPARE_CONNECTIONS, HttpEnd

from tests.console.http_callers import (
    GET,
    PATIENCE,
    SOON,
    WIDE,
    Application,
    Caller,
    is_well,
    play,
    until,
)


def test_beyond_the_limit_new_connections_get_503_and_beyond_that_nothing_while_old_ones_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slotreeve_console.places.UNDISTURBED_SECONDS", PATIENCE)

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
        await caller.say(
            b"".join(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n%02d" % i for i in range(10))
        )
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
        await in_pieces.say(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgr")
        await asyncio.sleep(SOON)
        await in_pieces.say(b"ade: h2c\r\nContent-Length: 50\r\n\r\n" + GET)
        answers = await in_pieces.rest()
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1") == 1  # a body is never taken for a request

    play(scenario)


def test_a_body_that_cannot_be_read_is_answered_before_the_connection_ends() -> None:
    async def scenario(end: HttpEnd, application: Application) -> None:
        caller = await Caller.of(end)
        await caller.say(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(SOON)
        await caller.say(b"zz\r\nbody\r\n")
        answers = await caller.rest()
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1") == 1
        await until(lambda: application.at_work == 0)
        assert await is_well(end)

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
