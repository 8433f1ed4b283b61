"""Pushing one service to its subscribers (original: ``ChangeProcessor``, ``PushTaskBuffer``, ``PushProcessor``).

The first change of a quiet service is pushed when the turn of the event loop ends. After a push further changes
coalesce for a window that grows with what the push cost, up to a ceiling; only the newest state is kept. Departure from
the original, which has one push in flight: a connection keeps order and loses nothing while it lives, so each push goes
on from the last one sent, and receipts only bound how many are on their way. A subscriber that lags gets one merged
delta, or the whole service. Each frame is encoded once and shared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from slotreeve.model.datum import NO_VERSION, content_digest, with_change
from slotreeve.model.publisher import Publisher
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import Push, PushReceipt, Scope
from slotreeve_protocol.codec import encode_message
from slotreeve_protocol.datum_copy import DatumCopy, Step

from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.orders import OrdersInForce
from slotreeve_servers.session.settings import SessionSettings

HISTORY = 16
IN_FLIGHT = 64
COST_FACTOR = 5.0
"""The window is this many times what the last push cost: a service takes at most a sixth of one processor."""

Records = dict[str, Publisher | None]
"""New records by register id; None for one that went away."""


@dataclass(frozen=True, slots=True)
class PushRules:
    """What all push groups of a session server share.

    Attributes:
        zone: the session server's zone.
        orders: the operator's orders, which may stop pushes.
        events: the event log, where one is written.
    """

    outbox: Outbox
    settings: SessionSettings
    zone: str
    orders: OrdersInForce
    events: EventLog | None = None


class Subscriber:
    """One client's subscription.

    Attributes:
        version: version of the last push that was sent to it.
        in_flight: versions of the pushes whose receipt has not arrived, in order.
        whole: version of the last push that carried the whole service.
    """

    __slots__ = ("client", "in_flight", "version", "whole")

    def __init__(self, client: ConnectedClient) -> None:
        self.client = client
        self.version = NO_VERSION
        self.in_flight: list[int] = []
        self.whole = NO_VERSION


class PushGroup:
    """The subscribers of one service under one scope.

    Invariant: the steps of the history from ``i`` on, merged, bring a subscriber at ``history[i].from_version`` or
    later to ``version``: steps carry whole records, so that applying one twice changes nothing.

    Attributes:
        subscribers: by client, in the order in which they subscribed.
        pushes: pushes sent since the group was made.
    """

    def __init__(self, data_info_id: str, scope: Scope, copy: DatumCopy, rules: PushRules) -> None:
        self._data_info_id, self._scope, self._copy = data_info_id, scope, copy
        self._outbox, self._settings, self._zone = rules.outbox, rules.settings, rules.zone
        self._orders, self._events = rules.orders, rules.events
        self.subscribers: dict[ConnectedClient, Subscriber] = {}
        self.pushes = 0
        self._version = copy.version
        self._digest = content_digest(self._records()) if scope is Scope.ZONE else 0
        self._pending: Records = {}
        self._history: deque[tuple[int, Records]] = deque(maxlen=HISTORY)
        self._frames: dict[int, tuple[bytes, int]] = {}
        self._window = rules.settings.push_window_seconds
        self._last_push = -float("inf")
        self._scheduled = False
        self._unanswered = False

    def _records(self) -> list[Publisher]:
        """The records of the present state that the scope covers."""
        records = self._copy.records.values()
        if self._scope is Scope.ZONE:
            return [record for record in records if record.zone == self._zone]
        return list(records)

    def subscribe(self, client: ConnectedClient, known_version: int, known_digest: int) -> None:
        """Push to ``client`` from now on; at once where there is something to push."""
        subscriber = self.subscribers[client] = Subscriber(client)
        if self._copy.version == NO_VERSION:
            self._unanswered = True
            return
        if (
            known_version != NO_VERSION
            and known_digest == self._present_digest()
            and self._orders.may_push(client.peer)
        ):
            self._deliver(subscriber, self._encode(known_version, {}), self._copy.version)
        else:
            self._push(subscriber)

    def _present_digest(self) -> int:
        return self._digest if self._scope is Scope.ZONE else self._copy.digest

    def note(self, step: Step) -> None:
        """The copy has moved by ``step``; push that when the window is over."""
        for register_id, (old, new) in step.items():
            if self._scope is Scope.ZONE:
                old = old if old is not None and old.zone == self._zone else None
                new = new if new is not None and new.zone == self._zone else None
                if old is None and new is None:
                    continue
                self._digest = with_change(self._digest, old, new)
            self._pending[register_id] = new
        if (self._pending or self._unanswered) and not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        wait = self._last_push + self._window - self._outbox.now()
        if wait <= 0:
            self._outbox.at_turns_end(self._fire)
        else:
            self._outbox.after(wait, self._fire)

    def _fire(self) -> None:
        self._scheduled = self._unanswered = False
        began = self._outbox.now()
        if self._events is not None:
            self._events.pushed(self._data_info_id, self._pending, len(self.subscribers))
        self._history.append((self._version, self._pending))
        self._pending = {}
        self._version = self._copy.version
        self._frames.clear()
        for subscriber in list(self.subscribers.values()):
            if len(subscriber.in_flight) < IN_FLIGHT:
                self._push(subscriber)
        self._last_push = self._outbox.now()
        cost = COST_FACTOR * (self._last_push - began)
        self._window = min(self._settings.push_ceiling_seconds, max(self._settings.push_window_seconds, cost))

    def acknowledged(self, client: ConnectedClient, receipt: PushReceipt) -> None:
        """A receipt of ``client`` has arrived: more pushes may go out to it."""
        subscriber = self.subscribers.get(client)
        if subscriber is None:
            return
        in_flight = subscriber.in_flight
        del in_flight[: bisect_right(in_flight, receipt.received)]
        if receipt.version == NO_VERSION and receipt.received >= subscriber.whole:
            subscriber.version = NO_VERSION
        if subscriber.version < self._version:
            self._push(subscriber)

    def resume(self) -> None:
        """The orders have changed: push what was held back."""
        for subscriber in list(self.subscribers.values()):
            if self._copy.version != NO_VERSION and len(subscriber.in_flight) < IN_FLIGHT:
                self._push(subscriber)

    def _push(self, subscriber: Subscriber) -> None:
        """Bring one subscriber forward: to the present state, or to the state of a frame that was encoded since the
        last fire. In the second case the next fire, which is scheduled, brings it the rest."""
        if subscriber.version >= self._copy.version or not self._orders.may_push(subscriber.client.peer):
            return
        start = NO_VERSION if subscriber.version == NO_VERSION else self._oldest_step(subscriber.version)
        encoded = self._frames.get(start)
        if encoded is None or encoded[1] <= subscriber.version:
            steps = self._merged(start) if start != NO_VERSION else None
            encoded = self._frames[start] = (self._encode(start, steps), self._copy.version)
        frame, version = encoded
        if start == NO_VERSION:
            subscriber.whole = version
        self._deliver(subscriber, frame, version)

    def _deliver(self, subscriber: Subscriber, frame: bytes, version: int) -> None:
        if self._outbox.send_encoded(subscriber.client.peer, frame, "Push"):
            subscriber.version = version
            subscriber.in_flight.append(version)
            self.pushes += 1

    def _oldest_step(self, version: int) -> int:
        """The version from which the history continues for a subscriber at ``version``; NO_VERSION: it is too far
        behind."""
        start = NO_VERSION
        for from_version, _ in self._history:
            if NO_VERSION < from_version <= version:
                start = from_version
        return start or NO_VERSION

    def _merged(self, start: int) -> Records:
        merged: Records = {}
        for from_version, step in self._history:
            if from_version >= start:
                merged.update(step)
        merged.update(self._pending)
        return merged

    def _encode(self, start: int, step: Records | None) -> bytes:
        """The push from ``start`` to the present state; ``step`` None: the whole service."""
        if step is None:
            changed, removed = self._records(), []
        else:
            changed = [record for record in step.values() if record is not None]
            removed = [register_id for register_id, record in step.items() if record is None]
        version, digest = self._copy.version, self._present_digest()
        return encode_message(Push(self._data_info_id, self._scope, start, version, digest, changed, removed))
