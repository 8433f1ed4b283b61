"""Leases: registrations that the registry keeps for whoever renews them. They outlive this client and its connection.

For a program that registers others: a gateway, a sidecar, a job that registers a database. A program that registers
itself uses :meth:`slotreeve_client.Client.publish`, which needs no renewals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from slotreeve.errors import ClientError, RequestTimeout
from slotreeve.model.publisher import MAX_PAYLOAD_BYTES, payload_bytes
from slotreeve.ports import Message
from slotreeve_protocol.lease_messages import (
    EndLeases,
    LeaseIds,
    LeasesKnown,
    LeaseTerms,
    RegisterLeases,
    RenewLeases,
)
from slotreeve_protocol.leases import MOST_LEASES, check_lease, check_lease_id

from slotreeve_client.names import ServiceNames
from slotreeve_client.publication import payload

BYTES_PER_MESSAGE = 4 * MAX_PAYLOAD_BYTES
_LEASE_BYTES = 200
"""A lease without its payload, in a message."""
DEFAULT_TTL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Lease:
    """One lease to be registered.

    Attributes:
        service: the service: a data id, or a whole data info id.
        lease_id: the caller's name for it, unique in the service.
        data: the payload, as of :meth:`slotreeve_client.Client.publish`.
        ttl_seconds: it ends where nobody renews it for so long; from 1 s to a day.
        zone: where the provider runs; None: the client's zone.
    """

    service: str
    lease_id: str
    data: tuple[bytes | str, ...] = ()
    ttl_seconds: float = DEFAULT_TTL_SECONDS
    zone: str | None = None


@dataclass(slots=True)
class LeaseAnswers:
    """What became of a request for many leases. Those that it does not name are as they were asked to be.

    Attributes:
        unknown: lease ids by data info id: there is no such lease. Register it again.
        unanswered: lease ids by data info id: no leader of their slot has answered in time. Ask again.
        reason: why they are unanswered; empty where none is.
    """

    unknown: dict[str, set[str]] = field(default_factory=dict)
    unanswered: dict[str, set[str]] = field(default_factory=dict)
    reason: str = ""

    def add(self, reply: LeasesKnown) -> None:
        """Add the answer to one message."""
        for ours, theirs in ((self.unknown, reply.unknown), (self.unanswered, reply.unanswered)):
            for name, lease_ids in theirs.items():
                ours.setdefault(name, set()).update(lease_ids)
        self.reason = reply.reason or self.reason


class Asker(Protocol):
    """Sends requests to a session server, and again to the next one where the connection is lost."""

    async def ask(self, message: Message) -> Message:
        """Send a request. Raises RequestTimeout, ClientError, Refused, ClientClosed."""


class LeaseRegistrations:
    """The leases of a registry, for one client; :attr:`slotreeve_client.Client.leases`.

    The leader of the service's slot keeps a lease, and its followers have a copy. A lease does not end before its time
    to live has passed since it was registered or renewed for the last time, whichever server dies meanwhile. Any client
    may renew or end a lease. Every call may be repeated. None of them is retried once it has raised.

    A call for many leases is cut into several messages, which are sent one after the other.
    """

    def __init__(self, asker: Asker, names: ServiceNames, zone: str) -> None:
        self._asker, self._names, self._zone = asker, names, zone

    async def register(
        self,
        service: str,
        lease_id: str,
        *data: bytes | str,
        ttl_seconds: float = DEFAULT_TTL_SECONDS,
        zone: str | None = None,
    ) -> None:
        """Register a lease, or replace payload, zone and time to live of one that exists. Returns once the leader of
        the slot and its followers have it.

        Raises:
            ModelError: the name, the lease id, the payload or the time to live is not good.
            RequestTimeout: no leader has answered in time; it may have been registered.
            ClientError: the request failed; the message says why.
            Refused, ClientClosed: as :meth:`slotreeve_client.Client.get`.
        """
        answers = await self.register_many([Lease(service, lease_id, data, ttl_seconds, zone)])
        _raise_unanswered(answers)

    async def register_many(self, leases: Iterable[Lease]) -> LeaseAnswers:
        """Register many leases. None is ``unknown`` in the answer.

        Raises:
            ModelError: one of them is not good; nothing was registered.
            RequestTimeout: no session server has answered in time.
            ClientError, Refused, ClientClosed: as :meth:`register`.
        """
        terms = [self._terms(lease) for lease in leases]
        answers = LeaseAnswers()
        for part in _parts(terms, _bytes_of):
            answers.add(await self._ask(RegisterLeases(part)))
        return answers

    async def renew(self, service: str, *lease_ids: str) -> set[str]:
        """Begin the time to live of leases of one service anew. Returns the lease ids that are unknown: register those
        again.

        Raises:
            ModelError: the name is not good.
            RequestTimeout: no leader has answered in time; they may have been renewed.
            ClientError, Refused, ClientClosed: as :meth:`register`.
        """
        answers = await self.renew_many({service: lease_ids})
        _raise_unanswered(answers)
        return answers.unknown.get(self._names.id_of(service), set())

    async def renew_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        """Renew leases of many services; ``leases`` has lease ids by service.

        Raises:
            ModelError, RequestTimeout, ClientError, Refused, ClientClosed: as :meth:`register_many`.
        """
        answers = LeaseAnswers()
        for part in self._id_parts(leases):
            answers.add(await self._ask(RenewLeases(part)))
        return answers

    async def deregister(self, service: str, lease_id: str) -> bool:
        """End a lease now. Returns whether there was one. False may also mean that this call has ended it, and its
        answer was lost, or could not be confirmed by a follower, so that the request was sent again.

        Raises:
            ModelError, RequestTimeout, ClientError, Refused, ClientClosed: as :meth:`register`.
        """
        answers = await self.deregister_many({service: [lease_id]})
        _raise_unanswered(answers)
        return not answers.unknown

    async def deregister_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        """End leases of many services; ``leases`` has lease ids by service.

        Raises:
            ModelError, RequestTimeout, ClientError, Refused, ClientClosed: as :meth:`register_many`.
        """
        answers = LeaseAnswers()
        for part in self._id_parts(leases):
            answers.add(await self._ask(EndLeases(part)))
        return answers

    async def _ask(self, message: RegisterLeases | RenewLeases | EndLeases) -> LeasesKnown:
        reply = await self._asker.ask(message)
        if not isinstance(reply, LeasesKnown):
            raise ClientError(f"the session server answered {type(message).__name__} with a {type(reply).__name__}")
        return reply

    def _terms(self, lease: Lease) -> LeaseTerms:
        data = payload(lease.data)
        zone = self._zone if lease.zone is None else lease.zone
        check_lease(lease.lease_id, lease.ttl_seconds, data, zone)
        return LeaseTerms(self._names.id_of(lease.service), lease.lease_id, zone, data, round(1000 * lease.ttl_seconds))

    def _id_parts(self, leases: Mapping[str, Iterable[str]]) -> Iterator[LeaseIds]:
        """Lease ids by data info id, in parts of bounded size."""
        pairs = [(self._names.id_of(service), lease_id) for service, ids in leases.items() for lease_id in ids]
        for _, lease_id in pairs:
            check_lease_id(lease_id)
        for part in _parts(pairs, lambda pair: sum(map(_encoded_bytes, pair))):
            by_service: LeaseIds = {}
            for name, lease_id in part:
                by_service.setdefault(name, []).append(lease_id)
            yield by_service


def _bytes_of(lease: LeaseTerms) -> int:
    names = sum(map(_encoded_bytes, (lease.data_info_id, lease.lease_id, lease.zone)))
    return _LEASE_BYTES + names + payload_bytes(lease.data)


def _encoded_bytes(text: str) -> int:
    """At most so many bytes, in UTF-8 and with the head of a text."""
    return (len(text) if text.isascii() else 4 * len(text)) + 5


T = TypeVar("T")


def _parts(items: Iterable[T], bytes_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Items in parts of bounded number and size."""
    part: list[T] = []
    size = 0
    for item in items:
        part.append(item)
        size += bytes_of(item)
        if size >= BYTES_PER_MESSAGE or len(part) == MOST_LEASES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _raise_unanswered(answers: LeaseAnswers) -> None:
    if answers.unanswered:
        raise RequestTimeout(answers.reason)
