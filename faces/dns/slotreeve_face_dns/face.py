"""DNS over UDP and TCP."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Mapping

import dns.rcode
from slotreeve.errors import AccessError, AddressInUse, ConfigError, SlotreeveError
from slotreeve.ports import Context
from slotreeve_gateway import Caller, Gateway, Right
from slotreeve_protocol.addresses import is_loopback

from slotreeve_face_dns import DnsOptions
from slotreeve_face_dns.answers import DnsAnswers, DnsQuery, RejectedQuery
from slotreeve_face_dns.budget import Budget
from slotreeve_face_dns.names import DnsServices, NameKind

log = logging.getLogger("slotreeve.gateway.dns")

MOST_AT_WORK = 2_000
"""Queries over UDP that wait for the registry; further ones are dropped, and their senders ask again."""
LONGEST_QUERY = 4_096
LENGTH = struct.Struct("!H")


class DnsFace:
    """Implements :class:`slotreeve.ports.Face`.

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
        self._answers = DnsAnswers(options, self._gateway.rng, host)
        self._budget = Budget(options.udp_bytes_per_source)
        self._known: tuple[object, DnsServices] = (None, DnsServices(()))
        self._at_work: set[asyncio.Task[None]] = set()
        self._connections: set[asyncio.Task[None]] = set()
        self._udp: asyncio.DatagramTransport | None = None
        self._tcp: asyncio.Server | None = None
        self._counted = dict.fromkeys(
            ("answers", "rejected", "failed", "limited", "dropped", "refused_connections", "slow_connections"), 0
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
        return {f"dns_{name}": count for name, count in self._counted.items()}

    # --- answers ---------------------------------------------------------------------------------------------------

    async def _reply(self, wire: bytes, over_tcp: bool) -> tuple[bytes | None, DnsQuery | None]:
        """The answer, and the query where it is one that could be cut short."""
        query = self._answers.read(wire, over_tcp)
        if isinstance(query, RejectedQuery):
            self._counted["rejected"] += 1
            return query.reply, None
        self._counted["answers"] += 1
        try:
            return await self._found(query), query
        except AccessError:
            return self._answers.failed(query, dns.rcode.REFUSED), query
        except SlotreeveError as error:
            log.debug("no answer to a query: %s", error)
        except Exception:
            log.exception("a query failed")
        self._counted["failed"] += 1
        return self._answers.failed(query, dns.rcode.SERVFAIL), query

    async def _found(self, query: DnsQuery) -> bytes:
        caller = self._gateway.access.caller(None)
        place = query.place
        if place.kind is not NameKind.SERVICE:
            return self._answers.answer(query, None if place.kind is NameKind.NOTHING else ())
        services = await self._services(caller)
        data_info_id = services.named(place.service)
        if data_info_id is None:
            return self._answers.answer(query, () if services.has_below(place.service) else None)
        caller.require(Right.READ, data_info_id)
        view = await self._gateway.registry.view(data_info_id)
        return self._answers.answer(query, view.instances)

    async def _services(self, caller: Caller) -> DnsServices:
        """The names that callers without a token may see; made anew after a change only. What may not be seen is not
        there for them."""
        listed = await self._gateway.registry.directory.services()
        if self._known[0] is not listed:
            self._known = (listed, DnsServices(name for name in listed if caller.may(Right.READ, name)))
        return self._known[1]

    # --- UDP -------------------------------------------------------------------------------------------------------

    def received(self, wire: bytes, source: tuple[str, int]) -> None:
        """A datagram has come."""
        if len(self._at_work) >= MOST_AT_WORK or len(wire) > LONGEST_QUERY:
            self._counted["dropped"] += 1
            return
        task = asyncio.get_running_loop().create_task(self._answer_datagram(wire, source), name="DNS query")
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def _answer_datagram(self, wire: bytes, source: tuple[str, int]) -> None:
        reply, query = await self._reply(wire, over_tcp=False)
        if reply is None or self._udp is None or self._udp.is_closing():
            return
        if len(reply) > len(wire) and not self._budget.allows(source[0], len(reply), self._gateway.clock.now()):
            self._counted["limited"] += 1
            if query is None:
                return
            reply = self._answers.cut(query)
        self._udp.sendto(reply, source)

    # --- TCP -------------------------------------------------------------------------------------------------------

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._connections) >= self._options.most_connections:
                self._counted["refused_connections"] += 1
                return
            self._connections.add(task)
            while await self._turn(reader, writer):
                pass
        except TimeoutError:
            self._counted["slow_connections"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the caller has gone
        except asyncio.CancelledError:
            pass  # the face stops; nobody waits for this task
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _turn(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One query and its answer. False: there is nothing more to say."""
        async with asyncio.timeout(self._options.idle_seconds):
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > LONGEST_QUERY:
                self._counted["rejected"] += 1
                return False
            wire = await reader.readexactly(length)
        reply, _ = await self._reply(wire, over_tcp=True)
        if reply is None:
            return False
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
