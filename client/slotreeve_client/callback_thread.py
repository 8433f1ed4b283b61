"""The thread on which the callbacks of a blocking client run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from slotreeve_client.callbacks import CallbackRunner
from slotreeve_client.lateness import CallbackLateness


class CallbackThread:
    """Runs functions of the user one after the other, in a daemon thread of its own.

    A slow function delays only other functions of the user: not the client's pings, nor its registrations. Any
    exception, ``SystemExit`` too, is logged and counted as a failure of the function. Any thread may call any method.

    Args:
        now: a monotonic clock that any thread may read, in seconds.

    Attributes:
        runner: runs them and counts.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.runner = CallbackRunner(now, (BaseException,))
        self._late = CallbackLateness(now)
        self._changed = threading.Condition()
        self._waiting: OrderedDict[object, tuple[str, Callable[[], None]]] = OrderedDict()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="slotreeve callbacks", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of functions that wait for their turn."""
        return len(self._waiting)

    def submit(self, key: object, label: str, function: Callable[[], None]) -> None:
        """Run ``function`` after what waits already. It takes the place of a waiting one with the same ``key``.
        ``label`` is for the log. Does nothing after :meth:`close`."""
        with self._changed:
            if not self._closed:
                self._late.waits(key)
                self._waiting[key] = (label, function)
                self._changed.notify()

    def late_seconds(self) -> float:
        """How late the functions were lately, in seconds; see CallbackLateness.seconds."""
        with self._changed:
            return self._late.seconds()

    def close(self) -> None:
        """Take no further function. What waits still runs; this method does not wait for it, so that a callback may
        call it too."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                key, (label, function) = self._waiting.popitem(last=False)
                self._late.begins(key)
            self.runner.run(label, function)
            with self._changed:
                self._late.ends()
