"""An event loop on virtual time: when nothing is ready, it jumps to the time of the next timer.

Hours of a cluster take seconds, and a run depends only on its seed: there is no real I/O, no thread, no wall clock.
    With
the memory transport a whole cluster runs on it::

    async def main(rng: random.Random) -> None:
        clock = VirtualClock()
        ...

    run(main, seed=7)
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from slotreeve.clock import LoopClock, LoopTime

T = TypeVar("T")

START_SECONDS = 1_000.0
"""Time of the loop's clock at the start. It is not 0, which code may use for "never"."""
START_WALL_MS = 1_700_000_000_000
"""Result of :meth:`VirtualClock.wall_ms` at the start."""
LONGEST_RUN_SECONDS = 86_400.0
"""Virtual seconds after which a run counts as endless by default."""


class Deadlock(RuntimeError):
    """Nothing is scheduled and the main coroutine still waits. The message lists the waiting tasks."""


class EndlessRun(RuntimeError):
    """The main coroutine still waits at the end of its virtual time. The message lists the waiting tasks."""


class _Timeline(selectors.BaseSelector):
    """A selector that watches no file: instead of waiting it advances the time."""

    def __init__(self) -> None:
        self.now = START_SECONDS
        self.end = float("inf")
        self.after_turn: Callable[[], None] = lambda: None
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        # asyncio registers the pipe by which other threads wake it. There are none here.
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return self._keys[fd]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.after_turn()
        if timeout is None:
            raise Deadlock(
                "nothing is scheduled, so nothing can happen any more; these tasks wait:\n" + _waiting_tasks()
            )
        if timeout > 0:
            self.now += timeout
            if self.now > self.end:
                raise EndlessRun(
                    f"{self.now - START_SECONDS:g} virtual seconds have passed; these tasks wait:\n{_waiting_tasks()}"
                )
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop on virtual time, which starts at :data:`START_SECONDS`. It waits for no thread or
    socket."""

    def __init__(self) -> None:
        self._timeline = _Timeline()
        super().__init__(self._timeline)

    def time(self) -> float:
        """Virtual seconds."""
        return self._timeline.now

    def end_after(self, seconds: float) -> None:
        """Raise :class:`EndlessRun` after so many virtual seconds from now."""
        self._timeline.end = self._timeline.now + seconds

    def after_every_turn(self, look: Callable[[], None]) -> None:
        """Call ``look`` after every turn of this loop from now on. An error that it raises ends the run."""
        self._timeline.after_turn = look

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Refused, because a thread takes real time.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(f"{func!r} would run in a thread, which virtual time cannot wait for")


class VirtualClock(LoopClock):
    """A node's clock on virtual time. Its wall clock is wrong by ``wall_skew_ms``."""

    def __init__(self, loop: LoopTime | None = None, wall_skew_ms: int = 0) -> None:
        super().__init__(loop)
        self._wall_skew_ms = wall_skew_ms

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as if the run had begun at :data:`START_WALL_MS`."""
        return START_WALL_MS + int((self.now() - START_SECONDS) * 1000) + self._wall_skew_ms


def run(
    main: Callable[[random.Random], Coroutine[Any, Any, T]],
    seed: int = 0,
    longest_run_seconds: float = LONGEST_RUN_SECONDS,
) -> T:
    """Run ``main(rng)`` to its end on a new virtual loop and return its result. ``rng`` is seeded with ``seed``.

    The same seed gives the same run if all random numbers come from ``rng`` and all time from the loop.

    Raises:
        Deadlock: nothing is scheduled while ``main`` still waits.
        EndlessRun: ``main`` still waits after ``longest_run_seconds`` of virtual time.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        loop.end_after(longest_run_seconds)
        try:
            return runner.run(main(random.Random(seed)))
        finally:
            loop.end_after(float("inf"))


def _waiting_tasks() -> str:
    lines = []
    for task in sorted(asyncio.all_tasks(asyncio.get_running_loop()), key=lambda t: t.get_name()):
        frames = task.get_stack(limit=1)
        where = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not started"
        lines.append(f"  {task.get_name()} at {where} in {task.get_coro()!r}")
    return "\n".join(lines) or "  no task"
