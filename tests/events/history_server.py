"""A dumb server that writes a history, and remembers what a service was."""

from __future__ import annotations

from pathlib import Path

from slotreeve.model.publisher import Publisher
from slotreeve_events import schema
from slotreeve_events.changed_services import ChangedServices, HeldRecords
from slotreeve_events.history_files import HistoryFiles
from slotreeve_events.schema import HistoryNote
from slotreeve_events.settings import HistorySettings
from slotreeve_protocol.history_messages import KnownState

A, B = "com.example.A#@#i#@#g", "com.example.B#@#i#@#g"
START = 1_700_000_000_000
FAR = 1 << 62


class Server:
    """A dumb leader of one slot: it stores, and remembers all states."""

    def __init__(self, directory: Path, rules: HistorySettings | None = None, now_ms: int = START) -> None:
        self.directory, self.rules = directory, rules or HistorySettings()
        self.files = HistoryFiles(directory, self.rules, now_ms)
        self.changed = ChangedServices()
        self.services: dict[str, dict[str, Publisher]] = {}
        self.states: list[tuple[int, str, dict[str, tuple[bytes, ...]]]] = []
        self.version = 0

    def put(self, at_ms: int, name: str, service: str = A, content: bytes = b"x") -> None:
        self.version += 1
        record = Publisher(name, service, self.version, 1, "s@1", "", (b"%d " % self.version + content,))
        self.changed.comes(record, HeldRecords(self.services, 1), at_ms)
        self.services.setdefault(service, {})[name] = record
        self._remember(at_ms, service)

    def end(self, at_ms: int, name: str, service: str = A) -> None:
        self.changed.ends(service, name, HeldRecords(self.services, 1), at_ms, "it ended")
        self.services.get(service, {}).pop(name, None)
        self._remember(at_ms, service)

    def _remember(self, at_ms: int, service: str) -> None:
        self.states.append((at_ms, service, {n: r.data or () for n, r in self.services.get(service, {}).items()}))

    def write(self, now_ms: int, events: list[HistoryNote] | None = None) -> None:
        if self.files.write(now_ms, self.changed.take(10_000), events or []):
            self.changed.begin_anew()

    def restart(self, now_ms: int) -> None:
        self.files.close()
        self.files = HistoryFiles(self.directory, self.rules, now_ms)
        self.changed.begin_anew()

    def known(self, at_ms: int, service: str = A) -> dict[str, tuple[bytes, ...]]:
        found = self.files.state(service, at_ms)
        is_now = found.known in (KnownState.AS_NOW, KnownState.NOTHING)
        records = self.services.get(service, {}).values() if is_now else found.records
        return {record.register_id: record.data or () for record in records}

    def was(self, at_ms: int, service: str = A) -> dict[str, tuple[bytes, ...]]:
        return next((s for at, name, s in reversed(self.states) if name == service and at <= at_ms), {})


def event(at_ms: int, kind: str = "alarm", reason: str = "") -> HistoryNote:
    return HistoryNote(schema.VERSION, f"x@1/{at_ms}", at_ms, "x", kind, reason=reason)
