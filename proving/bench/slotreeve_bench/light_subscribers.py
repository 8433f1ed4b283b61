"""Very many subscribers of one large service in one process: each has a connection of its own over the real transport,
and a light view (:mod:`slotreeve_bench.light_views`)."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from slotreeve.clock import MachineClock
from slotreeve.errors import TransportError
from slotreeve.key_files import load_keys
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Handler, Hello, Message
from slotreeve_client.tools import OWN_KEY, TRUSTED_KEYS
from slotreeve_protocol.channel import Channel
from slotreeve_protocol.client_messages import (
    Push,
    PushesReceived,
    PushReceipt,
    ReplayEnded,
    Scope,
    Sessions,
    Subscribe,
    Want,
)
from slotreeve_protocol.general_messages import Ping
from slotreeve_protocol.packets import Link
from slotreeve_transport_zmq.transport import ZmqTransport

from slotreeve_bench.light_views import PUSH_TAG, KnownWholes, LightView
from slotreeve_bench.workers import Commands

JOINING_AT_ONCE = 16
"""So many views of one process are incomplete at a time."""
CONNECT_SECONDS = 30.0
PING_SECONDS = 2.0
RECEIPT_SECONDS = 0.05
AGREE_SECONDS = 60.0
_PUSH_FRAME = bytes([0x10])
_TAG_AT = 2


class LightSubscriber:
    """One connection and its view. A handler.

    Attributes:
        complete: done once the view has the whole service.
        is_lost: the connection has ended.
    """

    def __init__(self, data_info_id: str, known: KnownWholes) -> None:
        self._data_info_id = data_info_id
        self.view = LightView(known)
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_lost = False
        self._is_admitted = False
        self._receipts: list[PushReceipt] = []
        self._connection: Connection | None = None

    def opened(self, connection: Connection) -> None:
        """The session server admits it with a list of session servers."""
        self._connection = connection

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Subscribe once admitted; take a push."""
        if isinstance(message, Sessions) and not self._is_admitted:
            self._is_admitted = True
            connection.send(ReplayEnded())
            connection.send(Subscribe([Want(self._data_info_id, Scope.DATA_CENTER)]))
        elif isinstance(message, Push):
            self._owe(self.view.push(message))

    def took_frame(self, frame: bytes) -> None:
        """A large push has arrived, not decoded: its receipt brings the next part."""
        self._owe(self.view.frame(frame))
        self.send_receipts()

    def _owe(self, receipt: PushReceipt) -> None:
        self._receipts.append(receipt)
        if self.view.version and not self.complete.done():
            self.complete.set_result(None)

    def send_receipts(self) -> None:
        """Acknowledge what has arrived."""
        if self._receipts and self._connection is not None and not self.is_lost:
            receipts, self._receipts = self._receipts, []
            self._connection.send(PushesReceived(receipts))

    def ping(self) -> None:
        """Show the session server that this client lives."""
        if self._connection is not None and not self.is_lost:
            self._connection.request(Ping(), lambda reply, error: None, 10 * PING_SECONDS)

    def closed(self, connection: Connection, reason: str) -> None:
        """The view gets no more pushes: it stays as it is, and does not agree at the end."""
        self.is_lost = True


class LightChannel(Channel):
    """A channel that hands large pushes, which travel in packets of their own, to its subscriber without decoding
    them."""

    __slots__ = ("megabytes", "subscriber")

    subscriber: LightSubscriber
    megabytes: float

    def receive(self, packet: bytes) -> None:
        """As in the base class."""
        self.megabytes += len(packet) / 1e6
        if self.opened and packet[:1] == _PUSH_FRAME and packet[_TAG_AT] == PUSH_TAG:
            self.heard_at = asyncio.get_running_loop().time()
            self.subscriber.took_frame(packet)
        else:
            super().receive(packet)


class LightTransport(ZmqTransport):
    """Connections of light subscribers."""

    def __init__(self) -> None:
        keys = load_keys(os.environ.get(OWN_KEY, ""), os.environ.get(TRUSTED_KEYS, ""))
        super().__init__(MachineClock(), keys=keys)
        self.channels: list[LightChannel] = []

    def new_channel(self, link: Link, hello: Hello, handler: Handler) -> Channel:
        """As in the base class."""
        assert isinstance(handler, LightSubscriber)
        channel = LightChannel(link, hello, handler, self._clock, self.counters, self._limits)
        channel.subscriber, channel.megabytes = handler, 0.0
        self.channels.append(channel)
        return channel


class LightCrowd:
    """All light subscribers of one process."""

    def __init__(self, cluster: str, data_info_id: str) -> None:
        self._cluster, self._data_info_id = cluster, data_info_id
        self._transport, self._known = LightTransport(), KnownWholes()
        self.subscribers: list[LightSubscriber] = []

    async def join(self, count: int, addresses: list[str]) -> None:
        """Connect ``count`` subscribers, a few at a time; return once each has the whole service."""
        room = asyncio.Semaphore(JOINING_AT_ONCE)

        async def one(number: int) -> None:
            async with room:
                subscriber = LightSubscriber(self._data_info_id, self._known)
                name = f"light-{id(self):x}-{number}"
                hello = Hello(self._cluster, name, Role.CLIENT, name)
                await self._transport.connect(addresses[number % len(addresses)], hello, subscriber, CONNECT_SECONDS)
                self.subscribers.append(subscriber)
                await subscriber.complete

        await asyncio.gather(*(one(number) for number in range(count)))

    async def attend(self) -> None:
        """Send receipts and pings, for ever."""
        pinged = time.monotonic()
        while True:
            await asyncio.sleep(RECEIPT_SECONDS)
            pings = time.monotonic() > pinged + PING_SECONDS
            if pings:
                pinged = time.monotonic()
            for subscriber in self.subscribers:
                try:
                    subscriber.send_receipts()
                    if pings:
                        subscriber.ping()
                except TransportError:
                    subscriber.is_lost = True

    @property
    def megabytes(self) -> float:
        """Received so far."""
        return sum(channel.megabytes for channel in self._transport.channels)

    async def agreeing(self, digest: int, count: int) -> int:
        """Wait until every view has this digest and count; returns how many have, when the time is over."""
        until = time.monotonic() + AGREE_SECONDS
        while True:
            views = [one.view for one in self.subscribers if not one.is_lost]
            agreeing = sum(view.digest == digest and view.count == count and view.version > 0 for view in views)
            if agreeing == len(self.subscribers) or time.monotonic() > until:
                return agreeing
            await asyncio.sleep(RECEIPT_SECONDS)


async def watch_lightly(cluster: str, data_info_id: str, count: int, addresses: list[str]) -> None:
    """The process: it reports that every view is complete, with the megabytes received. Asked for a digest and a
    count, it waits until each view has them, and answers with the number of views that have, the lowest number of
    instances that any view had since it was complete, wrong pushes, and lost connections."""
    commands, crowd = Commands(), LightCrowd(cluster, data_info_id)
    attending = asyncio.create_task(crowd.attend())
    await crowd.join(count, addresses)
    commands.answer(round(crowd.megabytes))
    digest, instances = map(int, (await commands.next()).split())
    agreeing = await crowd.agreeing(digest, instances)
    views = [subscriber.view for subscriber in crowd.subscribers]
    lowest = min(view.lowest or 0 for view in views)
    wrong, lost = sum(view.wrong for view in views), sum(one.is_lost for one in crowd.subscribers)
    commands.answer((agreeing, lowest, wrong, lost))
    await commands.next()
    attending.cancel()


if __name__ == "__main__":
    from slotreeve_client.tools import run_async

    name, service, number, *rest = sys.argv[1:]
    run_async(watch_lightly(name, service, int(number), rest))
