"""One service that is pushed to its subscribers, for tests."""

from __future__ import annotations

from slotreeve.model.datum import content_digest
from slotreeve.model.nodes import Role
from slotreeve.model.publisher import Publisher
from slotreeve_protocol.client_messages import Push, PushReceipt, Scope
from slotreeve_protocol.datum_copy import DatumCopy, Fit
from slotreeve_protocol.slot_messages import DatumChange
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.push.push import (
    PushGroup,
    PushRules,
)
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.recording_outbox import RecordingOutbox, a_peer


def record(register_id: str, data: bytes = b"x", zone: str = "") -> Publisher:
    return Publisher(register_id, "s", 1, 1, "session-1@1", zone, (data,))


class Scene:
    """One service on a session server of zone ``here``, and the slot's leader that announces its changes."""

    def __init__(self, scope: Scope = Scope.DATA_CENTER) -> None:
        self.outbox, self.orders, self.copy = RecordingOutbox(), OrdersInForce("session-1"), DatumCopy("here")
        due = DuePushes(self.outbox, self.orders)
        self.rules = PushRules(self.outbox, SessionSettings(), "here", self.orders, None, None, due)
        self.group = PushGroup("s", scope, self.copy, self.rules)
        self.truth: dict[str, Publisher] = {}
        self.version = 0

    def change(self, *records: Publisher, removed: tuple[str, ...] = (), whole: bool = False) -> None:
        """The leader announces that these records came and went."""
        start, self.version = self.version, self.version + 1
        self.truth |= {r.register_id: r for r in records}
        for key in removed:
            self.truth.pop(key, None)
        changed = list(self.truth.values()) if whole else list(records)
        digest = content_digest(self.truth.values())
        delta = DatumChange("s", 0 if whole else start, self.version, digest, changed, [] if whole else [*removed])
        step = self.copy.apply(delta)
        assert step is not None
        self.group.note(step)

    def subscribe(self, name: str, version: int = 0, digest: int = 0) -> ConnectedClient:
        client = ConnectedClient(a_peer(name, Role.CLIENT))
        self.group.subscribe(client, version, digest)
        return client

    def pushes(self, client: ConnectedClient) -> list[Push]:
        self.outbox.end_turn()
        found = [m for m in self.outbox.messages(Push, client.peer) if isinstance(m, Push)]
        self.outbox.take()
        return found

    def receipt(self, client: ConnectedClient, received: int, version: int | None = None, parts: int = 0) -> None:
        at = received if version is None else version
        self.group.acknowledged(client, PushReceipt("s", Scope.DATA_CENTER, received, at, parts))


class Mirror:
    """A subscriber: applies pushes as a client does."""

    def __init__(self) -> None:
        self.copy = DatumCopy()

    def take(self, push: Push) -> None:
        fit = self.copy.fit(push)
        if fit is Fit.NEXT:
            assert self.copy.apply(push) is not None
        elif fit is Fit.PART:
            self.copy.gather(push)
        else:
            assert fit is Fit.STALE, "a gap"
