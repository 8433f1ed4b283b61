"""Registrations, renewals and ends of leases, gathered into few messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from slotreeve.errors import Backpressure, RequestTimeout, SlotreeveError
from slotreeve_client import Lease, LeaseAnswers

MOST_WAITING = 20_000
"""Beyond so many requests of one kind that wait for the registry, or are under way, further ones are refused."""
MOST_AT_ONCE = 2_000
NEXT_SECONDS = 0.1
"""A message that was not answered for so long does not hold up the next one: of the slots of its leases one may have no
leader, and it is answered for all of them together."""
I = TypeVar("I")  # noqa: E741 - an item


class LeaseEnd(Protocol):
    """What :class:`slotreeve_client.LeaseRegistrations` does for many leases."""

    async def register_many(self, leases: Iterable[Lease]) -> LeaseAnswers:
        """Register leases."""

    async def renew_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        """Renew leases by service."""

    async def deregister_many(self, leases: Mapping[str, Iterable[str]]) -> LeaseAnswers:
        """End leases by service."""


class _Gatherer(Generic[I]):
    """Requests of one kind. What comes while a message is under way goes into the next one, so that one request alone
    waits for nobody and thousands at once take few messages. What concerns a lease that is under way waits for that.

    Args:
        send: sends many; its answer names those that are unknown or unanswered.
        place: data info id and lease id of an item.
    """

    def __init__(
        self, send: Callable[[list[I]], Awaitable[LeaseAnswers]], place: Callable[[I], tuple[str, str]]
    ) -> None:
        self._send, self._place = send, place
        self._waiting: list[tuple[I, asyncio.Future[bool]]] = []
        self._under_way: set[tuple[str, str]] = set()
        self._messages: set[asyncio.Task[None]] = set()
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, item: I) -> bool:
        """Send one. Whether the lease is known. Raises RequestTimeout, Backpressure, and what ``send`` raises."""
        if len(self._waiting) + len(self._under_way) >= MOST_WAITING:
            raise Backpressure(f"{MOST_WAITING} requests wait for the registry already; try again later")
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answered))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all(), name="lease requests")
        return await answered

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                if part := self._next_part():
                    message = asyncio.get_running_loop().create_task(self._send_part(part), name="a lease message")
                    self._messages.add(message)
                    message.add_done_callback(self._messages.discard)
                    await asyncio.wait((message,), timeout=NEXT_SECONDS)
                else:
                    await asyncio.wait(self._messages, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sending = None

    def _next_part(self) -> list[tuple[I, asyncio.Future[bool]]]:
        part, rest = list[tuple[I, asyncio.Future[bool]]](), list[tuple[I, asyncio.Future[bool]]]()
        for waiting in self._waiting:
            is_next = len(part) < MOST_AT_ONCE and self._place(waiting[0]) not in self._under_way
            (part if is_next else rest).append(waiting)
        self._waiting = rest
        self._under_way.update(self._place(item) for item, _ in part)
        return part

    async def _send_part(self, part: list[tuple[I, asyncio.Future[bool]]]) -> None:
        try:
            await self._send_and_tell(part)
        finally:
            self._under_way.difference_update(self._place(item) for item, _ in part)

    async def _send_and_tell(self, part: list[tuple[I, asyncio.Future[bool]]]) -> None:
        try:
            answers = await self._send([item for item, _ in part])
        except BaseException as error:
            for _, answered in part:
                if not answered.done():
                    # One exception in several tasks would gather their tracebacks.
                    answered.set_exception(_copy(error))
            if not isinstance(error, Exception):
                raise
            return
        for item, answered in part:
            if answered.done():
                continue
            service, lease_id = self._place(item)
            if lease_id in answers.unanswered.get(service, ()):
                answered.set_exception(RequestTimeout(answers.reason))
            else:
                answered.set_result(lease_id not in answers.unknown.get(service, ()))


def _copy(error: BaseException) -> Exception:
    return type(error)(*error.args) if isinstance(error, SlotreeveError) else RequestTimeout(f"not sent: {error!r}")


class LeaseWrites:
    """The leases that callers of a gateway register, renew and end one by one. Names of services are data info ids."""

    def __init__(self, leases: LeaseEnd) -> None:
        self._registrations = _Gatherer(leases.register_many, lambda lease: (lease.service, lease.lease_id))
        self._renewals = _Gatherer(lambda items: leases.renew_many(_by_service(items)), _itself)
        self._ends = _Gatherer(lambda items: leases.deregister_many(_by_service(items)), _itself)

    async def register(self, lease: Lease) -> None:
        """Register, or replace. Returns once the slot's leader and its followers have it.

        Raises:
            RequestTimeout: no leader has answered in time; it may have been registered.
            Backpressure: too many wait.
            ClientError, ClientClosed: it failed; the message says why.
        """
        await self._registrations.ask(lease)

    async def renew(self, data_info_id: str, lease_id: str) -> bool:
        """Begin the time to live anew. Whether there is such a lease. Raises as :meth:`register`."""
        return await self._renewals.ask((data_info_id, lease_id))

    async def deregister(self, data_info_id: str, lease_id: str) -> bool:
        """End it now. Whether there was such a lease. Raises as :meth:`register`."""
        return await self._ends.ask((data_info_id, lease_id))


def _itself(item: tuple[str, str]) -> tuple[str, str]:
    return item


def _by_service(items: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for service, lease_id in items:
        found.setdefault(service, []).append(lease_id)
    return found
