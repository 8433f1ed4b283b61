"""DNS over UDP and TCP."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping

from slotreeve.errors import AddressInUse, ConfigError
from slotreeve.ports import Context
from slotreeve_gateway import Gateway
from slotreeve_protocol.addresses import is_loopback

from slotreeve_face_dns import DnsOptions
from slotreeve_face_dns.answers import DnsQuery, RejectedQuery
from slotreeve_face_dns.budget import Budget
from slotreeve_face_dns.callers import Callers
from slotreeve_face_dns.responder import DnsResponder

MOST_AT_WORK = 2_000
"""Queries over UDP that wait for the registry; further ones are dropped, and their senders ask again."""
LONGEST_QUERY = 4_096
LENGTH = struct.Struct("!H")


class DnsFace:
    """Implements :class:`slotreeve.ports.Face`.

    Attributes:
        port: where it listens.
        responder: what it answers.

    Raises:
        ConfigError: other machines can reach it, and the option ``strangers`` does not accept that.
    """

    def __init__(self, options: DnsOptions, context: Context) -> None:
        self._options, self._gateway = options, Gateway.of(context)
        host = self._gateway.host.strip("[]")
        if not options.strangers and not is_loopback(host):
            raise ConfigError(
                f"face.dns: {host} can be reached from other machines, and DNS has neither tokens nor TLS; listen on "
                "loopback, or accept it with face.dns.strangers = true"
            )
        self._host = host
        self.responder = DnsResponder(self._gateway, options, host)
        self._budget = Budget(options.udp_bytes_per_source)
        self._at_work: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._callers: Callers[asyncio.Task[None]] = Callers(options.most_connections)
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None
        self._counted = dict.fromkeys(
            ("answers", "rejected", "limited", "dropped", "refused_connections", "slow_connections"), 0
        )
        self.port = options.port

    async def start(self) -> None:
        """See Face."""
        loop = asyncio.get_running_loop()
        try:
            self._tcp = await asyncio.start_server(self._talk, self._host, self._options.port)
            self.port = self._tcp.sockets[0].getsockname()[1]
            self._udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), (self._host, self.port))
        except OSError as error:
            await self.stop()
            raise AddressInUse(f"face.dns: cannot listen at {self._host}, port {self._options.port}: {error}") from None

    async def stop(self) -> None:
        """See Face."""
        if self._udp is not None:
            self._udp.close()
        if self._tcp is not None:
            self._tcp.close()
        ending = [*self._at_work, *self._connections]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def counters(self) -> Mapping[str, int]:
        """See Face."""
        counted = self._counted | {"failed": self.responder.failed}
        return {f"dns_{name}": count for name, count in counted.items()}

    # --- UDP -------------------------------------------------------------------------------------------------------

    def received(self, wire: bytes, source: tuple[str, int]) -> None:
        """A datagram has come."""
        if len(wire) > LONGEST_QUERY:
            self._counted["dropped"] += 1
            return
        is_local = source[0].startswith("127.") or source[0] == "::1"
        query = self.responder.read(wire, over_tcp=False, is_local=is_local)
        if isinstance(query, RejectedQuery):
            self._counted["rejected"] += 1
            if query.reply is not None:
                self._send(query.reply, source)
            return
        reply = self.responder.at_once(query)
        if reply is not None:
            self._send_within_budget(reply, query, len(wire), source, is_local)
        elif len(self._at_work) >= MOST_AT_WORK:
            self._counted["dropped"] += 1
        else:
            work = self._answer_later(query, len(wire), source, is_local)
            task = asyncio.get_running_loop().create_task(work, name="DNS query")
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)

    async def _answer_later(self, query: DnsQuery, asked: int, source: tuple[str, int], is_local: bool) -> None:
        self._send_within_budget(await self.responder.reply(query), query, asked, source, is_local)

    def _send_within_budget(
        self, reply: bytes, query: DnsQuery, asked: int, source: tuple[str, int], is_local: bool
    ) -> None:
        """Send an answer; where it is longer than what was ``asked``, a forged sender gets a stranger so much only."""
        self._counted["answers"] += 1
        free = is_local or len(reply) <= asked
        if not free and not self._budget.allows(source[0], len(reply), self._gateway.clock.now()):
            self._counted["limited"] += 1
            reply = self.responder.cut(query)
        self._send(reply, source)

    def _send(self, reply: bytes, source: tuple[str, int]) -> None:
        if self._udp is not None and not self._udp.is_closing():
            self._udp.sendto(reply, source)

    # --- TCP -------------------------------------------------------------------------------------------------------

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            self._connections.add(task)
            gone = self._callers.came(task, str(writer.get_extra_info("peername", ("",))[0]))
            if gone is not None:
                self._counted["refused_connections"] += 1
                if gone is task:
                    return
                gone.cancel()
            while await self._turn(task, reader, writer):
                self._callers.waits(task)
        except TimeoutError:
            self._counted["slow_connections"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller has gone
        except asyncio.CancelledError:
            pass  # the face stops, or another caller takes this one's place; nobody waits for this task
        finally:
            self._callers.left(task)
            self._connections.discard(task)
            writer.transport.abort()

    async def _turn(self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One query and its answer. False: there is nothing more to say."""
        async with asyncio.timeout(self._options.idle_seconds):
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > LONGEST_QUERY:
                self._counted["rejected"] += 1
                return False
            wire = await reader.readexactly(length)
        self._callers.asks(task)
        query = self.responder.read(wire, over_tcp=True)
        if isinstance(query, RejectedQuery):
            self._counted["rejected"] += 1
            if query.reply is None:
                return False
            reply = query.reply
        else:
            self._counted["answers"] += 1
            reply = await self.responder.reply(query)
        writer.write(LENGTH.pack(len(reply)) + reply)
        async with asyncio.timeout(self._options.idle_seconds):
            await writer.drain()
        return True


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, face: DnsFace) -> None:
        self._face = face

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._face.received(data, addr)

    def error_received(self, exc: Exception) -> None:
        """A source that does not listen any more."""
