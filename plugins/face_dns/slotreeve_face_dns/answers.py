"""Queries as bytes, answers as bytes. Pure."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

import dns.exception
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
from slotreeve_protocol.addresses import AddressKind
from slotreeve_protocol.instance import Health, Instance

from slotreeve_face_dns import DnsOptions, records
from slotreeve_face_dns.names import NameKind, NamePlace, Zone
from slotreeve_face_dns.questions import HEADER, IS_ANSWER, Question, usual_question
from slotreeve_face_dns.records import NO_RECORDS, Records, in_one_message, record, without_owner

IN = dns.rdataclass.IN
A, AAAA, SRV, TXT = dns.rdatatype.A, dns.rdatatype.AAAA, dns.rdatatype.SRV, dns.rdatatype.TXT
CNAME, NS, SOA, HINFO, ANY = (
    dns.rdatatype.CNAME,
    dns.rdatatype.NS,
    dns.rdatatype.SOA,
    dns.rdatatype.HINFO,
    dns.rdatatype.ANY,
)
TRANSFERS = frozenset((dns.rdatatype.AXFR, dns.rdatatype.IXFR))
WITHOUT_EDNS = 512
MOST_LOCAL_BYTES = 65_000
"""Largest answer over UDP to this machine, where no packet is cut in pieces and no sender can be forged."""
MOST_TEXT = 255
KNOWN_NAMES = 16_384
"""Names whose place in the zone is remembered."""


@dataclass(frozen=True, slots=True)
class DnsQuery:
    """A query that is to be answered with what is at a place of the zone, in at most ``limit`` bytes."""

    question: Question
    place: NamePlace
    limit: int


@dataclass(frozen=True, slots=True)
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
        self._origin_length = len(_name_wire(self.zone.origin))
        self._no_more = without_owner(self._soa(), options.ttl_seconds)
        self._place = lru_cache(KNOWN_NAMES)(self.zone.place)

    def read(self, wire: bytes, over_tcp: bool, is_local: bool = False) -> DnsQuery | RejectedQuery:
        """Read a query, whatever the bytes are. ``is_local``: it comes from this machine."""
        question = usual_question(wire)
        if question is None:
            found = self._unusual(wire)
            if not isinstance(found, Question):
                return RejectedQuery(found)
            question = found
        place = self._place(question.name.lower())
        if place is None or question.kind in TRANSFERS:
            return RejectedQuery(records.without_records(question, (), dns.rcode.REFUSED, 0))
        most = records.LARGEST if over_tcp else MOST_LOCAL_BYTES if is_local else self._options.udp_bytes
        limit = most if over_tcp else max(WITHOUT_EDNS, min(question.payload, most))
        return DnsQuery(question, place, limit)

    def _unusual(self, wire: bytes) -> Question | bytes | None:
        """A question that is not of the usual form, or the answer to what is none."""
        if len(wire) < HEADER.size or HEADER.unpack_from(wire)[1] & IS_ANSWER:
            return None  # to answer an answer could make two servers talk for ever
        try:
            message = dns.message.from_wire(wire)
        except (dns.exception.DNSException, ValueError, struct.error, IndexError):
            return _bare(wire, dns.rcode.FORMERR)
        code = _refusal(message)
        if code is not dns.rcode.NOERROR:
            if len(message.question) != 1:  # an answer repeats them all, and could be longer than any message
                return _bare(wire, code)
            reply = dns.message.make_response(message, our_payload=WITHOUT_EDNS if message.edns < 0 else 1_232)
            reply.set_rcode(code)
            return reply.to_wire()
        [asked] = message.question
        name = _name_wire(asked.name)
        of_class = struct.pack("!HH", asked.rdtype, asked.rdclass)
        payload = message.payload if message.edns >= 0 else -1
        return Question(message.id, message.flags, name + of_class, name, asked.rdtype, payload)

    def failed(self, query: DnsQuery, code: dns.rcode.Rcode) -> bytes:
        """Say that there is no answer: SERVFAIL where the registry does not answer, REFUSED without a right."""
        return records.without_records(query.question, (), code, 0)

    def answer(self, query: DnsQuery, found: Records | None) -> bytes:
        """The answer with these records; None: there is no such name."""
        if found is not None and found.answers:
            return records.answer(query.question, found, query.limit, self._rng)
        code = dns.rcode.NXDOMAIN if found is None else dns.rcode.NOERROR
        authority = records.owned_by_end_of(query.question, self._origin_length, self._no_more)
        return records.without_records(query.question, [authority], code)

    def cut(self, query: DnsQuery) -> bytes:
        """An answer without records that asks to ask again by TCP. It is no longer than the query."""
        return records.without_records(query.question, (), 0, records.IS_CUT)

    # --- records ---------------------------------------------------------------------------------------------------

    def own(self, place: NamePlace, kind: int) -> Records | None:
        """The records at a place that is no service; None: there is no such name."""
        match place.kind:
            case NameKind.NOTHING:
                return None
            case NameKind.APEX:
                return self._apex(kind)
            case NameKind.NAME_SERVER:
                return self._plain(_of_address(kind, self._host))
            case NameKind.ADDRESS:
                return self._plain(_of_address(kind, place.address))
            case _:
                return NO_RECORDS

    def _apex(self, kind: int) -> Records:
        if kind == SOA:
            return self._plain([self._soa()])
        if kind == NS:
            server = self.zone.name_server
            own = [*_of_address(A, self._host), *_of_address(AAAA, self._host)]
            beside = tuple(without_owner(data, self._options.ttl_seconds) for data in own) or (b"",)
            return Records(self._plain([dns.rdtypes.ANY.NS.NS(IN, NS, server)]).answers, beside=beside)
        return self._unasked(kind)

    def _unasked(self, kind: int) -> Records:
        """What is said to who asks for all types, or for one that is not there."""
        return self._plain([dns.rdtypes.ANY.HINFO.HINFO(IN, HINFO, b"RFC8482", b"")]) if kind == ANY else NO_RECORDS

    def of_service(self, instances: Sequence[Instance], tag: str, kind: int) -> Records:
        """The records of a service."""
        good = callable_ones(instances, tag)
        if kind == SRV:
            return self._srv([instance for instance in good if instance.port])
        if kind == TXT:
            return self._weighed([(instance, _text(instance)) for instance in good])
        if kind not in (A, AAAA):
            return self._unasked(kind)
        wanted = AddressKind.IPV4 if kind == A else AddressKind.IPV6
        found: dict[str, Instance] = {}
        for instance in good:
            if instance.address_kind is wanted:
                heavier = found.get(instance.address, instance)  # several may listen at one address
                found[instance.address] = instance if instance.weight > heavier.weight else heavier
        if found or any(instance.address_kind is not AddressKind.NAME for instance in good):
            return self._weighed([(one, _address_record(ip_address(one.address))) for one in found.values()])
        # A name may have one alias only.
        return self._weighed([(instance, _alias(instance)) for instance in good], only_one=True)

    def _srv(self, good: Sequence[Instance]) -> Records:
        pairs: list[tuple[Instance, dns.rdata.Rdata]] = []
        beside: list[bytes] = []
        for one in good:
            if one.address_kind is AddressKind.NAME:
                target = dns.name.from_text(one.address)
                beside.append(b"")
            else:
                target = self.zone.of_address(one.address)
                beside.append(without_owner(_address_record(ip_address(one.address)), self._options.ttl_seconds))
            pairs.append((one, dns.rdtypes.IN.SRV.SRV(IN, SRV, 1, one.weight, one.port, target)))
        found = self._weighed(pairs)
        return in_one_message(Records(found.answers, found.weights, tuple(beside), records.SRV_TARGET_AT))

    def _weighed(self, pairs: Sequence[tuple[Instance, dns.rdata.Rdata]], only_one: bool = False) -> Records:
        weights = tuple(instance.weight for instance, _ in pairs)
        if len(set(weights)) <= 1:
            weights = ()
        answers = tuple(record(data, self._options.ttl_seconds) for _, data in pairs)
        return in_one_message(Records(answers, weights, only_one=only_one))

    def _plain(self, data: Iterable[dns.rdata.Rdata]) -> Records:
        return Records(tuple(record(one, self._options.ttl_seconds) for one in data))

    def _soa(self) -> dns.rdata.Rdata:
        mailbox = dns.name.Name([b"hostmaster", *self.zone.origin.labels])
        # Nobody transfers the zone, so its serial number never changes. The last number is how long "no" may be kept.
        return dns.rdtypes.ANY.SOA.SOA(
            IN, SOA, self.zone.name_server, mailbox, 1, 3600, 600, 86_400, self._options.ttl_seconds
        )


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


def _name_wire(name: dns.name.Name) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in name.labels)


def _refusal(message: dns.message.Message) -> dns.rcode.Rcode:
    if message.opcode() is not dns.opcode.QUERY:
        return dns.rcode.NOTIMP
    if len(message.question) != 1:
        return dns.rcode.FORMERR
    if message.edns > 0:
        return dns.rcode.BADVERS
    return dns.rcode.NOERROR if message.question[0].rdclass is IN else dns.rcode.REFUSED


def _bare(wire: bytes, code: dns.rcode.Rcode) -> bytes:
    """A header alone, for what cannot be read; no longer than what came."""
    number, flags = HEADER.unpack_from(wire)[:2]
    return HEADER.pack(number, IS_ANSWER | (flags & 0x7900) | int(code), 0, 0, 0, 0)


def _of_address(kind: int, address: IPv4Address | IPv6Address | None) -> Iterator[dns.rdata.Rdata]:
    if (kind == A and isinstance(address, IPv4Address)) or (kind == AAAA and isinstance(address, IPv6Address)):
        yield _address_record(address)


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
