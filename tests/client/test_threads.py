"""The client for threads, on a registry in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import random
import signal
import threading
import time
from collections.abc import Coroutine, Iterator

import pytest
from slotreeve.errors import ClientClosed, ModelError, Refused, RegistrationError, RequestTimeout
from slotreeve_client import ClientOptions, ClientState, Filter, Health, Instance, Provider, RoundRobin
from slotreeve_client.threads import BlockingClient, connect_blocking
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.registry_thread import RegistryThread

SOON = 10.0


@pytest.fixture(scope="module")
def dev() -> Iterator[RegistryThread]:
    with RegistryThread() as server:
        yield server


@pytest.fixture
def client(dev: RegistryThread) -> Iterator[BlockingClient]:
    with connect_blocking(dev.session_address) as client:
        yield client


def test_what_one_thread_publishes_another_sees(client: BlockingClient, dev: RegistryThread) -> None:
    seen: list[tuple[Provider, ...]] = []
    changed = threading.Event()

    def on_change(instances: tuple[Provider, ...]) -> None:
        seen.append(instances)
        if [i.data for i in instances] == [(b"2",)]:
            changed.set()

    with connect_blocking(dev.session_address) as consumer:
        subscription = consumer.subscribe("threads.S", on_change)
        publication = client.publish("threads.S", "1")
        publication.acknowledged(SOON)
        subscription.ready(SOON)
        publication.republish("2")
        assert changed.wait(SOON)
        assert [i.data for i in subscription.instances] == [(b"2",)]
        assert [i.data for i in consumer.get("threads.S")] == [(b"2",)]
        assert consumer.list("threads.") == {"threads.S#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP": 1}
        publication.unpublish()
        client.flush(SOON)
        assert consumer.get("threads.S") == ()
        with pytest.raises(RegistrationError, match="was unpublished"):
            publication.republish("3")


def test_a_registered_instance_is_seen_and_changed_from_threads(client: BlockingClient) -> None:
    registered = client.register("threads.Typed", Instance("10.0.0.1", 8080))
    registered.set_health(Health.WARNING, "slow")
    registered.update(weight=7)
    registered.acknowledged(SOON)
    expected = Instance("10.0.0.1", 8080, weight=7, health=Health.WARNING, health_note="slow")
    assert registered.instance == expected
    assert [p.instance for p in client.get("threads.Typed")] == [expected]
    with pytest.raises(ModelError, match="weight is -1"):
        registered.update(weight=-1)
    registered.unpublish()
    with pytest.raises(RegistrationError, match="was unpublished"):
        registered.set_health(Health.PASSING)


def test_threads_choose_among_the_selected_providers(client: BlockingClient, dev: RegistryThread) -> None:
    good = client.register("threads.Chosen", Instance("10.0.0.1", 1, tags=("blue",)))
    client.register("threads.Chosen", Instance("10.0.0.2", 1))
    client.publish("threads.Chosen", "opaque")
    client.flush(SOON)
    with connect_blocking(dev.session_address) as consumer:
        subscription = consumer.subscribe("threads.Chosen")
        subscription.ready(SOON)
        chooser = RoundRobin(subscription.select(Filter(tags={"blue"})), random.Random(1))
        chosen: list[Provider | None] = []
        threads = [threading.Thread(target=lambda: chosen.append(chooser.choose())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one and one.instance for one in chosen] == [good.instance] * 8
        before = subscription.changes
        good.unpublish()
        deadline = time.monotonic() + SOON
        while subscription.changes == before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert chooser.choose() is None


def test_many_threads_may_share_a_client(client: BlockingClient) -> None:
    def publish(number: int) -> None:
        for turn in range(20):
            client.publish(f"threads.shared.{number}.{turn}", "x")

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.flush(SOON)
    assert len(client.list("threads.shared.")) == 160


def test_a_callback_may_call_its_own_client(client: BlockingClient) -> None:
    found: list[tuple[Provider, ...]] = []
    done = threading.Event()

    def on_change(instances: tuple[Provider, ...]) -> None:
        found.append(client.get("threads.Own"))
        done.set()

    client.subscribe("threads.Own", on_change)
    assert done.wait(SOON)
    assert found[0] == ()


def test_a_slow_callback_delays_neither_pings_nor_requests_and_sees_the_newest_state(dev: RegistryThread) -> None:
    options = ClientOptions(ping_seconds=0.1, silence_seconds=0.5)
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()
    seen: list[int] = []

    def on_change(instances: tuple[Provider, ...]) -> None:
        begun.set()
        assert go_on.wait(SOON)
        seen.append(len(instances))
        if len(instances) == 20:
            done.set()

    with connect_blocking(dev.session_address, options=options) as client:
        client.subscribe("threads.Slow", on_change)
        assert begun.wait(SOON)
        for number in range(20):
            client.publish("threads.Slow", str(number)).acknowledged(SOON)
        assert len(client.get("threads.Slow")) == 20
        other = client.subscribe("threads.Slow")
        while len(other.instances) < 20:
            other.ready(SOON)
        go_on.set()
        assert done.wait(SOON)
        assert seen == [0, 20]
        assert client.statistics().reconnections == 0


def test_an_exit_in_a_callback_is_a_failed_callback_and_the_client_lives(
    client: BlockingClient, caplog: pytest.LogCaptureFixture
) -> None:
    def on_change(instances: tuple[Provider, ...]) -> None:
        if not instances:
            begun.set()
            raise SystemExit(3)
        done.set()

    begun, done = threading.Event(), threading.Event()
    client.subscribe("threads.Exit", on_change)
    assert begun.wait(SOON)  # a view that waits for its callback is replaced by a newer one
    client.publish("threads.Exit", "1").acknowledged(SOON)
    assert done.wait(SOON)
    assert client.statistics().callback_failures == 1
    assert "the callback of the subscription to threads.Exit" in caplog.text


def test_a_callback_may_close_its_own_client(dev: RegistryThread) -> None:
    client = connect_blocking(dev.session_address)
    closed = threading.Event()

    def on_change(_instances: tuple[Provider, ...]) -> None:
        client.close()
        closed.set()

    client.subscribe("threads.Close", on_change)
    assert closed.wait(SOON)
    assert client.state is ClientState.CLOSED


def test_several_threads_may_close_a_client_and_all_return_after_it_is_closed(dev: RegistryThread) -> None:
    client = connect_blocking(dev.session_address)
    states: list[ClientState] = []
    errors: list[BaseException] = []

    def close() -> None:
        client.close()
        states.append(client.state)

    def wait_for_what_never_comes() -> None:
        try:
            client.wait(asyncio.Event().wait(), SOON)
        except ClientClosed as error:
            errors.append(error)

    waiter = threading.Thread(target=wait_for_what_never_comes)
    waiter.start()
    threads = [threading.Thread(target=close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in [*threads, waiter]:
        thread.join(SOON)
    assert states == [ClientState.CLOSED] * 8
    assert len(errors) == 1


def test_listeners_learn_of_every_state_until_the_end(dev: RegistryThread) -> None:
    states: list[ClientState] = []
    closed = threading.Event()

    def listener(state: ClientState) -> None:
        states.append(state)
        if state is ClientState.CLOSED:
            closed.set()

    with connect_blocking(dev.session_address) as client:
        client.on_state(listener)
    assert closed.wait(SOON)
    assert states in ([ClientState.CONNECTED, ClientState.CLOSED], [ClientState.CLOSED])


def test_a_forked_process_gets_an_error_and_the_client_of_its_parent_lives(client: BlockingClient) -> None:
    client.flush(SOON)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.publish("threads.Fork", "1")
        except ClientClosed as error:
            os.write(writer, str(error).encode())
        client.close()
        os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(reader) as pipe:
        assert pipe.read() == (
            f"process {os.getpid()} made this client before it was forked; make another one in each process"
        )
    client.publish("threads.Fork", "2").acknowledged(SOON)


def test_a_forked_process_makes_a_client_of_its_own(client: BlockingClient, dev: RegistryThread) -> None:
    client.flush(SOON)
    child = os.fork()
    if child == 0:
        try:
            with connect_blocking(dev.session_address) as own:
                own.publish("threads.Forked", "1").acknowledged(SOON)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    client.publish("threads.Fork", "3").acknowledged(SOON)


def test_a_function_that_is_async_is_an_error_at_the_call(client: BlockingClient) -> None:
    async def never_run(_seen: object) -> None:
        raise AssertionError

    with pytest.raises(ModelError, match="expected a function that is not async"):
        client.subscribe("threads.S", never_run)  # type: ignore[arg-type] # what is refused
    with pytest.raises(ModelError, match="expected a function that is not async"):
        client.watch_config("threads.S", never_run)  # type: ignore[arg-type] # what is refused


def test_a_wait_that_a_signal_handler_ends_leaves_nothing_on_the_loop(client: BlockingClient) -> None:
    class Alarm(Exception):
        """What the handler raises, as that of a job runner's time limit does."""

    def ring(*_: object) -> None:
        raise Alarm

    ended = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    former = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            client.wait(forever(), SOON)
    finally:
        signal.signal(signal.SIGALRM, former)
    assert ended.wait(SOON)


def test_an_impossible_name_is_an_error_at_the_call(client: BlockingClient) -> None:
    with pytest.raises(ModelError, match="blank"):
        client.publish(" ", "x")


def test_a_registry_that_cannot_be_reached_is_a_time_out() -> None:
    with connect_blocking(free_address(), options=ClientOptions(request_seconds=0.3)) as client:
        assert client.state is ClientState.CONNECTING
        with pytest.raises(RequestTimeout, match="no session server answered"):
            client.get("x")


def test_a_closed_client_refuses_every_call(dev: RegistryThread) -> None:
    client = connect_blocking(dev.session_address)
    client.close()
    client.close()
    with pytest.raises(ClientClosed):
        client.publish("x", "y")


def test_a_wrong_cluster_name_is_an_error_where_the_block_is_entered(dev: RegistryThread) -> None:
    client = connect_blocking(dev.session_address, options=ClientOptions(cluster="another"))
    with pytest.raises(Refused, match="not 'another'"), client:
        pytest.fail("the block was entered")
    with pytest.raises(ClientClosed):
        client.get("a")


def test_a_time_out_says_why_there_is_no_connection() -> None:
    address = free_address()
    with connect_blocking(address) as client:
        publication = client.publish("a", "1")
        with pytest.raises(RequestTimeout, match=f"not done within 0.2 s; {address}: "):
            publication.acknowledged(0.2)


def test_a_client_is_closed_within_a_coroutine_and_its_handles_end_after_it(dev: RegistryThread) -> None:
    async def body() -> BlockingClient:
        with connect_blocking(dev.session_address) as made:
            made.publish("threads.InACoroutine", "1")
            return made

    made = asyncio.run(body())
    assert not made._thread.is_alive()
    assert made._loop.is_closed()


def test_after_the_end_of_a_client_handles_end_without_an_error_and_tell_nothing_old(dev: RegistryThread) -> None:
    made = connect_blocking(dev.session_address)
    subscription, watch = made.subscribe("threads.Ended"), made.watch_config("threads.key")
    made.close()
    subscription.unsubscribe()
    watch.unwatch()
    with pytest.raises(ClientClosed):
        _ = subscription.changes


def test_a_close_within_a_close_returns_at_once(dev: RegistryThread) -> None:
    made = connect_blocking(dev.session_address)
    wait = made.wait

    def interrupted(coroutine: Coroutine[object, object, object], timeout_seconds: float) -> object:
        made.close()  # as the handler of a signal that comes now
        return wait(coroutine, timeout_seconds)

    made.wait = interrupted  # type: ignore[assignment, method-assign]
    made.close()
    assert not made._thread.is_alive()


def test_an_answer_that_comes_together_with_the_end_of_the_wait_is_the_answer(
    client: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = concurrent.futures.Future.result

    def late(future: concurrent.futures.Future[str], timeout: float | None = None) -> str:
        try:
            return result(future, timeout)
        except concurrent.futures.TimeoutError:
            time.sleep(0.3)
            raise

    async def answer() -> str:
        await asyncio.sleep(0.2)
        return "the answer"

    with monkeypatch.context() as patched:
        patched.setattr(concurrent.futures.Future, "result", late)
        assert client.wait(answer(), 0.1) == "the answer"
