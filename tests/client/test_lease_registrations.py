"""The face of leases in the SDK: what it sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from slotreeve.errors import ClientError, ModelError, RequestTimeout
from slotreeve.ports import Message
from slotreeve_client import leases as module
from slotreeve_client.leases import Lease, LeaseAnswers, LeaseRegistrations
from slotreeve_client.names import ServiceNames
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.lease_messages import EndLeases, LeasesKnown, LeaseTerms, RegisterLeases, RenewLeases
from slotreeve_protocol.leases import MOST_LEASES

ID = "s#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


class Answering:
    """A session server's answers, one after the other; the last one stays."""

    def __init__(self, *answers: Message) -> None:
        self._answers = list(answers or [LeasesKnown({}, {})])
        self.asked: list[Message] = []

    async def ask(self, message: Message) -> Message:
        self.asked.append(message)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def face(asker: Answering) -> LeaseRegistrations:
    return LeaseRegistrations(asker, ServiceNames(), "zone-a")


def test_a_lease_is_registered_with_the_zone_of_the_client_unless_another_is_given() -> None:
    asker = Answering()
    asyncio.run(face(asker).register("s", "a", "x", b"y", ttl_seconds=1.5))
    asyncio.run(face(asker).register("s", "a", zone=""))
    assert asker.asked == [
        RegisterLeases([LeaseTerms(ID, "a", "zone-a", (b"x", b"y"), 1500)]),
        RegisterLeases([LeaseTerms(ID, "a", "", (), 30_000)]),
    ]


def test_a_renewal_returns_what_is_unknown() -> None:
    asker = Answering(LeasesKnown({ID: ["b"]}, {}))
    assert asyncio.run(face(asker).renew("s", "a", "b")) == {"b"}
    assert asker.asked == [RenewLeases({ID: ["a", "b"]})]


def test_to_deregister_says_whether_there_was_one() -> None:
    assert asyncio.run(face(asker := Answering()).deregister("s", "a"))
    assert asker.asked == [EndLeases({ID: ["a"]})]
    assert not asyncio.run(face(Answering(LeasesKnown({ID: ["a"]}, {}))).deregister("s", "a"))


def test_what_no_leader_answered_is_an_error_for_one_lease_and_is_named_for_many() -> None:
    silent = Answering(LeasesKnown({}, {ID: ["a"]}, "data-1 is silent"))
    for call in (face(silent).register("s", "a"), face(silent).deregister("s", "a")):
        with pytest.raises(RequestTimeout, match="data-1 is silent"):
            asyncio.run(call)
    with pytest.raises(RequestTimeout):
        asyncio.run(face(silent).renew("s", "a"))
    answers = asyncio.run(face(silent).renew_many({"s": ["a", "b"]}))
    assert answers == LeaseAnswers({}, {ID: {"a"}}, "data-1 is silent")


def test_many_leases_go_in_several_messages_and_their_answers_come_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LEASES", 2)
    asker = Answering(LeasesKnown({ID: ["a"]}, {}), LeasesKnown({ID: ["c"]}, {}))
    answers = asyncio.run(face(asker).deregister_many({"s": ["a", "b", "c"]}))
    assert asker.asked == [EndLeases({ID: ["a", "b"]}), EndLeases({ID: ["c"]})]
    assert answers.unknown == {ID: {"a", "c"}}
    monkeypatch.setattr(module, "BYTES_PER_MESSAGE", 500)
    asker = Answering()
    asyncio.run(face(asker).register_many([Lease("s", f"l{n}", ("x" * 300,)) for n in range(3)]))
    assert [type(message) for message in asker.asked] == [RegisterLeases] * 3


@pytest.mark.parametrize(
    ("lease", "problem"),
    [
        (Lease("s", ""), "characters"),
        (Lease("s", "a", ttl_seconds=0.5), "time to live"),
        (Lease("s", "a", ttl_seconds=float("nan")), "time to live"),
        (Lease("", "a"), "blank"),
        (Lease("s", "a", ("x" * (1 << 20), "y")), "too many"),
    ],
)
def test_what_cannot_be_good_is_refused_before_anything_is_sent(lease: Lease, problem: str) -> None:
    asker = Answering()
    with pytest.raises(ModelError, match=problem):
        asyncio.run(face(asker).register_many([Lease("s", "good"), lease]))
    assert not asker.asked


def test_another_answer_is_an_error() -> None:
    with pytest.raises(ClientError, match="answered RenewLeases with a Done"):
        asyncio.run(face(Answering(Done())).renew("s", "a"))


def test_very_long_names_are_renewed_in_messages_that_a_frame_can_hold() -> None:
    asker = Answering()
    ids = ["\u6f22" * 250 + str(number) for number in range(3 * MOST_LEASES)]
    asyncio.run(face(asker).renew_many({"s": ids}))
    sizes = [len(msgspec.msgpack.encode(message.leases)) for message in asker.asked if isinstance(message, RenewLeases)]
    assert max(sizes) < module.BYTES_PER_MESSAGE + 10_000
    assert sum(len(message.leases[ID]) for message in asker.asked if isinstance(message, RenewLeases)) == len(ids)
