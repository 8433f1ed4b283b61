"""Changes as they come, printed until there were enough of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PrintedChanges:
    """What the callbacks of a command print.

    Args:
        most: after so many changes it is enough; None: never.
        stopping: is set then, and where the output takes no more.
    """

    def __init__(self, most: int | None, stopping: asyncio.Event) -> None:
        self._left, self._stopping = most, stopping
        self._error: OSError | None = None

    def add(self, output: Callable[[], None]) -> None:
        """A change has come: ``output`` prints it. Raises nothing: what calls callbacks would only write it down."""
        if self._left == 0:
            return
        try:
            output()
        except OSError as error:
            self._error, self._left = error, 0
        else:
            self._left = None if self._left is None else self._left - 1
        if self._left == 0:
            self._stopping.set()

    def check(self) -> None:
        """Raises OSError: nobody reads the output any more, or its disk is full."""
        if self._error is not None:
            raise self._error
