"""The thread on which the callbacks of a blocking client run."""

from __future__ import annotations

import threading
import time

import pytest
from slotreeve_client.callback_thread import CallbackThread

SOON = 10.0


def test_functions_run_in_order_and_a_newer_one_of_the_same_key_takes_the_place_of_a_waiting_one() -> None:
    thread = CallbackThread(time.monotonic)
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()
    called: list[str] = []

    def first() -> None:
        begun.set()
        assert go_on.wait(SOON)

    thread.submit("first", "the first", first)
    assert begun.wait(SOON)
    for key, name in (("a", "old a"), ("b", "b"), ("a", "new a")):
        thread.submit(key, name, lambda name=name: called.append(name))  # type: ignore[misc]
    thread.submit("last", "the last", done.set)
    assert thread.waiting == 3
    go_on.set()
    assert done.wait(SOON)
    assert called == ["new a", "b"]
    thread.close()


@pytest.mark.parametrize("error", [ValueError("a defect"), SystemExit(1), KeyboardInterrupt()])
def test_any_exception_is_logged_and_the_thread_goes_on(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    thread = CallbackThread(time.monotonic)
    done = threading.Event()

    def broken() -> None:
        raise error

    thread.submit(1, "the watcher", broken)
    thread.submit(2, "another", done.set)
    assert done.wait(SOON)
    assert thread.runner.failures == 1
    assert "the callback of the watcher failed" in caplog.text
    thread.close()


def test_what_waits_at_the_end_runs_and_nothing_is_taken_after_it() -> None:
    thread = CallbackThread(time.monotonic)
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert go_on.wait(SOON)
        thread.close()

    thread.submit(1, "the first", first)
    thread.submit(2, "the last", done.set)
    assert begun.wait(SOON)
    thread.close()
    thread.submit(3, "too late", lambda: None)
    assert thread.waiting == 1
    go_on.set()
    assert done.wait(SOON)
