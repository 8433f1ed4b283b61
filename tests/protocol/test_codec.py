"""The bytes on the wire: golden frames, round trips, and garbage."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import MalformedFrame
from slotreeve.model import publisher
from slotreeve.model.loads import SlotLoad
from slotreeve.model.nodes import Node, Role
from slotreeve.model.publisher import Publisher
from slotreeve.model.slots import Slot, SlotFacts, SlotTable
from slotreeve.ports import Hello, Message
from slotreeve_protocol import client_messages as client
from slotreeve_protocol import delay_messages as delay
from slotreeve_protocol import general_messages as general
from slotreeve_protocol import history_messages as history
from slotreeve_protocol import lease_messages as lease
from slotreeve_protocol import meta_messages as meta
from slotreeve_protocol import people_messages as people
from slotreeve_protocol import slot_messages as slot
from slotreeve_protocol.codec import Kind, decode_frame, encode_frame, encode_message
from slotreeve_protocol.messages import AnyMessage

GOLDEN = Path(__file__).parent / "golden" / "frames.json"
"""Frames by message type, in hexadecimal, oldest first: what released versions sent. A message that gets a field gets
another frame. A frame may be added, never changed."""

RECORD = Publisher("r-1", "orders@@shop", 3, 2, "session-1", "zone-a", (b"10.0.0.1:80", b""))
TOMBSTONE = RECORD.tombstone()
NODE = Node("data-1", Role.DATA, "10.0.0.9:7720", "process-9", "zone-b", 0.5)
FACTS = SlotFacts(256, 2, "crc32c")
TABLE = SlotTable(9, (Slot(0, "data-1", 8, ("data-2",)), Slot(1, None, 9, ())))
WRITE = slot.SlotWrite(7, 8, [RECORD], [TOMBSTONE], [("orders@@shop", "r-0")])
CHANGE = slot.DatumChange("orders@@shop", 4, 5, 0xFFFF_FFFF_FFFF_FFFF, [RECORD], ["r-0"])
TERMS = lease.LeaseTerms("orders@@shop", "web-1", "zone-a", (b"10.0.0.1:80",), 30_000)

SAMPLES: list[AnyMessage] = [
    Hello("prod", "data-1", Role.DATA, "process-9", "10.0.0.9:7720", 1, 2, FACTS),
    general.Goodbye("enough"),
    general.Failed("SR205", "the queue is full"),
    general.Done(),
    general.Ping(),
    general.GetCounters(),
    general.Counters({"clients": 3}),
    general.Opaque("votes", b"\x00\xff"),
    client.Publish(17, [RECORD, TOMBSTONE]),
    client.Published([17, 18]),
    client.Rejected(17, "SR402", "no such slot"),
    client.Subscribe(
        [client.Want("orders@@shop", client.Scope.ZONE, 5, 99), client.Want("users@@shop", client.Scope.DATA_CENTER)]
    ),
    client.NotPushed("orders@@shop", client.Scope.ZONE, "SR502", "the key lacks a right"),
    client.Unsubscribe("orders@@shop", client.Scope.ZONE),
    client.Push("orders@@shop", client.Scope.DATA_CENTER, 4, 5, 99, [RECORD], ["r-0"]),
    client.PushesReceived([client.PushReceipt("orders@@shop", client.Scope.DATA_CENTER, 5, 5)]),
    client.Get("orders@@shop"),
    client.Datum("orders@@shop", 5, [RECORD]),
    client.ListServices("orders"),
    client.Services({"orders@@shop": 3}),
    client.Sessions(["10.0.0.3:7730"]),
    client.Withdraw(),
    client.ReplayEnded(),
    client.Pong(3.5),
    client.Moved(),
    client.GivenUp(),
    slot.Write([WRITE]),
    slot.Answers([slot.SlotAnswer(7, slot.Access.MOVED, 9)]),
    slot.DeclareInterest([slot.SlotInterest(7, 8, [slot.Known("orders@@shop", 5, 99)], ["users@@shop"])]),
    slot.Changed([CHANGE]),
    slot.Fetch(7, 8, "orders@@shop"),
    slot.Compare([slot.SlotDigests(7, 8, {"orders@@shop": 1 << 63})]),
    slot.Follow([slot.SlotDigests(7, 8, {"orders@@shop": 99})]),
    slot.Compared([slot.SlotDifference(7, slot.Access.ACCEPT, 8, False, {"orders@@shop": [RECORD]})]),
    slot.Replicate([WRITE]),
    slot.Confirm([slot.SlotEpoch(7, 8)]),
    slot.Presence(["client-1"], ["client-2"]),
    lease.RegisterLeases([TERMS]),
    lease.RenewLeases({"orders@@shop": ["web-1", "web-2"]}),
    lease.EndLeases({"orders@@shop": ["web-1"]}),
    lease.LeasesKnown({"orders@@shop": ["web-2"]}, {"users@@shop": ["u-1"]}, "no leader"),
    lease.KeepLeases([lease.SlotLeases(7, 8, [TERMS], {"orders@@shop": ["web-2"]}, {"orders@@shop": ["web-3"]})]),
    lease.LeasesKept([lease.KeptLeases(7, slot.Access.ACCEPT, 8, {"orders@@shop": ["web-2"]})]),
    meta.View(3, 12, TABLE, [NODE], [], FACTS),
    meta.Heartbeat(NODE, 12, 9, [0, 1]),
    meta.LeaseGranted(3, 5.0, meta.View(3, 12, TABLE, [NODE], [], FACTS)),
    meta.LeaderIs(3, "meta-1", None),
    meta.Leave(NODE, "upgrade"),
    meta.GetView(),
    meta.GetNewerView(12),
    meta.GetLeader(),
    meta.PutConfig("limits", b"100", 3),
    client.Redirect(["10.0.0.2:7730"]),
    meta.GetShadow(),
    meta.ShadowIs("postgres", True, "", "meta-1", "meta-2", 1, 2, 0.5, 4.5),
    meta.GetConfigs("lim"),
    meta.Configs([meta.ConfigEntry("limits", b"100", 4), meta.ConfigEntry("old", None, 2)]),
    meta.WatchConfigs({"limits": 4}),
    meta.UnwatchConfig("limits"),
    meta.GetHistory(),
    meta.History("meta-1", [meta.LeaderChange(1_700_000_000_000, "meta-1", 3, "elected", 0.25)]),
    meta.Resign(),
    meta.SwapElection("postgres", True),
    meta.Swapped("fle", "postgres", 1, 4, 0.25),
    meta.SwapOrder(meta.SwapStep.COPY, "postgres", 1, "c0ffee", 7, "ab12"),
    meta.GetElection(),
    meta.ElectionIs("meta-1", "postgres", "fle", 1, "meta-2", 9),
    meta.GetMembers(),
    meta.Members(
        1_700_000_000_000,
        [meta.MemberIs(NODE, 12, 0.5, "connection lost", meta.Stopping.FOR_GOOD, True, [7])],
        [meta.MemberLeft(NODE, 1_700_000_000_000, "lease expired", True)],
        meta.View(3, 12, TABLE, [NODE], [], FACTS),
    ),
    people.GetClients("client-1", 10),
    people.ClientPage([people.ClientIs("client-2", "10.0.0.9:4711", 1.5, 3, 1, 2, 4, True)], True),
    people.GetSubscribers("orders@@shop", "client-1", 10),
    history.GetServiceAt("orders@@shop", 1_700_000_000_000, "client-1-1"),
    history.ServiceAt(history.KnownState.EXACTLY, 1_699_999_999_000, 3, 1_690_000_000_000, [RECORD], True),
    history.GetChanges("orders@@shop", 1_699_999_999_000, 1_700_000_000_000, 10),
    history.ChangePage(
        1_690_000_000_000,
        [
            history.ServiceChange(
                "orders@@shop",
                1_699_999_999_500,
                3,
                True,
                [history.RecordedChange("client-1-1", 1_699_999_999_400, True, 4, "s@1", "east", (b"a",), "why", 1)],
            )
        ],
        True,
    ),
    history.GetEvents(1_699_999_999_000, 1_700_000_000_000, ("alarm",), 7, True, 10),
    history.NoteDenials("gw-1", [history.Denied("token t", "10.0.0.1", "no right to read x", 3)]),
    history.EventPage(1_690_000_000_000, 2, [history.HistoryEvent(8, b"{}")], True),
    people.GetSettings(),
    people.GetUses("orders", "client-1", "orders@@shop", 10),
    people.UsePage([people.UseIs("client-2", "10.0.0.9:4711", "orders@@shop", 3, True)], True),
    people.SettingsAre(
        3, [people.SettingIs("log.level", "debug", "info", "cluster.toml", True)], {"log.colour": "why"}
    ),
    people.SubscriberPage(9, 3, [people.SubscriberIs("client-2", "10.0.0.9:4711", client.Scope.ZONE, 8, 1)], True),
    delay.GetDelays("orders@@shop", "client-1", 10),
    delay.DelayPage(
        (delay.StageDelays("push_age_seconds", (0.1, 1.0), (3, 2, 1), 2.5),),
        0.5,
        0.999,
        (delay.ObjectiveWindow(300.0, 1_000, 20, 20.0),),
        (delay.Lagging("client-1", "10.0.0.9:4711", "orders@@shop", 3.5, "its connection is full"),),
        delay.Lagging("slot 7", "", "", 9.0, "writes wait"),
        delay.ServiceDelay(9, True, 3, 1, (0.001, 0.002, 5.0), (0.1, 0.2, 60.0)),
        True,
        True,
    ),
    delay.GetSlotReads(7, 10),
    delay.SlotReadsPage((delay.SlotReads(8, 0.5, 1.5, 2.5, 3, "data-1 was gone"),), True),
]

# --- golden frames ---------------------------------------------------------------------------------------------------


def test_every_message_type_has_a_sample_and_a_golden_frame() -> None:
    types = {kind.__name__ for kind in typing.get_args(AnyMessage)}
    samples = {type(sample).__name__: encode_message(sample).hex() for sample in SAMPLES}
    assert samples.keys() == types
    golden = json.loads(GOLDEN.read_text())
    assert golden.keys() == types, {name: samples[name] for name in types - golden.keys()}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_the_encoding_of_each_message_is_its_newest_golden_frame_and_the_older_ones_are_read(
    sample: AnyMessage,
) -> None:
    name = type(sample).__name__
    *_, newest = frames = [bytes.fromhex(frame) for frame in json.loads(GOLDEN.read_text())[name]]
    assert encode_message(sample).hex() == newest.hex(), f"the encoding of {name} has changed"
    for frame in frames:
        assert decode_frame(frame) == (Kind.MESSAGE, 0, sample), f"{name} is no longer read as it was"


def test_the_loads_in_a_heartbeat_are_encoded_as_they_always_were() -> None:
    heartbeat = meta.Heartbeat(NODE, 12, 9, [], loads={7: SlotLoad(3, 40, 0.5)})
    frame = encode_message(heartbeat)
    assert frame.hex().endswith("8107930328cb3fe00000000000000000")
    assert decode_frame(frame) == (Kind.MESSAGE, 0, heartbeat)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (Kind.MESSAGE, "10"),
        (Kind.REQUEST, "1107000000"),
        (Kind.REPLY, "1207000000"),
        (Kind.HELLO, "13"),
        (Kind.WELCOME, "14"),
        (Kind.REFUSED, "15"),
        (Kind.BYE, "16"),
    ],
)
def test_the_head_of_each_kind_is_what_it_always_was(kind: Kind, head: str) -> None:
    assert encode_frame(kind, general.Done(), 7).hex() == head + "9104"


def test_fields_that_a_later_version_adds_are_ignored_and_those_it_left_out_have_their_default() -> None:
    longer = b"\x10" + msgspec.msgpack.encode([2, "enough", "a field of the future"])
    assert decode_frame(longer)[2] == general.Goodbye("enough")
    shorter = b"\x10" + msgspec.msgpack.encode([1, "prod", "c", "client", "p"])
    assert decode_frame(shorter)[2] == Hello("prod", "c", Role.CLIENT, "p")


# --- properties ------------------------------------------------------------------------------------------------------


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[object]:
    """Any value of a type that occurs in messages."""
    match kind:
        case msgspec.inspect.StructType(cls=cls) if cls in _WITH_COUNT:
            return _WITH_COUNT[cls]
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, *(values_of(field.type) for field in fields))
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*(values_of(one) for one in types))
        case msgspec.inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case msgspec.inspect.ListType(item_type=item):
            return st.lists(values_of(item), max_size=3)
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(values_of(item), max_size=3).map(tuple)
        case msgspec.inspect.TupleType(item_types=items):
            return st.tuples(*(values_of(item) for item in items))
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values_of(key), values_of(value), max_size=3)
        case msgspec.inspect.IntType(ge=least, le=most):
            return st.integers(-(1 << 63) if least is None else least, (1 << 64) - 1 if most is None else most)
        case msgspec.inspect.FloatType(ge=lowest, le=highest):
            return st.floats(lowest, highest, allow_nan=False)
    return _SIMPLE[type(kind)]


_SIMPLE: dict[type, st.SearchStrategy[object]] = {
    msgspec.inspect.StrType: st.text(max_size=20),
    msgspec.inspect.BytesType: st.binary(max_size=20),
    msgspec.inspect.BoolType: st.booleans(),
    msgspec.inspect.NoneType: st.none(),
}

_COUNTS = st.integers(0, 24).map(lambda power: 1 << power)
_NUMBERS = st.integers(0, (1 << 64) - 1)
_WITH_COUNT: dict[type, st.SearchStrategy[object]] = {
    slot.PartDigests: st.builds(slot.PartDigests, _COUNTS, st.dictionaries(_NUMBERS, _NUMBERS, max_size=3)),
    slot.ServicePart: st.builds(slot.ServicePart, st.text(max_size=20), _COUNTS, _NUMBERS, st.just([RECORD])),
}

any_message = st.one_of(*(values_of(msgspec.inspect.type_info(kind)) for kind in typing.get_args(AnyMessage)))


@given(st.sampled_from(Kind), any_message, st.integers(0, (1 << 32) - 1))
def test_any_message_is_decoded_as_it_was_encoded(kind: Kind, message: AnyMessage, request_id: int) -> None:
    expected_id = request_id if kind in (Kind.REQUEST, Kind.REPLY) else 0
    assert decode_frame(encode_frame(kind, message, request_id)) == (kind, expected_id, message)


@given(any_message, st.data())
def test_a_frame_that_is_damaged_or_cut_raises_nothing_but_malformed_frame(
    message: AnyMessage, data: st.DataObject
) -> None:
    frame = bytearray(encode_frame(Kind.REQUEST, message, 1))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    decode_or_malformed(bytes(frame[: data.draw(st.integers(0, len(frame)))]))


@given(st.sampled_from([b"", b"\x10", b"\x11\x00\x00\x00\x00", b"\x13"]), st.binary())
def test_any_bytes_raise_nothing_but_malformed_frame(head: bytes, body: bytes) -> None:
    decode_or_malformed(head + body)


@pytest.mark.parametrize(
    "body", [b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x92\x06\xd9\x02\xff\xfe"]
)
def test_bytes_made_to_hurt_a_decoder_are_malformed(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_frame(b"\x10" + body)


def test_what_is_wrong_with_a_frame_is_said() -> None:
    for frame, reason in [
        (b"", "an empty frame"),
        (b"\x20\x91\x04", "wire version 2"),
        (b"\x1e\x91\x04", "kind 14"),
        (b"\x11\x00\x00", "a request of 3 bytes is cut short"),
        (b"\x10\x91\xcd\x03\xe7", "999"),
        (b"\x10\x93\x14\xcf" + b"\xff" * 8 + b"\x90", "Expected `int` <= 9007199254740992"),
    ]:
        with pytest.raises(MalformedFrame, match=reason):
            decode_frame(frame)


def decode_or_malformed(frame: bytes) -> None:
    try:
        kind, request_id, message = decode_frame(frame)
    except MalformedFrame:
        return
    assert encode_frame(kind, message, request_id)


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (client.MOST_PARTS, lambda many: client.Publish(0, [RECORD] * many)),
        (
            client.MOST_PARTS,
            lambda many: client.PushesReceived([client.PushReceipt("s", client.Scope.ZONE, 1, 1, 0)] * many),
        ),
        (client.MOST_WANTS, lambda many: client.Subscribe([client.Want("s", client.Scope.ZONE)] * many)),
        (meta.MOST_KEYS, lambda many: meta.WatchConfigs({str(key): 0 for key in range(many)})),
        (lease.MOST_TAKEN, lambda many: lease.RegisterLeases([TERMS] * many)),
        (lease.MOST_TAKEN, lambda many: lease.RenewLeases({str(service): [] for service in range(many)})),
        (lease.MOST_TAKEN, lambda many: lease.RenewLeases({"s": [""] * many})),
        (lease.MOST_TAKEN, lambda many: lease.EndLeases({str(service): [] for service in range(many)})),
        (lease.MOST_TAKEN, lambda many: lease.EndLeases({"s": [""] * many})),
        (publisher.MOST_PARTS, lambda many: client.Publish(0, [msgspec.structs.replace(RECORD, data=(b"",) * many)])),
        (
            publisher.MOST_PARTS,
            lambda many: lease.RegisterLeases([msgspec.structs.replace(TERMS, data=(b"",) * many)]),
        ),
    ],
)
def test_a_message_of_a_client_with_more_parts_than_any_of_ours_is_not_read(
    most: int, message: Callable[[int], Message]
) -> None:
    assert decode_frame(encode_frame(Kind.MESSAGE, message(most)))[2] == message(most)
    with pytest.raises(MalformedFrame, match=f"length <= {most}"):
        decode_frame(encode_frame(Kind.MESSAGE, message(most + 1)))
