"""The state of a client: its registrations and subscriptions, and the messages that they need. Pure: no I/O, no clock.

The shell (:mod:`slotreeve_client.client`) reports connections and messages to it, and sends what
:meth:`ClientCore.outgoing` returns. (Original: ``DefaultRegistryClient``, ``AbstractInternalRegister``.)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from slotreeve.errors import Backpressure, ClientClosed, ModelError, RegistrationError
from slotreeve.model.datum import NO_VERSION
from slotreeve.model.publisher import MAX_ZONE_LENGTH, Publisher
from slotreeve.model.text import check_text
from slotreeve.ports import Message
from slotreeve_protocol.client_messages import (
    NotPushed,
    Publish,
    Published,
    Push,
    PushesReceived,
    PushReceipt,
    Rejected,
    ReplayEnded,
    Scope,
    Subscribe,
    Unsubscribe,
    Want,
)
from slotreeve_protocol.meta_messages import Configs, UnwatchConfig, WatchConfigs
from slotreeve_protocol.overrides import OVERRIDES_KEY
from slotreeve_protocol.provided import check_config_key

from slotreeve_client.callbacks import Callbacks, check_callback
from slotreeve_client.configuration import ConfigWatch, ConfigWatches
from slotreeve_client.flushes import Flushes
from slotreeve_client.names import ServiceNames
from slotreeve_client.postponed import Postponed
from slotreeve_client.publication import Publication, payload
from slotreeve_client.replay import ClientReplay
from slotreeve_client.services import WatchedServices
from slotreeve_client.subscription import Subscription
from slotreeve_client.wants import ServiceKey, Wants

if TYPE_CHECKING:
    from slotreeve_client.options import ClientOptions

log = logging.getLogger("slotreeve.client")

WEIGHT_PER_MESSAGE = 500
"""Weight from which on a Publish takes no further record (:attr:`slotreeve.model.publisher.Publisher.weight`). Even
records with the longest names then fit into the smallest frame that a transport may be set to."""
RECEIPTS_PER_MESSAGE = 256
"""Acknowledgements of pushes that are sent at once."""


class ClientCore:
    """All registrations and subscriptions of one client.

    Invariant: a publication whose present version is not acknowledged is in the outbox, in flight, or postponed. At a
    new connection every live publication goes out again, with the same version and the next incarnation (I10). One that
    ends before it was ever sent is not sent. A version that is refused for good is followed by one with what the server
    has of the publication.

    Args:
        wake: called when there is something to send.
        callbacks: runs the functions of the user.

    Attributes:
        incarnation: number of connections so far.
        names: the data info ids of services.
        services: the copies of services that the client subscribed to.
        postponed: the records for which the session server had no room.
        wants: the subscriptions that the session server has not confirmed.
        closed: True once :meth:`close` was called.
    """

    def __init__(self, client_id: str, options: ClientOptions, wake: Callable[[], None], callbacks: Callbacks) -> None:
        self._client_id, self._options, self._wake, self._callbacks = client_id, options, wake, callbacks
        self._publications: dict[str, Publication] = {}
        self._outbox: dict[str, Publication] = {}
        self._in_flight: dict[int, tuple[Publication, Publisher, int]] = {}
        self._weight = 0
        self._replay = ClientReplay(())
        self._flushes = Flushes()
        self.services = WatchedServices(callbacks)
        self._overrides: ConfigWatch | None = None
        self.wants = Wants(())
        self._messages: deque[Message] = deque()
        self._configs = ConfigWatches()
        self._receipts: dict[ServiceKey, PushReceipt] = {}
        self._next_registration = 0
        self._next_sequence = 0
        self._session: str | None = None
        self._end_subscription = self._unsubscribe  # one bound method for all subscriptions
        self.names = ServiceNames()
        self.postponed = Postponed()
        self.incarnation = 0
        self.closed = False

    # --- for users ----------------------------------------------------------------------------------

    def publish(self, service: str, data: tuple[bytes | str, ...], zone: str | None) -> Publication:
        """Register a provider. Raises ModelError, ClientClosed."""
        self._check_open()
        if zone is not None:
            check_text("the zone", zone, MAX_ZONE_LENGTH)
        self._next_registration += 1
        publication = Publication(
            f"{self._client_id}-{self._next_registration}",
            self.names.id_of(service),
            self._options.zone if zone is None else zone,
            payload(data),
            self._publication_changed,
        )
        self._publications[publication.register_id] = publication
        self._publication_changed(publication)
        return publication

    def _publication_changed(self, publication: Publication) -> None:
        self._check_open()
        if publication.data is None and not publication.is_sent:
            # A client without a connection does not keep, and send later, whatever begins and ends meanwhile.
            del self._outbox[publication.register_id], self._publications[publication.register_id]
            publication.settle(publication.version, None)
            if self._replay.stored(publication.register_id):
                self._wake()
            self._flushes.look(self._is_over)
            return
        if not self._outbox:
            self._wake()
        if self.postponed.records:
            self.postponed.records.pop(publication.register_id, None)
        self._outbox[publication.register_id] = publication

    def subscribe(self, service: str, on_change: Callable[[Subscription], None] | None, scope: Scope) -> Subscription:
        """Watch a service. ``on_change`` is due at once if there is a copy already. Raises ModelError, ClientClosed."""
        self._check_open()
        check_callback(on_change)
        if not isinstance(scope, Scope):
            raise ModelError(f"the scope is {scope!r}; expected Scope.ZONE or Scope.DATA_CENTER")
        key = (self.names.id_of(service), scope)
        watched = self.services.by_key.get(key)
        if watched is None:
            watched = self.services.add(key)
            if self._session is not None:
                self.wants.add(key)
                self._wake()
        subscription = Subscription(watched, on_change, self._end_subscription)
        watched.subscriptions.append(subscription)
        if subscription.is_ready:
            self._callbacks.add(subscription)
        return subscription

    def _unsubscribe(self, subscription: Subscription) -> None:
        key = (subscription.data_info_id, subscription.scope)
        watched = self.services.by_key.get(key)
        if watched is None:
            return
        watched.subscriptions.remove(subscription)
        if not watched.subscriptions:
            del self.services.by_key[key]
            if self._session is not None and self.wants.discard(key):
                self._send(Unsubscribe(*key))

    def watch_config(self, key: str, on_change: Callable[[ConfigWatch], None] | None) -> ConfigWatch:
        """Watch a key of the provided configuration. Raises ModelError, ClientClosed."""
        self._check_open()
        check_callback(on_change)
        check_config_key(key)
        watch = ConfigWatch(key, on_change, self._unwatch_config)
        self._configs.add(watch)
        if self._session is not None:
            self._send(WatchConfigs({key: 0}))
        return watch

    def watch_overrides(self) -> ConfigWatch:
        """Follow the operator's overrides from now on, because there is an instance. Clients that only see bytes do
        not need them. Raises ClientClosed."""
        if self._overrides is None:
            self._overrides = self.watch_config(OVERRIDES_KEY, None)
        return self._overrides

    def _unwatch_config(self, watch: ConfigWatch) -> None:
        if self._configs.remove(watch) and self._session is not None:
            self._send(UnwatchConfig(watch.key))

    @property
    def unacknowledged(self) -> int:
        """Number of records that wait to be sent or acknowledged."""
        return len(self._outbox) + len(self._in_flight) + len(self.postponed.records)

    async def flushed(self) -> None:
        """Wait until the slots' leaders hold what waits to be sent or acknowledged now, or later versions of it. What
        the server refuses for good is not waited for. Raises ClientClosed."""
        versions = {publication: record.version for publication, record, _weight in self._in_flight.values()}
        for waiting in (self.postponed.records, self._outbox):
            versions |= {publication: publication.version for publication in waiting.values()}
        if versions:
            self._check_open()
        await self._flushes.wait(versions)

    def _is_over(self, publication: Publication, version: int) -> bool:
        """Whether a version, or a later one, is stored, or the registration has ended."""
        return publication.acknowledged_version >= version or publication.ended is not None

    def _check_open(self) -> None:
        if self.closed:
            raise ClientClosed("the client was closed")

    # --- for the shell: connections and messages ---------------------------------------------------------------------

    def connected(self, session_process_id: str, in_another_era: bool = False) -> None:
        """This process has admitted the client: send everything again. In another era the versions that this client
        has are no measure of those of the server."""
        if in_another_era:
            self.services.forget_versions()
            self._configs.forget_versions()
        self.incarnation += 1
        self._session = session_process_id
        self._in_flight.clear()
        self.postponed.records.clear()
        self._weight = 0
        self._outbox = {
            key: publication
            for key, publication in self._publications.items()
            if publication.data is not None or not publication.is_acknowledged
        }
        self._replay = ClientReplay(self._outbox)
        self._receipts.clear()
        self.wants = Wants(self.services.by_key)
        self._messages = deque(map(WatchConfigs, self._configs.versions_in_parts()))
        self._wake()

    def era_changed(self) -> None:
        """The session server counts in another era from now on: above its own versions of services, but not above those
        of the provided configuration."""
        self._configs.forget_versions()
        self._messages.extend(map(WatchConfigs, self._configs.versions_in_parts()))
        self._wake()

    @property
    def is_complete(self) -> bool:
        """Whether the session server has all that was published before the connection, and has confirmed every
        subscription."""
        return self._replay.is_stored and self.wants.are_confirmed

    def disconnected(self) -> None:
        """The connection was lost."""
        self._session = None

    def ping_answered(self) -> None:
        """The session server has read everything sent before the ping."""
        self.wants.ping_answered()
        if self.wants.has_room:
            self._wake()

    def received(self, message: Message) -> None:
        """The session server sent a message. What comes while the client says goodbye concerns nobody."""
        if self.closed:
            return
        if isinstance(message, Push):
            self._pushed(message)
        elif isinstance(message, Published):
            self._published(message.sequences)
        elif isinstance(message, Rejected):
            self._rejected(message)
        elif isinstance(message, NotPushed):
            self._not_pushed(message)
        elif isinstance(message, Configs):
            for watch in self._configs.apply(message.entries):
                if watch is self._overrides:
                    self.services.overrides_arrived(watch.value)
                else:
                    self._callbacks.add(watch)
        else:
            log.warning("the session server sent a %s, which clients do not expect", type(message).__name__)

    def received_from_former(self, message: Message) -> None:
        """The session server that the client is leaving sent a message. Its pushes count until the new one has
        confirmed the subscription. Its acknowledgements do not count: it has an older incarnation of the records."""
        if isinstance(message, Push) and not self.closed:
            watched = self.services.by_key.get((message.data_info_id, message.scope))
            if watched is None or self.wants.is_confirmed((message.data_info_id, message.scope)):
                return
            if watched.fits(message) and watched.apply(message):
                self.services.announce(watched)

    def _published(self, sequences: list[int]) -> None:
        in_flight, replay = self._in_flight, self._replay
        wakes = False
        self.postponed.has_room(len(sequences))
        for sequence in sequences:
            entry = in_flight.pop(sequence, None)
            if entry is None:
                continue  # the sequence is of an earlier connection
            publication, record, weight = entry
            self._weight -= weight
            publication.settle(record.version, record.data)
            if replay.unstored and replay.stored(publication.register_id):
                wakes = True
            if publication.data is None and record.version == publication.version:
                self._publications.pop(publication.register_id, None)
        if self._flushes.waiting:
            self._flushes.look(self._is_over)
        if wakes or self._outbox:
            self._wake()

    def _rejected(self, message: Rejected) -> None:
        entry = self._in_flight.pop(message.sequence, None)
        if entry is None:
            return
        publication, record, weight = entry
        self._weight -= weight
        if self._outbox:  # there is room again for what waits
            self._wake()
        if record.version < publication.version:
            return  # a newer one is on its way
        if message.code == Backpressure.code:
            self.postponed.add(publication)
            return
        error = RegistrationError(f"{publication.data_info_id} was refused: {message.reason}")
        taken = self._taken_before(publication, record)
        if taken is not None:
            log.warning("%s; what it published before stays visible", error)
            publication.take_back(*taken, error)
            self._outbox[publication.register_id] = publication
            self._wake()
            return
        if self._replay.stored(publication.register_id):
            self._wake()
        self._publications.pop(publication.register_id, None)
        publication.end(error)
        self._flushes.look(self._is_over)

    def _taken_before(self, publication: Publication, refused: Publisher) -> tuple[int, tuple[bytes, ...]] | None:
        """The version, and its payload, that the server had taken of a publication when it refused the present one;
        None if there is none, or that is what was refused."""
        if refused.data is None or publication.refused is not None:
            return None
        version, data = publication.acknowledged_version, publication.acknowledged_data
        # The server refuses at once, and acknowledges later what it took before.
        for one, record, _ in self._in_flight.values():
            if one is publication and record.version > version:
                version, data = record.version, record.data
        return (version, data) if data is not None and version < refused.version else None

    def retry(self) -> None:
        """Send again some of the records for which the session server had no room."""
        self._outbox.update(self.postponed.take())
        self._wake()

    def _pushed(self, push: Push) -> None:
        key = (push.data_info_id, push.scope)
        watched = self.services.by_key.get(key)
        if watched is None:
            # The user has unsubscribed. That has crossed the push, or was said to another server, which has died.
            self._send(Unsubscribe(*key))
            return
        is_step = bool(push.changed or push.removed or push.more or watched.copy.parts)
        newer = watched.apply(push)
        if watched.has_instances:
            self.watch_overrides()
        if newer or not push.more or watched.copy.version >= push.version:
            # In the third case a former server brought what the parts lead to; then the rest of them does not come.
            self.wants.confirmed(key)
        if is_step or watched.copy.version != push.version or push.from_version == NO_VERSION:
            self._receipts[key] = PushReceipt(*key, push.version, watched.copy.version, watched.copy.parts)
            if newer:
                self.services.announce(watched)
        # Otherwise the push only says that the copy is current: one for each subscription, after each reconnection. In
        # a move the former server may have brought its state before; a newer state is reported.
        if watched.copy.version == NO_VERSION or len(self._receipts) >= RECEIPTS_PER_MESSAGE or self.wants.has_room:
            self._wake()

    def _not_pushed(self, message: NotPushed) -> None:
        """The session server does not push a service: its subscriptions end."""
        key = (message.data_info_id, message.scope)
        self.wants.discard(key)
        watched = self.services.by_key.pop(key, None)
        for subscription in watched.subscriptions if watched is not None else ():
            log.error("%s has ended: %s", subscription.label, message.reason)
            subscription.close(RegistrationError(f"{message.data_info_id} is not pushed: {message.reason}"))
        self._wake()

    @property
    def owes_receipts(self) -> bool:
        """Whether there are pushes to acknowledge. Acknowledgements may wait and go out with other messages."""
        return bool(self._receipts)

    # --- for the shell: what to send ---------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        self._messages.append(message)
        self._wake()

    def outgoing(self) -> Message | None:
        """The next message that can be sent now; None if there is none, or no connection. The caller must send it."""
        if self._session is None:
            return None
        if self._messages:
            return self._messages.popleft()
        if self._receipts:
            receipts, self._receipts = self._receipts, {}
            return PushesReceived(list(receipts.values()))
        if self._outbox and self._weight < self._options.window:
            return self._batch(self._session)
        if self._replay.end():
            return ReplayEnded(self.incarnation)
        if keys := self.wants.take():
            copies = [(key, self.services.by_key[key].copy) for key in keys]
            return Subscribe([Want(*key, copy.version, copy.digest) for key, copy in copies])
        return None

    def _batch(self, session: str) -> Publish:
        outbox, in_flight, incarnation = self._outbox, self._in_flight, self.incarnation
        first = sequence = self._next_sequence
        records = []
        weight = 0
        for register_id in islice(outbox, self._options.batch):
            p = outbox[register_id]
            record = Publisher(register_id, p.data_info_id, p.version, incarnation, session, p.zone, p.data)
            p.is_sent = True
            records.append(record)
            heavy = record.weight
            in_flight[sequence] = (p, record, heavy)
            sequence += 1
            weight += heavy
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
        self._flushes.close(error)
        self._configs.close()
        self.services.close()
