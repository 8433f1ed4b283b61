"""Answers of the DNS face: bytes in, bytes out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from slotreeve_face_dns import DnsOptions
from slotreeve_face_dns.answers import DnsAnswers, DnsQuery, RejectedQuery, callable_ones
from slotreeve_face_dns.budget import MOST_SOURCES, Budget
from slotreeve_face_dns.names import DnsServices, NameKind
from slotreeve_face_dns.records import NO_RECORDS
from slotreeve_protocol.instance import Health, Instance

NAME = "com.example.greeter.service.slotreeve."
ONE = Instance("10.0.0.1", 8080, weight=7, tags=("Blue",), metadata={"version": "1.2"})
SIX = Instance("2001:db8::1", 8081)
NAMED = Instance("db.example.com", 5432)
MANY = tuple(Instance(f"10.0.{i // 250}.{i % 250}", 80) for i in range(500))


def answers(seed: int = 1, host: str = "127.0.0.1", **options: object) -> DnsAnswers:
    return DnsAnswers(DnsOptions.model_validate(options), random.Random(seed), host)


def query(name: str = NAME, kind: str = "A", payload: int | None = None) -> dns.message.Message:
    return dns.message.make_query(name, kind, use_edns=payload is not None, payload=payload or 0)


def ask(
    message: dns.message.Message,
    *instances: Instance,
    there: bool = True,
    of: DnsAnswers | None = None,
    over_tcp: bool = False,
) -> dns.message.Message:
    of = of or answers()
    read = of.read(message.to_wire(), over_tcp)
    wire = reply_to(of, read, instances if there else None)
    assert wire is not None
    reply = dns.message.from_wire(wire)
    assert reply.id == message.id
    assert reply.question == message.question
    return reply


def reply_to(of: DnsAnswers, read: DnsQuery | RejectedQuery, instances: Sequence[Instance] | None = ()) -> bytes | None:
    """The reply of a face whose registry has these instances of every service; None: no service."""
    if isinstance(read, RejectedQuery):
        return read.reply
    if read.place.kind not in (NameKind.SERVICE, NameKind.PART):
        return of.answer(read, of.own(read.place, read.question.kind))
    if instances is None:
        return of.answer(read, None)
    found = NO_RECORDS if read.place.kind is NameKind.PART else None
    return of.answer(read, found or of.of_service(instances, read.place.tag, read.question.kind))


def lines(section: list[dns.rrset.RRset]) -> list[str]:
    return sorted(f"{rrset.name} {dns.rdatatype.to_text(rrset.rdtype)} {rdata}" for rrset in section for rdata in rrset)


def rcode(message: dns.message.Message) -> str:
    return dns.rcode.to_text(message.rcode())


def test_addresses_are_answered_by_their_kind_and_with_authority() -> None:
    reply = ask(query(), ONE, SIX, NAMED)
    assert lines(reply.answer) == [f"{NAME} A 10.0.0.1"]
    assert reply.flags & dns.flags.AA
    assert not reply.flags & dns.flags.RA
    assert lines(ask(query(kind="AAAA"), ONE, SIX, NAMED).answer) == [f"{NAME} AAAA 2001:db8::1"]
    assert lines(ask(query(), NAMED).answer) == [f"{NAME} CNAME db.example.com."]


@pytest.mark.parametrize(
    "name", [NAME, "_com.example.Greeter._tcp.service.slotreeve.", "_com.example.greeter._udp.slotreeve."]
)
def test_srv_records_have_port_weight_and_the_address_of_their_target(name: str) -> None:
    reply = ask(query(name, "SRV"), ONE, SIX, NAMED, Instance("10.9.9.9"))
    assert lines(reply.answer) == [
        f"{name} SRV 1 100 5432 db.example.com.",
        f"{name} SRV 1 100 8081 20010db8000000000000000000000001.addr.slotreeve.",
        f"{name} SRV 1 7 8080 0a000001.addr.slotreeve.",
    ]
    assert lines(reply.additional) == [
        "0a000001.addr.slotreeve. A 10.0.0.1",
        "20010db8000000000000000000000001.addr.slotreeve. AAAA 2001:db8::1",
    ]


def test_the_target_of_an_srv_record_can_be_asked_for_by_itself() -> None:
    assert lines(ask(query("0A000001.addr.slotreeve.")).answer) == ["0A000001.addr.slotreeve. A 10.0.0.1"]
    assert not ask(query("0a000001.addr.slotreeve.", "AAAA")).answer


def test_a_word_that_is_no_protocol_is_a_tag() -> None:
    name = "_com.example.Greeter._BLUE.service.slotreeve."
    assert len(ask(query(name, "SRV"), ONE, SIX).answer[0]) == 1
    assert len(ask(query(name.replace("BLUE", "red"), "SRV"), ONE, SIX).answer) == 0


def test_text_is_the_id_and_the_metadata_that_fits() -> None:
    long = Instance("10.0.0.1", 1, metadata={"k": "v", "long": 300 * "x"})
    assert lines(ask(query(kind="TXT"), long).answer) == [f'{NAME} TXT "id=10.0.0.1:1" "k=v"']


def test_only_what_may_be_called_is_answered_and_the_heavy_first_in_proportion() -> None:
    disabled, critical = Instance("10.0.0.2", enabled=False), Instance("10.0.0.3", health=Health.CRITICAL)
    warning, drained = Instance("10.0.0.4", health=Health.WARNING), Instance("10.0.0.5", weight=0)
    assert callable_ones([disabled, critical, warning, drained], "") == [warning]
    assert callable_ones([drained, disabled], "") == [drained]  # a weight of 0 means none, unless all have 0
    of = answers()
    light, heavy = Instance("10.0.0.6", weight=1), Instance("10.0.0.7", weight=3)
    first = Counter(str(ask(query(), light, heavy, of=of).answer[0][0]) for _ in range(2_000))
    assert 0.7 < first["10.0.0.7"] / 2_000 < 0.8


def test_there_is_no_name_only_where_nothing_is_and_no_data_otherwise() -> None:
    for reply, code in (
        (ask(query(), there=False), "NXDOMAIN"),
        (ask(query(), SIX), "NOERROR"),
        (ask(query(), Instance("10.0.0.1", enabled=False)), "NOERROR"),
        (ask(query(kind="MX"), ONE), "NOERROR"),
        (ask(query("service.slotreeve.", "A")), "NOERROR"),
        (ask(query("slotreeve.", "A")), "NOERROR"),
    ):
        assert rcode(reply) == code
        assert not reply.answer
        assert lines(reply.authority)[0].startswith("slotreeve. SOA ns.slotreeve. hostmaster.slotreeve.")


def test_the_zone_tells_of_itself() -> None:
    assert lines(ask(query("slotreeve.", "NS")).answer) == ["slotreeve. NS ns.slotreeve."]
    assert lines(ask(query("slotreeve.", "NS")).additional) == ["ns.slotreeve. A 127.0.0.1"]
    assert "SOA" in lines(ask(query("SLOTREEVE.", "SOA")).answer)[0]
    assert lines(ask(query("ns.slotreeve."), of=answers(host="0.0." + "0.0")).answer) == []
    assert "RFC8482" in lines(ask(query(kind="ANY"), ONE).answer)[0]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ns.slotreeve.", NameKind.NAME_SERVER),
        ("A.B.Service.SlotReeve.", NameKind.SERVICE),
        ("_tcp.service.slotreeve.", NameKind.NODE),
        ("_tcp.slotreeve.", NameKind.NODE),
        ("_blue.service.slotreeve.", NameKind.NODE),
        ("a._tcp.service.slotreeve.", NameKind.PART),
        ("example.Shop._tcp.slotreeve.", NameKind.PART),
        ("a.slotreeve.", NameKind.NOTHING),
        ("zz.addr.slotreeve.", NameKind.NOTHING),
        ("0a.addr.slotreeve.", NameKind.NOTHING),
        ("a.0a000001.addr.slotreeve.", NameKind.NOTHING),
        ("a\\.b.service.slotreeve.", NameKind.NOTHING),
        ("\\255.service.slotreeve.", NameKind.NOTHING),
    ],
)
def test_each_name_of_the_zone_has_its_place(name: str, kind: NameKind) -> None:
    place = answers().zone.place(dns.name.from_text(name.lower()).to_wire() or b"")
    assert place is not None
    assert place.kind is kind


def test_names_of_services_are_found_in_any_letters_and_the_names_above_them_are_there() -> None:
    group = "#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
    services = DnsServices(
        [f"com.example.Greeter{group}", f"com.example.greeter{group}", "b.C#@#tenant#@#DEFAULT_GROUP"]
    )
    assert services.named("com.example.greeter") == f"com.example.Greeter{group}"
    assert services.named("b.c") is None
    assert [services.has_below(n) for n in ("greeter", "example.greeter", "com", "c")] == [True, True, False, False]


def test_what_does_not_fit_is_cut_and_asked_by_tcp() -> None:
    cut = ask(query(payload=1_232), *MANY)
    assert cut.flags & dns.flags.TC
    assert 10 < len(cut.answer[0]) < 100
    assert len(cut.to_wire()) <= 1_232
    whole = ask(query(), *MANY, over_tcp=True)
    assert not whole.flags & dns.flags.TC
    assert len(whole.answer[0]) == 500


@pytest.mark.parametrize(("payload", "most"), [(None, 512), (0, 512), (600, 600), (4_096, 1_232), (65_535, 1_232)])
def test_an_answer_over_udp_is_as_large_as_its_caller_takes_within_bounds(payload: int | None, most: int) -> None:
    of = answers()
    read = of.read(query(payload=payload).to_wire(), over_tcp=False)
    assert most - 40 < len(reply_to(of, read, MANY) or b"") <= most


def test_additional_records_are_left_out_before_answers_are() -> None:
    few = MANY[:10]
    reply = ask(query(kind="SRV"), *few)
    assert not reply.flags & dns.flags.TC
    assert len(reply.answer[0]) == 10
    assert sum(map(len, reply.additional)) < 10


@pytest.mark.parametrize("kind", ["A", "SRV", "TXT"])
@pytest.mark.parametrize("count", [1, 16, 17, 40, 400])
def test_the_whole_service_is_answered_or_all_of_it_is_asked_by_tcp(kind: str, count: int) -> None:
    some = [Instance(one.address, 80, weight=index % 3 + 1) for index, one in enumerate(MANY[:count])]
    of = answers()
    for payload, is_local in ((512, False), (1_232, False), (8_192, True)):
        read = of.read(query(kind=kind, payload=payload).to_wire(), over_tcp=False, is_local=is_local)
        reply = dns.message.from_wire(reply_to(of, read, some) or b"")
        is_whole = len(reply.answer[0]) == count
        assert is_whole != bool(reply.flags & dns.flags.TC)
        assert is_whole or len(reply.to_wire()) <= payload
        assert not (is_local and count <= 40) or is_whole, "no packet is cut on this machine"
    assert len(ask(query(kind=kind), *some, over_tcp=True).answer[0]) == count


def test_what_is_too_much_for_tcp_is_always_the_same_part_of_it() -> None:
    many = [Instance(f"10.{i // 62_500}.{i // 250 % 250}.{i % 250}", 80) for i in range(3_000)]
    of = answers()
    replies = [ask(query(kind="SRV"), *many, of=of, over_tcp=True) for _ in range(2)]
    assert not any(reply.flags & dns.flags.TC for reply in replies)
    first, second = (frozenset(lines(reply.answer)) for reply in replies)
    assert first == second
    assert 1_000 < len(first) < 3_000


@pytest.mark.parametrize("form", ["{}", "{}.service"])
def test_every_name_above_that_of_a_service_is_there(form: str) -> None:
    """As resolvers ask that tell each server no more of a name than it must know (RFC 9156)."""
    of, services = answers(), DnsServices(["com.example.Shop#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"])
    for name in ("_com.example.Shop._tcp", "_com.example.Shop._udp", "_com.example.Shop._blue", "com.example.Shop"):
        if form == "{}" and not name.startswith("_"):
            continue
        labels = (form.format(name) + ".slotreeve").split(".")
        for at in range(1, len(labels)):
            place = of.zone.place(dns.name.from_text(".".join(labels[at:]).lower()).to_wire() or b"")
            assert place is not None
            assert place.kind in (NameKind.APEX, NameKind.NODE) or services.has_below(place.service), labels[at:]
    place = of.zone.place(dns.name.from_text("other.Shop._tcp.slotreeve".lower()).to_wire() or b"")
    assert place is not None
    assert not services.has_below(place.service)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (query("example.com."), "REFUSED"),
        (query("xslotreeve."), "REFUSED"),
        (query("slotreeve.", "AXFR"), "REFUSED"),
        (dns.message.make_query("slotreeve.", "SOA", "CH"), "REFUSED"),
        (dns.message.make_query(NAME, "A", use_edns=1), "BADVERS"),
    ],
    ids=["another zone", "a longer label", "a transfer", "another class", "a later EDNS"],
)
def test_what_is_not_for_this_zone_is_refused(message: dns.message.Message, code: str) -> None:
    reply = ask(message)
    assert rcode(reply) == code
    assert not reply.answer


def test_other_opcodes_several_questions_and_garbage_are_refused() -> None:
    notify = query()
    notify.set_opcode(dns.opcode.NOTIFY)
    assert rcode(ask(notify)) == "NOTIMP"
    two = query()
    two.question += query("slotreeve.").question
    many = query()
    for number in range(30):
        many.question += query(f"{'long' * 10}{number}.service.slotreeve.").question
    for malformed in (two.to_wire(), many.to_wire(), query().to_wire()[:-3]):
        read = answers().read(malformed, over_tcp=False)
        assert isinstance(read, RejectedQuery)
        assert read.reply is not None
        assert (len(read.reply), read.reply[3] & 15) == (12, dns.rcode.FORMERR)


def test_of_instances_with_names_one_is_an_alias_however_many_there_are() -> None:
    named = [Instance(f"node-{number:05d}.{'rack' * 10}.example.com", 80) for number in range(1_300)]
    for over_tcp in (True, False):
        of = answers()
        reply = reply_to(of, of.read(query().to_wire(), over_tcp), named)
        assert reply is not None
        message = dns.message.from_wire(reply)
        assert [len(found) for found in message.answer] == [1]
        assert not message.flags & dns.flags.TC


@pytest.mark.parametrize(
    "wire", [b"", b"short", dns.message.make_response(query()).to_wire()], ids=["nothing", "a part", "an answer"]
)
def test_what_is_no_query_gets_no_reply(wire: bytes) -> None:
    assert answers().read(wire, over_tcp=False) == RejectedQuery(None)


@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda rest: query().to_wire()[:12] + rest))
@example(query(payload=1_232).to_wire() + b"\x00")
def test_whatever_the_bytes_are_the_reply_is_short_and_can_be_read(wire: bytes) -> None:
    of = answers()
    read = of.read(wire, over_tcp=False)
    reply = reply_to(of, read, [ONE])
    if reply is not None:
        assert reply[:2] == wire[:2]
        assert len(reply) <= 1_232
        assert dns.message.from_wire(reply, question_only=True).flags & dns.flags.QR


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_a_damaged_query_is_never_more_than_an_error(at: int, with_: bytes) -> None:
    good = query(payload=1_232).to_wire()
    at %= len(good)
    of = answers()
    read = of.read(good[:at] + with_ + good[at + len(with_) :], over_tcp=False)
    if isinstance(read, DnsQuery):
        reply_to(of, read, [ONE, SIX])
        of.cut(read)
        of.failed(read, dns.rcode.SERVFAIL)


def test_an_answer_that_is_cut_is_no_larger_than_its_query() -> None:
    for message in (query(), query(payload=4_096)):
        of = answers()
        read = of.read(message.to_wire(), over_tcp=False)
        assert isinstance(read, DnsQuery)
        cut = of.cut(read)
        assert len(cut) <= len(message.to_wire())
        assert dns.message.from_wire(cut).flags & dns.flags.TC


def test_a_source_gets_its_bytes_of_each_second_and_there_are_not_too_many_sources() -> None:
    budget = Budget(1_000)
    assert [budget.allows("a", 400, 5.0), budget.allows("a", 600, 5.9), budget.allows("a", 1, 5.9)] == [
        True,
        True,
        False,
    ]
    assert budget.allows("b", 1_000, 5.9)
    assert budget.allows("a", 1_000, 6.0)
    full = Budget(1_000)
    assert all(full.allows(str(i), 1, 0.5) for i in range(MOST_SOURCES))
    assert not full.allows("one more", 1, 0.5)
    assert full.allows("1", 1, 0.5)
