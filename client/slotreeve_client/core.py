"""The state of a client: its registrations and subscriptions, and the messages that they need. Pure: no I/O, no clock.

The shell (:mod:`slotreeve_client.client`) reports connections and messages to it, and sends what
:meth:`ClientCore.outgoing` returns. (Original: ``DefaultRegistryClient``, ``AbstractInternalRegister``.)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice

from slotreeve.errors import Backpressure, ClientClosed, RegistrationError
from slotreeve.model.data_info import DataInfo
from slotreeve.model.datum import NO_VERSION
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import (
    Publish,
    Published,
    Push,
    PushesReceived,
    PushReceipt,
    Rejected,
    Scope,
    Subscribe,
    Unsubscribe,
    Want,
)
from slotreeve_protocol.meta_messages import Configs, UnwatchConfig, WatchConfigs

from slotreeve_client.configuration import ConfigWatch
from slotreeve_client.options import ClientOptions
from slotreeve_client.publication import Publication, payload
from slotreeve_client.subscription import Subscription, Watched

log = logging.getLogger("slotreeve.client")

WANTS_PER_MESSAGE = 1_000
"""Most subscriptions in one Subscribe."""
WEIGHT_PER_MESSAGE = 2_000
"""A Publish takes no further record from this weight on (:attr:`slotreeve.model.publisher.Publisher.weight`)."""
RECEIPTS_PER_MESSAGE = 256
"""So many acknowledgements of pushes are sent at once."""
KNOWN_IDS = 100_000
"""Most data info ids that are remembered for names that users gave."""


class ClientCore:
    """All registrations and subscriptions of one client.

    Invariant: a publication whose present version is not acknowledged is in the outbox or in flight. At a new
        connection
    every live publication goes out again, with the same version and the next incarnation (I10).

    Attributes:
        incarnation: number of connections so far.
        closed: True once :meth:`close` was called.
    """

    def __init__(self, client_id: str, options: ClientOptions, wake: Callable[[], None]) -> None:
        self._client_id, self._options, self._wake = client_id, options, wake
        self._ids: dict[str, str] = {}
        self._publications: dict[str, Publication] = {}
        self._outbox: dict[str, Publication] = {}
        self._in_flight: dict[int, tuple[Publication, int, int]] = {}
        self._weight = 0
        self._watched: dict[tuple[str, Scope], Watched] = {}
        self._messages: list[Message] = []
        self._configs: dict[str, list[ConfigWatch]] = {}
        self._receipts: dict[tuple[str, Scope], PushReceipt] = {}
        self._next_registration = 0
        self._next_sequence = 0
        self._session: str | None = None
        self.incarnation = 0
        self.closed = False

    # --- for users ----------------------------------------------------------------------------------

    def publish(self, service: str, data: tuple[bytes | str, ...], zone: str | None) -> Publication:
        """Register a provider. Raises ModelError, ClientClosed."""
        self._check_open()
        self._next_registration += 1
        publication = Publication(
            f"{self._client_id}-{self._next_registration}",
            self.data_info_id(service),
            self._options.zone if zone is None else zone,
            payload(data),
            self._publication_changed,
        )
        self._publications[publication.register_id] = publication
        self._publication_changed(publication)
        return publication

    def _publication_changed(self, publication: Publication) -> None:
        self._check_open()
        if not self._outbox:
            self._wake()
        self._outbox[publication.register_id] = publication

    def subscribe(self, service: str, on_change: Callable[[Subscription], None] | None, scope: Scope) -> Subscription:
        """Watch a service. Calls ``on_change`` at once if there is a copy already. Raises ModelError, ClientClosed."""
        self._check_open()
        data_info_id = self.data_info_id(service)
        watched = self._watched.get((data_info_id, scope))
        if watched is None:
            watched = self._watched[data_info_id, scope] = Watched(data_info_id, scope)
            if self._session is not None:
                self._send(Subscribe([Want(data_info_id, scope)]))
        subscription = Subscription(watched, on_change, self._unsubscribe)
        watched.subscriptions.append(subscription)
        if subscription.is_ready:
            subscription.update()
        return subscription

    def _unsubscribe(self, subscription: Subscription) -> None:
        key = (subscription.data_info_id, subscription.scope)
        watched = self._watched.get(key)
        if watched is None:
            return
        watched.subscriptions.remove(subscription)
        if not watched.subscriptions:
            del self._watched[key]
            if self._session is not None:
                self._send(Unsubscribe(*key))

    def watch_config(self, key: str, on_change: Callable[[ConfigWatch], None] | None) -> ConfigWatch:
        """Watch a key of the provided configuration. Raises ClientClosed."""
        self._check_open()
        watch = ConfigWatch(key, on_change, self._unwatch_config)
        watches = self._configs.setdefault(key, [])
        watches.append(watch)
        if self._session is not None:
            self._send(WatchConfigs({key: 0}))
        return watch

    def _unwatch_config(self, watch: ConfigWatch) -> None:
        watches = self._configs.get(watch.key, [])
        if watch in watches:
            watches.remove(watch)
            if not watches:
                del self._configs[watch.key]
                if self._session is not None:
                    self._send(UnwatchConfig(watch.key))

    def data_info_id(self, service: str) -> str:
        """The data info id of a service; ``service`` is that, or a data id alone. Raises ModelError."""
        known = self._ids.get(service)
        if known is None:
            if len(self._ids) >= KNOWN_IDS:
                self._ids.clear()
            known = self._ids[service] = DataInfo.parse(service).id
        return known

    @property
    def unacknowledged(self) -> int:
        """Number of records that wait to be sent or acknowledged."""
        return len(self._outbox) + len(self._in_flight)

    def _check_open(self) -> None:
        if self.closed:
            raise ClientClosed("the client was closed")

    # --- for the shell: connections and messages ---------------------------------------------------------------------

    def connected(self, session_process_id: str) -> None:
        """There is a connection to this process: send everything again."""
        self.incarnation += 1
        self._session = session_process_id
        self._in_flight.clear()
        self._weight = 0
        self._outbox = {
            key: publication
            for key, publication in self._publications.items()
            if publication.data is not None or not publication.is_acknowledged
        }
        self._messages = []
        self._receipts.clear()
        wants = [Want(w.data_info_id, w.scope, w.copy.version, w.copy.digest) for w in self._watched.values()]
        for start in range(0, len(wants), WANTS_PER_MESSAGE):
            self._messages.append(Subscribe(wants[start : start + WANTS_PER_MESSAGE]))
        if self._configs:
            self._messages.append(WatchConfigs({key: min(w.version for w in ws) for key, ws in self._configs.items()}))
        self._wake()

    def disconnected(self) -> None:
        """The connection was lost."""
        self._session = None

    def received(self, message: Message) -> None:
        """The session server sent a message."""
        if isinstance(message, Push):
            self._pushed(message)
        elif isinstance(message, Published):
            self._published(message.sequences)
        elif isinstance(message, Rejected):
            self._rejected(message)
        elif isinstance(message, Configs):
            for entry in message.entries:
                for watch in list(self._configs.get(entry.key, ())):
                    watch.apply(entry)
        else:
            log.warning("the session server sent a %s, which clients do not expect", type(message).__name__)

    def _published(self, sequences: list[int]) -> None:
        in_flight = self._in_flight
        for sequence in sequences:
            entry = in_flight.pop(sequence, None)
            if entry is None:
                continue  # the sequence is of an earlier connection
            publication, version, weight = entry
            self._weight -= weight
            publication.settle(version)
            if publication.data is None and version == publication.version:
                self._publications.pop(publication.register_id, None)
        if self._outbox:
            self._wake()

    def _rejected(self, message: Rejected) -> None:
        entry = self._in_flight.pop(message.sequence, None)
        if entry is None:
            return
        publication, _, weight = entry
        self._weight -= weight
        if message.code == Backpressure.code:
            self._outbox[publication.register_id] = publication
            return  # it is sent with the next acknowledgements or the next ping
        self._publications.pop(publication.register_id, None)
        publication.end(RegistrationError(f"{publication.data_info_id} was refused: {message.reason}"))

    def _pushed(self, push: Push) -> None:
        watched = self._watched.get((push.data_info_id, push.scope))
        if watched is None:
            return  # the user has unsubscribed
        newer = watched.apply(push)
        key = (push.data_info_id, push.scope)
        self._receipts[key] = PushReceipt(*key, push.version, watched.copy.version, watched.copy.parts)
        if watched.copy.version == NO_VERSION or len(self._receipts) >= RECEIPTS_PER_MESSAGE:
            self._wake()
        if newer:
            for subscription in list(watched.subscriptions):
                subscription.update()

    @property
    def owes_receipts(self) -> bool:
        """Whether there are pushes to acknowledge. Acknowledgements may wait and go out with other messages."""
        return bool(self._receipts)

    # --- for the shell: what to send ---------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        self._messages.append(message)
        self._wake()

    def outgoing(self) -> list[Message]:
        """All messages that can be sent now, in order; none without a connection. The caller must send them."""
        if self._session is None:
            return []
        messages, self._messages = self._messages, []
        if self._receipts:
            messages.append(PushesReceived(list(self._receipts.values())))
            self._receipts = {}
        while self._outbox and self._weight < self._options.window:
            messages.append(self._batch(self._session))
        return messages

    def _batch(self, session: str) -> Publish:
        outbox, in_flight, incarnation = self._outbox, self._in_flight, self.incarnation
        first = sequence = self._next_sequence
        records = []
        weight = 0
        for register_id in islice(outbox, self._options.batch):
            p = outbox[register_id]
            record = Publisher(register_id, p.data_info_id, p.version, incarnation, session, p.zone, p.data)
            records.append(record)
            in_flight[sequence] = (p, p.version, record.weight)
            sequence += 1
            weight += record.weight
            if weight >= WEIGHT_PER_MESSAGE:
                break
        if len(records) == len(outbox):
            outbox.clear()
        else:
            for record in records:
                del outbox[record.register_id]
        self._next_sequence = sequence
        self._weight += weight
        return Publish(first, records)

    def close(self) -> None:
        """Send nothing more. Whatever waits for a publication, subscription or watch gets ClientClosed."""
        self.closed = True
        error = ClientClosed("the client was closed")
        for publication in self._publications.values():
            publication.end(error)
        for watches in self._configs.values():
            for watch in watches:
                watch.close()
        for watched in self._watched.values():
            for subscription in watched.subscriptions:
                subscription.close()
