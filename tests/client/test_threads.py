"""The client for threads, on a registry in a process of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from slotreeve.errors import ClientClosed, ModelError, RegistrationError, RequestTimeout
from slotreeve_client import ClientOptions, ClientState, Instance
from slotreeve_client.threads import BlockingClient, connect_blocking
from slotreeve_harness.processes import DevServer, free_address

pytestmark = pytest.mark.processes
SOON = 10.0


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


@pytest.fixture
def client(dev: DevServer) -> Iterator[BlockingClient]:
    with connect_blocking(dev.session_address) as client:
        yield client


def test_what_one_thread_publishes_another_sees(client: BlockingClient, dev: DevServer) -> None:
    seen: list[tuple[Instance, ...]] = []
    changed = threading.Event()

    def on_change(instances: tuple[Instance, ...]) -> None:
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


def test_a_callback_that_calls_a_blocking_method_of_its_own_client_gets_an_error(client: BlockingClient) -> None:
    errors: list[BaseException] = []
    done = threading.Event()

    def on_change(instances: tuple[Instance, ...]) -> None:
        try:
            client.get("threads.Own")
        except ClientClosed as error:
            errors.append(error)
        done.set()

    client.subscribe("threads.Own", on_change)
    assert done.wait(SOON)
    assert "hand the work to another thread" in str(errors[0])


def test_an_impossible_name_is_an_error_at_the_call(client: BlockingClient) -> None:
    with pytest.raises(ModelError, match="blank"):
        client.publish(" ", "x")


def test_a_registry_that_cannot_be_reached_is_a_time_out() -> None:
    with connect_blocking(free_address(), options=ClientOptions(request_seconds=0.3)) as client:
        assert client.state is ClientState.CONNECTING
        with pytest.raises(RequestTimeout, match="no session server answered"):
            client.get("x")


def test_a_closed_client_refuses_every_call(dev: DevServer) -> None:
    client = connect_blocking(dev.session_address)
    client.close()
    client.close()
    with pytest.raises(ClientClosed):
        client.publish("x", "y")
