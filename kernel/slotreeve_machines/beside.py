"""Where pure functions run that may take long: in a thread beside the event loop, or on the loop in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

from slotreeve.clock import Clock

Work = Callable[[], object]
"""A pure function. It must touch nothing that the event loop changes meanwhile."""
Worked = Callable[[object, Exception | None], None]
"""Is called on the event loop with the result of the work, or with the error that it raised."""


class Beside(Protocol):
    """Runs work beside one event loop."""

    def run(self, work: Work, worked: Worked) -> None:
        """Begin ``work``. ``worked`` is called once, on a later turn of the event loop, and never if the work does not
        come to an end."""


class InThread:
    """Each piece of work has a thread of its own, which does not keep the process from ending. Python lets threads take
    turns every few milliseconds, so that the event loop goes on, unless the work is in a library that does not let
    go."""

    def run(self, work: Work, worked: Worked) -> None:
        """See :class:`Beside`."""
        loop = asyncio.get_running_loop()

        def body() -> None:
            result: object = None
            error: Exception | None = None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - whoever waits for the result is given it
                error = raised if isinstance(raised, Exception) else RuntimeError(f"it has raised {raised!r}")
            try:
                loop.call_soon_threadsafe(worked, result, error)
            except RuntimeError:
                return  # the event loop has ended, and nobody waits

        try:
            threading.Thread(target=body, name="beside the event loop", daemon=True).start()
        except RuntimeError as refused:  # this process may start no thread now
            loop.call_soon(worked, None, refused)


class InTurn:
    """The work is done on the event loop, at its next turn: a loop on virtual time cannot wait for a thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def run(self, work: Work, worked: Worked) -> None:
        """See :class:`Beside`."""

        def body() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - whoever waits for the result is given it
                worked(None, error)
            else:
                worked(result, None)

        self._clock.call_soon(body)
