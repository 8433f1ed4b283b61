"""``slotreeve_testing.registry_in_thread``, and the fixture for pytest: a registry for programs with threads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import dns.message
import dns.query
import httpx
import pytest
from slotreeve.errors import RequestTimeout
from slotreeve_client import ClientOptions, ClientState, Instance, connect, connect_blocking
from slotreeve_gateway.access import Caller
from slotreeve_testing import FailureInServer, RegistryInThread, registry_in_thread

pytest_plugins = ["slotreeve_testing.pytest_plugin"]
SHOP = "com.example.Shop"


def waits(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline, "it did not happen within 20 s"
        threading.Event().wait(0.005)


@pytest.fixture
def slotreeve_registry_options() -> dict[str, Any]:
    return {"data": 2, "meta": 1}


def test_a_blocking_client_publishes_and_reads(slotreeve_registry: RegistryInThread) -> None:
    with connect_blocking(*slotreeve_registry.session_addresses) as client:
        client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged(timeout_seconds=5)
        assert [provider.instance for provider in client.get(SHOP)] == [
            provider.instance for provider in slotreeve_registry.instances(SHOP)
        ]
    slotreeve_registry.until(lambda: not slotreeve_registry.instances(SHOP), "a closed client leaves nothing")


def test_a_client_of_another_thread_counts_as_alive_while_time_is_skipped(slotreeve_registry: RegistryInThread) -> None:
    client = slotreeve_registry.connect_blocking()
    client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged(timeout_seconds=5)
    slotreeve_registry.advance(60)
    assert len(slotreeve_registry.instances(SHOP)) == 1
    assert client.statistics().reconnections == 0


def test_a_client_of_another_thread_survives_its_session_server(slotreeve_registry: RegistryInThread) -> None:
    client = slotreeve_registry.connect_blocking()
    client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged(timeout_seconds=5)
    before = slotreeve_registry.outsiders
    assert len(before) == 1
    slotreeve_registry.kill_session()
    # Otherwise time could be skipped before the client is at the other one, and what it registered would end.
    assert {*slotreeve_registry.outsiders} >= {*before}
    slotreeve_registry.advance(60)
    assert client.statistics().reconnections == 1
    client.flush(timeout_seconds=5)
    slotreeve_registry.restart()
    slotreeve_registry.settled()
    assert len(client.get(SHOP)) == 1


def test_a_killed_data_server_loses_nothing_that_was_acknowledged(slotreeve_registry: RegistryInThread) -> None:
    client = slotreeve_registry.connect_blocking()
    for number in range(20):
        client.register(f"{SHOP}{number}", Instance("10.0.0.1", 80))
    client.flush(timeout_seconds=5)
    slotreeve_registry.kill_data()
    slotreeve_registry.settled()
    assert len(client.list()) == 20


def test_requests_over_http_and_dns_are_answered(slotreeve_registry: RegistryInThread) -> None:
    instance = {"address": "10.0.0.7", "port": 8080, "ttl_seconds": 30}
    answer = httpx.put(f"{slotreeve_registry.gateway_url}/v1/services/{SHOP}/instances/a", json=instance)
    assert answer.status_code == 200
    host, port = slotreeve_registry.dns_address
    question = dns.message.make_query(f"{SHOP}.service.slotreeve.", "A")
    found = dns.query.udp(question, host, timeout=5, port=port)
    assert "10.0.0.7" in found.answer[0].to_text()
    slotreeve_registry.advance(60)
    slotreeve_registry.until(lambda: not dns.query.tcp(question, host, timeout=5, port=port).answer, "the lease ends")


PROGRAM = """
import sys
from slotreeve_client import Instance, connect_blocking
with connect_blocking(*sys.argv[1:]) as client:
    client.register("com.example.Shop", Instance("10.0.0.9", 80)).acknowledged(timeout_seconds=20)
    print("registered", flush=True)
    sys.stdin.read()
"""


def test_a_program_of_another_process_registers_and_outlives_its_session_server(
    slotreeve_registry: RegistryInThread,
) -> None:
    reg = slotreeve_registry
    command = [sys.executable, "-c", PROGRAM, *reg.session_addresses]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "registered\n"
            reg.advance(60)
            assert len(reg.instances(SHOP)) == 1
            reg.kill_session()
            reg.settled()
            assert len(reg.instances(SHOP)) == 1
        finally:
            program.communicate("")
    assert program.returncode == 0
    reg.until(lambda: not reg.instances(SHOP), "a program that has ended leaves nothing")


def test_a_client_with_an_event_loop_of_its_own_uses_it(slotreeve_registry: RegistryInThread) -> None:
    async def program() -> None:
        options = ClientOptions(application="program")
        async with connect(*slotreeve_registry.session_addresses, options=options) as client:
            await client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged()
            assert len(await client.get(SHOP)) == 1

    asyncio.run(program())


def test_a_frozen_session_server_answers_nobody_and_goes_on_afterwards() -> None:
    with registry_in_thread(meta=1, data=1, session=1) as reg:
        client = reg.connect_blocking(request_seconds=0.2)
        client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged(timeout_seconds=5)
        reg.freeze("session-1")
        with pytest.raises(RequestTimeout):
            client.get(SHOP)
        reg.thaw("session-1")
        assert len(client.get(SHOP, timeout_seconds=10)) == 1


def test_a_client_of_another_thread_leaves_a_frozen_session_server() -> None:
    with registry_in_thread(meta=1, data=1) as reg:
        client = reg.connect_blocking(ping_seconds=0.05, silence_seconds=0.2)
        client.register(SHOP, Instance("10.0.0.1", 80)).acknowledged(timeout_seconds=5)
        sessions = ("session-1", "session-2")
        for name in sessions:
            reg.freeze(name)
        waits(lambda: client.state is ClientState.CONNECTING)
        for name in sessions:
            reg.thaw(name)
        reg.until(lambda: client.state is ClientState.CONNECTED)
        assert len(client.get(SHOP)) == 1


def test_what_reached_a_frozen_session_server_is_handled_when_it_goes_on() -> None:
    with registry_in_thread(meta=1, data=1, session=1) as reg:
        client = reg.connect_blocking()
        client.flush(timeout_seconds=5)
        reg.freeze("session-1")
        published = client.publish(SHOP, "10.0.0.1:80")
        with pytest.raises(RequestTimeout):
            published.acknowledged(timeout_seconds=0.1)
        reg.thaw("session-1")
        published.acknowledged(timeout_seconds=5)
        assert client.statistics().reconnections == 0


def test_registries_of_two_threads_do_not_disturb_each_other() -> None:
    def program(number: int) -> int:
        with registry_in_thread(meta=1, data=1, session=1) as reg:
            client = reg.connect_blocking()
            for each in range(number):
                client.register(f"{SHOP}{each}", Instance("10.0.0.1", 80))
            client.flush(timeout_seconds=5)
            reg.advance(5)
            return len(client.list())

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(program, (1, 2, 3))] == [1, 2, 3]


class BrokenAccessInThread:
    def caller(self, token: str | None) -> Caller:
        raise ZeroDivisionError("access is broken")


def test_an_error_in_a_server_is_raised_in_the_thread_of_the_test() -> None:
    with pytest.raises(FailureInServer, match="access is broken"):  # noqa: SIM117 - by the end of the registry
        with registry_in_thread(meta=1, data=1, session=1, access=BrokenAccessInThread()) as reg:
            httpx.get(f"{reg.gateway_url}/v1/services")


def test_no_thread_and_no_socket_is_left_also_when_the_test_raised() -> None:
    with registry_in_thread(meta=1, data=1, session=1) as reg:
        reg.connect_blocking().publish(SHOP, "10.0.0.1:80")  # what a process makes once is made
    before = {thread.name for thread in threading.enumerate()}
    sockets = len(os.listdir("/proc/self/fd"))
    with suppress(KeyError), registry_in_thread(meta=1, data=1, session=1) as reg:
        reg.connect_blocking().publish(SHOP, "10.0.0.1:80")
        raise KeyError("of the test")
    # The thread of callbacks ends by itself a moment later: a callback may close its client.
    waits(lambda: {thread.name for thread in threading.enumerate()} <= before)
    waits(lambda: len(os.listdir("/proc/self/fd")) <= sockets)
    with pytest.raises(RuntimeError, match="does not run"):
        reg.advance(1)


def test_a_registry_in_a_thread_that_cannot_start_says_why() -> None:
    with pytest.raises(Exception, match="nonsense"), registry_in_thread(settings={"cluster.nonsense": 1}):
        pass
