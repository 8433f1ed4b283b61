"""What ``slotreeve doctor`` examines: configurations and installed plugins; and how it waits for what may block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from slotreeve.catalogue import Catalogue
    from slotreeve_servers.launch import Launcher
    from slotreeve_servers.settings import ServerConfiguration

T = TypeVar("T")


@dataclass(frozen=True)
class Case:
    """A configuration that was read: its name for people, or why it could not be read."""

    name: str
    configuration: ServerConfiguration | None = None
    problem: str = ""


@dataclass
class Patient:
    """What is examined.

    Attributes:
        cases: the configurations.
        catalogue: the installed plugins; None where they cannot be used.
        problem: why they cannot.
    """

    cases: list[Case]
    catalogue: Catalogue | None = None
    problem: str = ""
    good: list[Case] = field(default_factory=list)
    """The configurations with which servers would start, once they were looked at."""

    def launchers(self) -> Iterator[tuple[ServerConfiguration, Launcher]]:
        """What would start the servers of each good configuration."""
        import random

        from slotreeve.clock import MachineClock
        from slotreeve_servers.launch import Launcher

        for case in self.good:
            if case.configuration is not None and self.catalogue is not None:
                launcher = Launcher(case.configuration, self.catalogue, MachineClock(), random.Random(0))
                yield case.configuration, launcher


async def in_thread(look: Callable[[], T]) -> T:
    """What a function returns that may block for good, such as one on a network's file system: the process ends without
    waiting for it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.done():
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]  # of two arguments one is given

    def run() -> None:
        result, failure = None, None
        try:
            result = look()
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await done
