"""Queries as bytes, answers as bytes. Pure."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.HINFO
import dns.rdtypes.ANY.NS
import dns.rdtypes.ANY.SOA
import dns.rdtypes.ANY.TXT
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.rdtypes.IN.SRV
import dns.rrset
from slotreeve_protocol.addresses import AddressKind
from slotreeve_protocol.instance import Health, Instance

from slotreeve_face_dns import DnsOptions
from slotreeve_face_dns.names import NameKind, NamePlace, Zone

IN = dns.rdataclass.IN
A, AAAA, SRV, TXT = dns.rdatatype.A, dns.rdatatype.AAAA, dns.rdatatype.SRV, dns.rdatatype.TXT
CNAME, NS, SOA, HINFO, ANY = (
    dns.rdatatype.CNAME,
    dns.rdatatype.NS,
    dns.rdatatype.SOA,
    dns.rdatatype.HINFO,
    dns.rdatatype.ANY,
)
TRANSFERS = {dns.rdatatype.AXFR, dns.rdatatype.IXFR}
WITHOUT_EDNS = 512
LARGEST = 65_535
MOST_TEXT = 255
HEADER = struct.Struct("!HHHHHH")
_IS_ANSWER = 0x8000
Record = tuple[dns.name.Name, dns.rdata.Rdata]


@dataclass(frozen=True)
class DnsQuery:
    """A query that is to be answered with what is at a place of the zone."""

    message: dns.message.Message
    name: dns.name.Name
    kind: dns.rdatatype.RdataType
    place: NamePlace
    limit: int


@dataclass(frozen=True)
class RejectedQuery:
    """What is not to be answered with records. ``reply`` is None where nothing is said at all."""

    reply: bytes | None


class DnsAnswers:
    """The zone's answers.

    Args:
        options: names and bounds.
        rng: the order of answers.
        host: where the face listens, for the address of the name server; it has none where that is no address.
    """

    def __init__(self, options: DnsOptions, rng: random.Random, host: str) -> None:
        self._options, self._rng, self.zone = options, rng, Zone(options.domain)
        try:
            address = ip_address(host)
        except ValueError:
            self._host = None
        else:
            self._host = None if address.is_unspecified else address

    def read(self, wire: bytes, over_tcp: bool) -> DnsQuery | RejectedQuery:
        """Read a query, whatever the bytes are."""
        if len(wire) < HEADER.size or HEADER.unpack_from(wire)[1] & _IS_ANSWER:
            return RejectedQuery(None)  # to answer an answer could make two servers talk for ever
        try:
            message = dns.message.from_wire(wire)
        except (dns.exception.DNSException, ValueError, struct.error, IndexError):
            return RejectedQuery(_bare(wire, dns.rcode.FORMERR))
        limit = LARGEST if over_tcp else self._limit(message)
        code = self._refusal(message)
        if code is not dns.rcode.NOERROR:
            return RejectedQuery(self._wire(_reply(message, code), limit))
        [asked] = message.question
        return DnsQuery(message, asked.name, asked.rdtype, self.zone.place(asked.name), limit)

    def _limit(self, message: dns.message.Message) -> int:
        if message.edns < 0:
            return WITHOUT_EDNS
        return max(WITHOUT_EDNS, min(message.payload, self._options.udp_bytes))

    def _refusal(self, message: dns.message.Message) -> dns.rcode.Rcode:
        if message.opcode() is not dns.opcode.QUERY:
            return dns.rcode.NOTIMP
        if len(message.question) != 1:
            return dns.rcode.FORMERR
        if message.edns > 0:
            return dns.rcode.BADVERS
        [asked] = message.question
        if asked.rdclass is not IN or asked.rdtype in TRANSFERS or not self.zone.has(asked.name):
            return dns.rcode.REFUSED
        return dns.rcode.NOERROR

    def failed(self, query: DnsQuery, code: dns.rcode.Rcode) -> bytes:
        """Say that there is no answer: SERVFAIL where the registry does not answer, REFUSED without a right."""
        return self._wire(_reply(query.message, code), query.limit)

    def answer(self, query: DnsQuery, instances: Sequence[Instance] | None) -> bytes:
        """The answer. ``instances`` are those of the service that the name points to; None: there is no such name."""
        if instances is None:
            return self._negative(query, dns.rcode.NXDOMAIN)
        reply = _reply(query.message, dns.rcode.NOERROR)
        reply.flags |= dns.flags.AA
        answers, additional = self._records(query, instances)
        if not answers:
            return self._negative(query, dns.rcode.NOERROR)
        # One by one, so that as many stay as there is room for.
        reply.answer = [self._rrset(name, record) for name, record in answers]
        reply.additional = [self._rrset(name, record) for name, record in dict.fromkeys(additional)]
        return self._wire(reply, query.limit)

    def _negative(self, query: DnsQuery, code: dns.rcode.Rcode) -> bytes:
        reply = _reply(query.message, code)
        reply.flags |= dns.flags.AA
        reply.authority = [self._rrset(self.zone.origin, self._soa())]
        return self._wire(reply, query.limit)

    def cut(self, query: DnsQuery) -> bytes:
        """An answer without records that asks to ask again by TCP. It is no longer than the query."""
        reply = _reply(query.message, dns.rcode.NOERROR)
        reply.flags |= dns.flags.TC
        return self._wire(reply, query.limit)

    def _records(self, query: DnsQuery, instances: Sequence[Instance]) -> tuple[list[Record], list[Record]]:
        """Records of the answer, and additional ones."""
        if query.kind is ANY and query.place.kind in (NameKind.SERVICE, NameKind.APEX):
            return [(query.name, dns.rdtypes.ANY.HINFO.HINFO(IN, HINFO, b"RFC8482", b""))], []
        match query.place.kind:
            case NameKind.APEX:
                return self._apex(query)
            case NameKind.NAME_SERVER:
                return list(_of_address(query.name, query.kind, self._host)), []
            case NameKind.ADDRESS:
                return list(_of_address(query.name, query.kind, query.place.address)), []
            case NameKind.SERVICE:
                return self._service(query, instances)
            case _:
                return [], []

    def _apex(self, query: DnsQuery) -> tuple[list[Record], list[Record]]:
        if query.kind is SOA:
            return [(query.name, self._soa())], []
        if query.kind is NS:
            server = self.zone.name_server
            own = [*_of_address(server, A, self._host), *_of_address(server, AAAA, self._host)]
            return [(query.name, dns.rdtypes.ANY.NS.NS(IN, NS, server))], own
        return [], []

    def _service(self, query: DnsQuery, instances: Sequence[Instance]) -> tuple[list[Record], list[Record]]:
        good = callable_ones(instances, query.place.tag)
        if query.kind is SRV:
            chosen = self._chosen([instance for instance in good if instance.port])
            return self._srv(query.name, chosen)
        if query.kind is TXT:
            return [(query.name, _text(instance)) for instance in self._chosen(good)], []
        if query.kind not in (A, AAAA):
            return [], []
        wanted = AddressKind.IPV4 if query.kind is A else AddressKind.IPV6
        found = self._chosen([instance for instance in good if instance.address_kind is wanted])
        if found:
            addresses = dict.fromkeys(instance.address for instance in found)  # several may listen at one address
            return [r for text in addresses for r in _of_address(query.name, query.kind, ip_address(text))], []
        if any(instance.address_kind is not AddressKind.NAME for instance in good):
            return [], []
        named = self._chosen(good)[:1]  # a name may have one alias only
        return [(query.name, _alias(instance)) for instance in named], []

    def _srv(self, name: dns.name.Name, chosen: Iterable[Instance]) -> tuple[list[Record], list[Record]]:
        answers: list[Record] = []
        additional: list[Record] = []
        for instance in chosen:
            if instance.address_kind is AddressKind.NAME:
                target = dns.name.from_text(instance.address)
            else:
                target = self.zone.of_address(instance.address)
                kind = A if instance.address_kind is AddressKind.IPV4 else AAAA
                additional += _of_address(target, kind, ip_address(instance.address))
            answers.append((name, dns.rdtypes.IN.SRV.SRV(IN, SRV, 1, instance.weight, instance.port, target)))
        return answers, additional

    def _chosen(self, instances: Sequence[Instance]) -> list[Instance]:
        """In random order, where one of twice the weight comes first twice as often (Efraimidis and Spirakis)."""
        keyed = [(self._rng.random() ** (1 / max(instance.weight, 1)), instance) for instance in instances]
        keyed.sort(key=lambda pair: pair[0], reverse=True)
        return [instance for _, instance in keyed[: self._options.most_answers]]

    def _rrset(self, name: dns.name.Name, record: dns.rdata.Rdata) -> dns.rrset.RRset:
        return dns.rrset.from_rdata(name, self._options.ttl_seconds, record)

    def _soa(self) -> dns.rdata.Rdata:
        mailbox = dns.name.Name([b"hostmaster", *self.zone.origin.labels])
        # Nobody transfers the zone, so its serial number never changes. The last number is how long "no" may be kept.
        return dns.rdtypes.ANY.SOA.SOA(
            IN, SOA, self.zone.name_server, mailbox, 1, 3600, 600, 86_400, self._options.ttl_seconds
        )

    def _wire(self, reply: dns.message.Message, limit: int) -> bytes:
        return reply.to_wire(max_size=limit, prefer_truncation=True)


def callable_ones(instances: Iterable[Instance], tag: str) -> list[Instance]:
    """The instances that may be called: enabled, not critical, of some weight unless all have none, with this tag in
    small letters unless it is empty."""
    good = [
        instance
        for instance in instances
        if instance.enabled
        and instance.health is not Health.CRITICAL
        and (not tag or tag in (text.lower() for text in instance.tags))
    ]
    return [instance for instance in good if instance.weight] or good


def _reply(message: dns.message.Message, code: dns.rcode.Rcode) -> dns.message.Message:
    reply = dns.message.make_response(message, our_payload=WITHOUT_EDNS if message.edns < 0 else 1_232)
    reply.set_rcode(code)
    return reply


def _bare(wire: bytes, code: dns.rcode.Rcode) -> bytes:
    """A header alone, for what cannot be read; no longer than what came."""
    number, flags = HEADER.unpack_from(wire)[:2]
    return HEADER.pack(number, _IS_ANSWER | (flags & 0x7900) | int(code), 0, 0, 0, 0)


def _of_address(
    name: dns.name.Name, kind: dns.rdatatype.RdataType, address: IPv4Address | IPv6Address | None
) -> Iterator[Record]:
    if (kind is A and isinstance(address, IPv4Address)) or (kind is AAAA and isinstance(address, IPv6Address)):
        yield name, _address_record(address)


@lru_cache(maxsize=16_384)
def _address_record(address: IPv4Address | IPv6Address) -> dns.rdata.Rdata:
    if isinstance(address, IPv4Address):
        return dns.rdtypes.IN.A.A(IN, A, str(address))
    return dns.rdtypes.IN.AAAA.AAAA(IN, AAAA, str(address))


def _alias(instance: Instance) -> dns.rdata.Rdata:
    return dns.rdtypes.ANY.CNAME.CNAME(IN, CNAME, dns.name.from_text(instance.address))


def _text(instance: Instance) -> dns.rdata.Rdata:
    """``id=ID`` and the metadata as ``key=value``; what does not fit into 255 bytes is left out."""
    pairs = [("id", instance.id), *instance.metadata.items()]
    texts = [f"{key}={value}".encode() for key, value in pairs]
    return dns.rdtypes.ANY.TXT.TXT(IN, TXT, [text for text in texts if len(text) <= MOST_TEXT] or [b""])
