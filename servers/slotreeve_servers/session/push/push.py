"""Pushing one service to its subscribers (original: ``ChangeProcessor``, ``PushTaskBuffer``, ``PushProcessor``).

The first change of a quiet service is pushed when the turn of the event loop ends. After a push further changes
coalesce for a window that grows with what the push cost, up to a ceiling; only the newest state is kept. Departure from
the original, which has one push in flight: a connection keeps order and loses nothing while it lives, so each push goes
on from the last one sent, and receipts only bound how many are on their way. A subscriber that lags gets one merged
delta, or the whole service. Each frame is encoded once and shared.

A large push goes out in parts, each after the receipts of the parts before it, so that a session server does not hold a
large service in the queue of each subscriber, and other services get their turn in between. The pushes that go on from
it do not wait for its parts (:class:`slotreeve_protocol.datum_copy.GatheredParts`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from slotreeve.model.datum import NO_VERSION
from slotreeve.model.publisher import Publisher
from slotreeve_events.history import ServerHistory
from slotreeve_events.log import MOST_CHANGES, EventLog
from slotreeve_protocol.client_messages import PushReceipt, Scope
from slotreeve_protocol.datum_copy import DatumCopy, Step

from slotreeve_servers.node.outbox import Outbox
from slotreeve_servers.node.timings import LATELY_SECONDS
from slotreeve_servers.session.clients.clients import ConnectedClient
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.push.due_pushes import DuePushes
from slotreeve_servers.session.push.push_delays import RECEIPT_PAUSE_SECONDS, PushDelays
from slotreeve_servers.session.push.push_frames import PushFrames
from slotreeve_servers.session.push.subscriber import Subscriber
from slotreeve_servers.session.settings import SessionSettings

HISTORY = 32
"""Most steps of the history. It holds no more changes than the service has records, or this many."""
IN_FLIGHT = 64
PARTS_IN_FLIGHT = 2
"""Parts of one push to one subscriber whose receipts have not arrived."""
MANY_SUBSCRIBERS = 50
"""For so many, what a push costs includes that its frames are written, at the end of the turn."""
COST_FACTOR = 5.0
"""The window is this many times what the last push cost: a service takes at most a sixth of one processor."""

Pushed = tuple[float, float, float]
"""Of one push: when it was; how long its oldest change took to this server; and how long it waited here; in seconds."""
Records = dict[str, Publisher | None]
"""New records by register id; None for one that went away."""


@dataclass(slots=True)
class PushRules:
    """What all push groups of a session server share.

    Attributes:
        settings: the rules, which the operator may change.
        zone: the session server's zone.
        orders: the operator's orders, which may stop pushes.
        events: the event log, where one is written. ``history``: what the server keeps of the past, if it does.
        due: the pushes that wait for the end of a turn.
        delays: how late the pushes are.
    """

    outbox: Outbox
    settings: SessionSettings
    zone: str
    orders: OrdersInForce
    events: EventLog | None
    history: ServerHistory | None
    due: DuePushes
    delays: PushDelays = field(default_factory=PushDelays)


class PushGroup:
    """The subscribers of one service under one scope.

    Invariant: the steps of the history from ``i`` on, merged, bring a subscriber at ``history[i].from_version`` or
    later to ``version``: steps carry whole records, so that applying one twice changes nothing.

    Attributes:
        subscribers: by client, in the order in which they subscribed.
        pushes: pushes sent since the group was made.
        last: the last push of changes to all. ``worst``: the one of the last minutes whose changes were the oldest.
    """

    __slots__ = (
        "_born",
        "_confirmation",
        "_copy",
        "_frames",
        "_history",
        "_history_changes",
        "_last_push",
        "_outbox",
        "_pending",
        "_rules",
        "_scheduled",
        "_scheduled_at",
        "_scope",
        "_unanswered",
        "_version",
        "_window",
        "data_info_id",
        "last",
        "pushes",
        "subscribers",
        "worst",
    )

    def __init__(self, data_info_id: str, scope: Scope, copy: DatumCopy, rules: PushRules) -> None:
        self.data_info_id, self._scope, self._copy = data_info_id, scope, copy
        self._rules, self._outbox = rules, rules.outbox
        self.subscribers: dict[ConnectedClient, Subscriber] = {}
        self.pushes = 0
        self._version = copy.version
        self._pending: Records = {}
        self._history: deque[tuple[int, Records]] | None = None
        self._history_changes = 0
        self._frames: dict[int, PushFrames] = {}
        # The last empty push that confirmed a copy, and the versions that it leads from and to: a herd shares it.
        self._confirmation: tuple[tuple[int, int], PushFrames] | None = None
        self._window = rules.settings.push_window_seconds
        self._last_push = -float("inf")
        self._scheduled = False
        self._scheduled_at = 0.0
        self._born = math.inf
        self.last: Pushed | None = None
        self.worst: Pushed | None = None
        self._unanswered = False

    def _records(self) -> list[Publisher]:
        """The records of the present state that the scope covers."""
        records = self._copy.records.values()
        if self._scope is Scope.ZONE:
            return [record for record in records if record.zone == self._rules.zone]
        return list(records)

    def subscribe(self, client: ConnectedClient, known_version: int, known_digest: int) -> None:
        """Push to ``client`` from now on; at the end of this turn or a later one where there is something to push."""
        if client in self.subscribers:
            self.unsubscribe(client)  # it subscribes again
        self.subscribers[client] = Subscriber(client, (known_version, known_digest), self)
        if self._copy.version == NO_VERSION:
            self._unanswered = True
        else:
            self._rules.due.add_subscriber(client, self)

    def unsubscribe(self, client: ConnectedClient) -> None:
        """No longer push to ``client``."""
        subscriber = self.subscribers.pop(client, None)
        if subscriber is not None:
            self._rules.due.left(client, self)
            if subscriber.behind_since is not None:
                self._rules.delays.forget(subscriber)

    def catch_up(self, client: ConnectedClient) -> None:
        """Push the present state to one subscriber, unless it has it, or too many pushes to it are on their way."""
        subscriber = self.subscribers.get(client)
        if subscriber is not None and len(subscriber.in_flight) < IN_FLIGHT:
            self._push(subscriber)

    def _present_digest(self) -> int:
        return self._copy.sums.in_zone if self._scope is Scope.ZONE else self._copy.digest

    def note(self, step: Step, born: float = math.inf) -> None:
        """The copy has moved by ``step``; push that when the window is over. ``born``: the birth of the change
        (:class:`slotreeve_servers.session.push.push_delays.PushDelays`), where it is known; else it is born now.

        Before the first push no delta can start here: then only the event log looks at the records, at a few of them.
        """
        self._unanswered |= self._version == NO_VERSION
        for register_id, (old, new) in step.items() if self._version else islice(step.items(), MOST_CHANGES):
            if self._scope is Scope.ZONE:
                old = old if old is not None and old.zone == self._rules.zone else None
                new = new if new is not None and new.zone == self._rules.zone else None
                if old is None and new is None:
                    continue
            self._pending[register_id] = new
        if self._pending and born < self._born:
            self._born = born
        if (self._pending or self._unanswered) and not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._scheduled_at = self._outbox.now()
        wait = self._last_push + self._window - self._scheduled_at
        if wait <= 0:
            self._rules.due.add(self)
        else:
            self._outbox.after(wait, self.fire)

    def fire(self) -> None:
        """Push the present state: the turn has ended, or the window is over."""
        self._scheduled = False
        if self._copy.version == NO_VERSION:
            return  # a gap: the whole service comes, and what waits goes out with it
        self._unanswered = False
        began = self._outbox.now()
        self._rules.delays.waits.took(began - self._scheduled_at)
        if self._rules.events is not None:
            self._rules.events.pushed(self.data_info_id, self._pending, len(self.subscribers))
        if self._rules.history is not None:
            waited = began - self._scheduled_at
            self._rules.history.pushed(self.data_info_id, len(self.subscribers), self._copy.version, waited)
        has_changes = False
        if self._version != NO_VERSION:
            self._add_step()
            has_changes = bool(self._pending)
        self._pending = {}
        self._version = self._copy.version
        self._forget_frames()
        born = min(self._scheduled_at, self._born)
        self._born = math.inf
        if has_changes:
            self._push_changes(began, born)
        else:
            for subscriber in list(self.subscribers.values()):
                if len(subscriber.in_flight) < IN_FLIGHT:
                    self._push(subscriber)
        self._set_window(began)
        if len(self.subscribers) >= MANY_SUBSCRIBERS:
            self._outbox.at_turns_end(partial(self._set_window, began))

    def _add_step(self) -> None:
        """What waits is the next step of the history. The oldest steps go where it has become too long, or has more
        changes than the service has records: then the whole service is less."""
        history = self._history
        if history is None:
            history = self._history = deque()
        history.append((self._version, self._pending))
        self._history_changes += len(self._pending)
        most = max(HISTORY, len(self._copy.records))
        while len(history) > HISTORY or self._history_changes > most:
            self._history_changes -= len(history.popleft()[1])

    def _push_changes(self, now: float, born: float) -> None:
        """Push the present state with its changes, of which the oldest was ``born`` then, and note how late that is."""
        delays, version, in_time = self._rules.delays, self._version, 0
        for subscriber in list(self.subscribers.values()):
            was_behind = subscriber.behind_since is not None
            if len(subscriber.in_flight) < IN_FLIGHT:
                self._push(subscriber)
            if was_behind:
                continue
            if subscriber.version >= version:
                in_time += 1
                if now >= delays.next_receipt_at:
                    delays.next_receipt_at = now + RECEIPT_PAUSE_SECONDS
                    subscriber.timed, subscriber.timed_at = version, now
            else:
                delays.falls_behind(subscriber, born)
        delays.pushed(now - born, in_time)
        arrived = self._scheduled_at
        self.last = pushed = (now, arrived - born, now - arrived)
        worst = self.worst
        if worst is None or now - born >= worst[1] + worst[2] or worst[0] < now - LATELY_SECONDS:
            self.worst = pushed

    def _set_window(self, began: float) -> None:
        """The last push began at this time, and is over now."""
        self._last_push = self._outbox.now()
        cost, settings = COST_FACTOR * (self._last_push - began), self._rules.settings
        self._window = min(settings.push_ceiling_seconds, max(settings.push_window_seconds, cost))

    def why_behind(self, subscriber: Subscriber) -> str:
        """Why this subscriber was not pushed to, for people."""
        rules, peer = self._rules, subscriber.client.peer
        if not rules.orders.may_push(peer):
            return "an order stops pushes to it"
        if self._copy.version == NO_VERSION:
            return "this server waits for the whole service from the leader of its slot"
        if not self._outbox.has_room(peer):
            return "its connection is full: it reads more slowly than its services change"
        if len(subscriber.in_flight) >= IN_FLIGHT:
            return f"it has not acknowledged {len(subscriber.in_flight)} pushes"
        if subscriber.parted is not None:
            return "parts of a large push are on their way to it"
        if subscriber.known[0] > self._copy.version:
            return "it has a newer copy from another session server, and this one has not got that yet"
        return "its push is due; this server is busy"

    def _forget_frames(self) -> None:
        """The frames do not lead to the present state any more. A whole service in parts is kept while the history goes
        on from it, because many who subscribe one after the other would else need as many of them in memory."""
        whole = self._frames.get(NO_VERSION)
        self._frames.clear()
        if whole is None or not whole.is_parted:
            return
        if whole.version == self._version or self._oldest_step(whole.version) != NO_VERSION:
            self._frames[NO_VERSION] = whole

    def acknowledged(self, client: ConnectedClient, receipt: PushReceipt, kept_seconds: float | None = None) -> None:
        """A receipt of ``client`` has arrived: more pushes may go out to it. ``kept_seconds``: for so long the client
        kept it; None: that is not known."""
        subscriber = self.subscribers.get(client)
        if subscriber is None:
            return
        if subscriber.timed and receipt.received >= subscriber.timed:
            subscriber.timed = NO_VERSION
            if kept_seconds is not None:
                passed = self._outbox.now() - subscriber.timed_at
                self._rules.delays.receipts.took(min(passed, max(0.0, passed - kept_seconds)))
        in_flight = subscriber.in_flight
        del in_flight[: bisect_right(in_flight, receipt.received)]
        if receipt.parts:
            self._send_parts(subscriber, min(receipt.parts, subscriber.sent))
        elif receipt.version == NO_VERSION and receipt.received >= subscriber.whole:
            subscriber.version = NO_VERSION
            subscriber.parted = None
        elif subscriber.parted is not None and receipt.version >= subscriber.parted.version:
            subscriber.parted = None  # the client has a newer state than its parts lead to
        if receipt.version > subscriber.version >= self._version:
            # The client has a newer state from the server that it came from. The copy may come to a later version
            # without a change of what it holds here, and yet the client lacks something.
            self._unanswered = True
            if self._copy.version >= receipt.version and not self._scheduled:
                self._schedule()
        if subscriber.version < self._version:
            self._push(subscriber)

    def _push(self, subscriber: Subscriber) -> None:
        """Bring one subscriber forward: to the present state, or to the state of a frame that was encoded since the
        last fire. In the second case the next fire, which is scheduled, brings it the rest."""
        rules, client = self._rules, subscriber.client
        if self._copy.version == NO_VERSION:
            self._unanswered = True  # a gap: the whole service comes, and may make no difference here
            return
        if subscriber.version >= self._copy.version or not rules.due.admits(client, self):
            return
        known_version, known_digest = subscriber.known
        if known_version != NO_VERSION:
            if known_version > self._copy.version and known_digest != self._present_digest():
                self._unanswered = True  # the client comes from a server whose copy is newer; this one waits for it
                return
            subscriber.known = NO_VERSION, 0
            if known_digest == self._present_digest():
                if self._confirmation is None or self._confirmation[0] != (known_version, self._copy.version):
                    self._confirmation = (known_version, self._copy.version), self._encode(known_version, {})
                self._deliver(subscriber, self._confirmation[1])
                return
        start = NO_VERSION if subscriber.version == NO_VERSION else self._oldest_step(subscriber.version)
        frames = self._frames_from(start, subscriber.version)
        if subscriber.parted is not None and frames.is_parted:
            return  # the receipt of the last part brings it
        if start == NO_VERSION:
            subscriber.whole = frames.version
        if self._deliver(subscriber, frames):
            if frames.version < self._version:
                # A whole service that was encoded earlier. What goes on from it leaves before its other parts, so that
                # the first state that the subscriber sees is the present one.
                self._push(subscriber)
            self._send_parts(subscriber, 0)

    def _frames_from(self, start: int, version: int) -> PushFrames:
        """The push from ``start`` to a state after ``version``."""
        frames = self._frames.get(start)
        if frames is None or frames.version <= version or (start == NO_VERSION and self._is_far_behind(frames)):
            steps = self._merged(start) if start != NO_VERSION else None
            frames = self._frames[start] = self._encode(start, steps)
        return frames

    def _is_far_behind(self, whole: PushFrames) -> bool:
        """Whether the push that goes on from a whole service, encoded earlier, has several parts too. Then it would
        have to wait, and the subscriber would see an old state first."""
        if whole.version >= self._version:
            return False
        return self._frames_from(self._oldest_step(whole.version), whole.version).is_parted

    def _deliver(self, subscriber: Subscriber, frames: PushFrames) -> bool:
        """Send a push, or its first part; returns whether the connection had room for it."""
        frame = frames.frame(0)
        assert frame is not None
        if not self._outbox.send_encoded(subscriber.client.peer, frame, "Push"):
            return False
        subscriber.version = frames.version
        subscriber.in_flight.append(frames.version)
        self.pushes += 1
        self._rules.due.sent += 1
        if frames.is_parted:
            subscriber.parted, subscriber.sent = frames, 1
        if subscriber.behind_since is not None and frames.version >= self._version:
            self._rules.delays.caught_up(subscriber, self._outbox.now())
        return True

    def _send_parts(self, subscriber: Subscriber, arrived: int) -> None:
        """Send the next parts of a push of which the subscriber has ``arrived`` parts."""
        while subscriber.parted is not None and subscriber.sent < arrived + PARTS_IN_FLIGHT:
            parted, peer = subscriber.parted, subscriber.client.peer
            frame = parted.frame(subscriber.sent)
            subscriber.sent += 1
            is_sent = frame is not None and self._outbox.send_encoded(peer, frame, "Push")
            if not is_sent or parted.frame(subscriber.sent) is None:
                subscriber.parted = None

    def _oldest_step(self, version: int) -> int:
        """The version from which the history continues for a subscriber at ``version``; NO_VERSION: it is too far
        behind."""
        for from_version, _ in reversed(self._history or ()):
            if from_version <= version:
                return from_version
        return NO_VERSION

    def _merged(self, start: int) -> Records:
        merged: Records = {}
        for from_version, step in self._history or ():
            if from_version >= start:
                merged.update(step)
        merged.update(self._pending)
        return merged

    def _encode(self, start: int, step: Records | None) -> PushFrames:
        """The push from ``start`` to the present state; ``step`` None: the whole service."""
        changed: list[Publisher]
        if step is None:
            changed, removed = self._records(), []
        else:
            changed = [record for record in step.values() if record is not None]
            removed = [register_id for register_id, record in step.items() if record is None]
        service, versions = (self.data_info_id, self._scope), (start, self._copy.version)
        return PushFrames(service, versions, self._present_digest(), changed, removed, self._outbox.part_bytes)
