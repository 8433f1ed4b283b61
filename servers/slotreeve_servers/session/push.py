"""Pushing one service to its subscribers (original: ``ChangeProcessor``, ``PushTaskBuffer``, ``PushProcessor``).

The first change of a quiet service leaves when the turn of the event loop ends. After a push further changes
coalesce for a window that grows with what the push cost, up to a ceiling; only the newest state is kept. Departure
from the original, which has one push in flight: a connection keeps order and loses nothing while it lives, so each
push goes on from the last one sent, and receipts only bound how many are on their way. Who lags gets one merged delta,
or everything. Each frame is encoded once and shared.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping

from slotreeve.clock import Clock
from slotreeve.errors import ConnectionLost, TransportError
from slotreeve.model.datum import NO_VERSION, content_digest, with_change
from slotreeve.model.publisher import Publisher
from slotreeve_events.log import EventLog
from slotreeve_protocol.client_messages import Push, PushReceipt, Scope
from slotreeve_protocol.codec import encode_message

from slotreeve_servers.session.clients import ConnectedClient
from slotreeve_servers.session.datum import DatumView
from slotreeve_servers.session.settings import SessionSettings

log = logging.getLogger("slotreeve.push")

HISTORY = 16
IN_FLIGHT = 64
COST_FACTOR = 5.0
"""The window is this many times what the last push cost: a service takes at most a sixth of one processor."""


class Subscriber:
    """One client's subscription.

    Attributes:
        version: of the last push sent to it.
        in_flight: versions of the pushes it has not told the receipt of, in order.
        whole: version of the last push that was everything.
    """

    __slots__ = ("client", "in_flight", "version", "whole")

    def __init__(self, client: ConnectedClient) -> None:
        self.client = client
        self.version = NO_VERSION
        self.in_flight: list[int] = []
        self.whole = NO_VERSION


class PushGroup:
    """The subscribers of one service under one scope.

    Invariant: a subscriber at ``history[i].from_version`` or later is brought to ``version`` by the steps from ``i``
    on, merged: steps carry whole records, so applying one twice changes nothing.
    """

    def __init__(
        self,
        data_info_id: str,
        scope: Scope,
        zone: str,
        view: DatumView,
        clock: Clock,
        rules: SessionSettings,
        may_push: Callable[[ConnectedClient], bool],
        events: EventLog | None = None,
    ) -> None:
        self._data_info_id, self._scope, self._zone, self._view = data_info_id, scope, zone, view
        self._clock, self._rules, self._may_push, self._events = clock, rules, may_push, events
        self.subscribers: dict[ConnectedClient, Subscriber] = {}
        self.pushes = 0
        self._version = view.version
        self._digest = content_digest(self._records()) if scope is Scope.ZONE else 0
        self._pending: dict[str, Publisher | None] = {}
        self._history: deque[tuple[int, dict[str, Publisher | None]]] = deque(maxlen=HISTORY)
        self._frames: dict[int, tuple[bytes, int]] = {}
        self._window = rules.push_window_seconds
        self._last_push = -float("inf")
        self._scheduled = False
        self._unanswered = False

    def _records(self) -> list[Publisher]:
        """What the scope lets through of the present state."""
        records = self._view.records.values()
        if self._scope is Scope.ZONE:
            return [record for record in records if record.zone == self._zone]
        return list(records)

    def subscribe(self, client: ConnectedClient, known_version: int, known_digest: int) -> None:
        """Push to ``client`` from now on; at once where there is something to push."""
        subscriber = self.subscribers[client] = Subscriber(client)
        if self._view.version == NO_VERSION:
            self._unanswered = True
            return
        if known_version != NO_VERSION and known_digest == self._present_digest() and self._may_push(client):
            self._deliver(subscriber, self._encode(known_version, {}), self._view.version)
        else:
            self._push(subscriber)

    def _present_digest(self) -> int:
        return self._digest if self._scope is Scope.ZONE else self._view.digest

    def note(self, before: Mapping[str, Publisher], step: Mapping[str, Publisher | None]) -> None:
        """The view moved by ``step``, from ``before`` (the old records that the step touched)."""
        for register_id, record in step.items():
            if self._scope is Scope.ZONE:
                old = before.get(register_id)
                old = old if old is not None and old.zone == self._zone else None
                record = record if record is not None and record.zone == self._zone else None
                if old is None and record is None:
                    continue
                self._digest = with_change(self._digest, old, record)
            self._pending[register_id] = record
        if (self._pending or self._unanswered) and not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        wait = self._last_push + self._window - self._clock.now()
        if wait <= 0:
            self._clock.call_soon(self._fire)
        else:
            self._clock.call_later(wait, self._fire)

    def _fire(self) -> None:
        self._scheduled = self._unanswered = False
        began = self._clock.now()
        if self._events is not None:
            self._events.pushed(self._data_info_id, self._pending, len(self.subscribers))
        self._history.append((self._version, self._pending))
        self._pending = {}
        self._version = self._view.version
        self._frames.clear()
        for subscriber in list(self.subscribers.values()):
            if len(subscriber.in_flight) < IN_FLIGHT:
                self._push(subscriber)
        self._last_push = self._clock.now()
        cost = COST_FACTOR * (self._last_push - began)
        self._window = min(self._rules.push_ceiling_seconds, max(self._rules.push_window_seconds, cost))

    def acknowledged(self, client: ConnectedClient, receipt: PushReceipt) -> None:
        """``client`` has told a receipt."""
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
        """Pushing was stopped for some, and may go on."""
        for subscriber in list(self.subscribers.values()):
            if self._view.version != NO_VERSION and len(subscriber.in_flight) < IN_FLIGHT:
                self._push(subscriber)

    def _push(self, subscriber: Subscriber) -> None:
        """Bring one subscriber forward: to the present state, or to that of the frame already encoded since the last
        fire. In the second case a fire is scheduled that brings it the rest."""
        if subscriber.version >= self._view.version or not self._may_push(subscriber.client):
            return
        start = NO_VERSION if subscriber.version == NO_VERSION else self._oldest_step(subscriber.version)
        encoded = self._frames.get(start)
        if encoded is None or encoded[1] <= subscriber.version:
            steps = self._merged(start) if start != NO_VERSION else None
            encoded = self._frames[start] = (self._encode(start, steps), self._view.version)
        frame, version = encoded
        if start == NO_VERSION:
            subscriber.whole = version
        self._deliver(subscriber, frame, version)

    def _deliver(self, subscriber: Subscriber, frame: bytes, version: int) -> None:
        try:
            subscriber.client.connection.send_encoded(frame)
        except ConnectionLost:
            return  # its closed event is on its way
        except TransportError as error:
            log.warning("subscriber %s does not keep up: %s", subscriber.client.connection.peer.node, error)
            subscriber.client.connection.close("it does not read its pushes; it may come back and ask anew")
            return
        subscriber.version = version
        subscriber.in_flight.append(version)
        self.pushes += 1

    def _oldest_step(self, version: int) -> int:
        """Version from which the history leads on for a subscriber at ``version``; NO_VERSION: too far behind."""
        start = NO_VERSION
        for from_version, _ in self._history:
            if NO_VERSION < from_version <= version:
                start = from_version
        return start or NO_VERSION

    def _merged(self, start: int) -> dict[str, Publisher | None]:
        merged: dict[str, Publisher | None] = {}
        for from_version, step in self._history:
            if from_version >= start:
                merged.update(step)
        merged.update(self._pending)
        return merged

    def _encode(self, start: int, step: Mapping[str, Publisher | None] | None) -> bytes:
        """The push from ``start`` to the present state; ``step`` None: everything."""
        if step is None:
            changed, removed = self._records(), []
        else:
            changed = [record for record in step.values() if record is not None]
            removed = [register_id for register_id, record in step.items() if record is None]
        version, digest = self._view.version, self._present_digest()
        return encode_message(Push(self._data_info_id, self._scope, start, version, digest, changed, removed))
