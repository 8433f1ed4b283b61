"""An election whose leader and meta state the test sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotreeve.ports import Leadership, Versioned


class ScriptedState:
    """A meta state in memory; implements MetaState."""

    def __init__(self) -> None:
        self.values: dict[str, Versioned] = {}
        self._watchers: list[Callable[[str, Versioned], None]] = []

    def read(self, key: str) -> Versioned | None:
        return self.values.get(key)

    def keys(self) -> Sequence[str]:
        return sorted(self.values)

    def store(self, key: str, value: bytes, term: int = 1) -> Versioned:
        old = self.values.get(key)
        stored = self.values[key] = Versioned(value, 1 if old is None else old.version + 1, term)
        for watcher in self._watchers:
            watcher(key, stored)
        return stored

    async def write(self, key: str, value: bytes, expected_version: int | None, term: int) -> int:
        return self.store(key, value, term).version

    def watch(self, changed: Callable[[str, Versioned], None]) -> Callable[[], None]:
        self._watchers.append(changed)
        return lambda: self._watchers.remove(changed)


class ScriptedElection:
    """Implements Election; ``current`` is what it reports."""

    def __init__(self) -> None:
        self.current = Leadership(None, 0, False, 0.0, "not started")
        self._state = ScriptedState()

    @property
    def state(self) -> ScriptedState:
        return self._state

    def leadership(self) -> Leadership:
        return self.current

    async def start(self, changed: Callable[[Leadership], None]) -> None:
        """Nothing to start."""

    async def resign(self) -> None:
        self.current = Leadership(None, self.current.term, False, 0.0, "resigned")

    async def stop(self) -> None:
        """Nothing to stop."""
