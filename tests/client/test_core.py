"""The client's core against a dumb twin, and the messages it sends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs
from slotreeve.clock import Timer
from slotreeve.errors import Backpressure, ClientClosed, ModelError, RegistrationError
from slotreeve.model.datum import content_digest
from slotreeve.model.publisher import Publisher
from slotreeve.ports import Message
from slotreeve_client import ClientOptions, ConfigWatch, Publication, Scope, Subscription
from slotreeve_client.callbacks import Callbacks
from slotreeve_client.core import RECEIPTS_PER_MESSAGE, ClientCore
from slotreeve_client.wants import MOST_UNCONFIRMED, WANTS_PER_MESSAGE
from slotreeve_protocol.client_messages import (
    Publish,
    Published,
    Push,
    PushesReceived,
    PushReceipt,
    Rejected,
    ReplayEnded,
    Subscribe,
    Unsubscribe,
    Want,
)
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.instance import Instance
from slotreeve_protocol.meta_messages import ConfigEntry, Configs, UnwatchConfig, WatchConfigs
from slotreeve_protocol.overrides import OVERRIDES_KEY, Override, Overrides

A = "a#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
WINDOW, BATCH = 5, 3


class StillClock:
    """A clock that stands still; what is due soon runs at once."""

    def now(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def call_later(self, seconds: float, action: Callable[[], None]) -> Timer:
        raise AssertionError("the core sets no timer")

    def call_soon(self, action: Callable[[], None]) -> None:
        action()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the core does not wait")


class Shell:
    """A core with a log of its wakes, and what a shell would send."""

    def __init__(self, **options: object) -> None:
        self.wakes = 0
        self.core = ClientCore("c", ClientOptions.model_validate(options), self._wake, Callbacks(StillClock()))

    def _wake(self) -> None:
        self.wakes += 1

    def connect(self, number: int) -> None:
        """Connect, and send what that needs."""
        self.core.connected(f"s@{number}")
        self.sent()

    def publish(self, service: str = "a", *data: bytes) -> Publication:
        return self.core.publish(service, data or (b"x",), None)

    def subscribe(self, service: str = "a", seen: list[Subscription] | None = None) -> Subscription:
        return self.core.subscribe(service, seen.append if seen is not None else None, Scope.DATA_CENTER)

    def sent(self) -> list[Message]:
        return self.core.outgoing()

    def records(self) -> list[tuple[int, Publisher]]:
        """What the core publishes now, with sequences."""
        batches = [message for message in self.sent() if isinstance(message, Publish)]
        return [(batch.sequence + i, record) for batch in batches for i, record in enumerate(batch.records)]


def push(
    records: list[Publisher],
    version: int,
    start: int = 0,
    service: str = A,
    removed: tuple[str, ...] = (),
    digest: int = -1,
) -> Push:
    found = content_digest(records) if digest == -1 else digest
    return Push(service, Scope.DATA_CENTER, start, version, found, records, list(removed))


def provider(register_id: str, data: bytes = b"x") -> Publisher:
    return Publisher(register_id, A, 1, 1, "session-1@1", "", (data,))


# --- publications against a dumb twin --------------------------------------------------------------------------------


class Registrations(RuleBasedStateMachine):
    """Any order of calls, connections, acknowledgements and rejections.

    The twin remembers the payload that each registration should have, and a server that stores the greatest (version,
    incarnation) of every record that ever arrived.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell(window=WINDOW, batch=BATCH)
        self.core = self.shell.core
        self.wanted: dict[str, bytes | None] = {}
        self.refused: set[str] = set()
        self.publications: dict[str, Publication] = {}
        self.stored: dict[str, Publisher] = {}
        self.unanswered: dict[int, Publisher] = {}
        self.acknowledged: dict[str, int] = {}
        self.sequences: set[int] = set()
        self.connections = 0
        self.online = False

    @rule(number=st.integers(0, 255))
    def publish(self, number: int) -> None:
        publication = self.shell.publish("a", bytes([number]))
        assert publication.register_id not in self.publications
        self.publications[publication.register_id] = publication
        self.wanted[publication.register_id] = bytes([number])

    def live(self) -> list[str]:
        return [key for key, data in self.wanted.items() if data is not None and key not in self.refused]

    @precondition(lambda self: self.live())
    @rule(data=st.data(), number=st.integers(0, 255))
    def republish(self, data: st.DataObject, number: int) -> None:
        key = data.draw(st.sampled_from(self.live()))
        self.publications[key].republish(bytes([number]))
        self.wanted[key] = bytes([number])

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def unpublish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.live()))
        self.publications[key].unpublish()
        self.wanted[key] = None
        with pytest.raises(RegistrationError):
            self.publications[key].republish(b"too late")

    @rule()
    def connect(self) -> None:
        self.connections += 1
        self.online = True
        self.unanswered.clear()  # the server's answers to the connection before are lost
        self.core.connected(f"session@{self.connections}")

    @rule()
    def disconnect(self) -> None:
        self.online = False
        self.core.disconnected()

    @rule()
    def send(self) -> None:
        records = self.shell.records()
        assert self.online or not records
        for sequence, record in records:
            assert sequence not in self.sequences
            self.sequences.add(sequence)
            assert (record.session, record.incarnation) == (f"session@{self.connections}", self.connections)
            self.unanswered[sequence] = record
            before = self.stored.get(record.register_id)
            if before is None or record.newer_than(before):
                self.stored[record.register_id] = record
        assert len(self.unanswered) < WINDOW + BATCH

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.unanswered)), unique=True, min_size=1))
        for sequence in chosen:
            record = self.unanswered.pop(sequence)
            key = record.register_id
            self.acknowledged[key] = max(self.acknowledged.get(key, 0), record.version)
        self.core.received(Published([*chosen, *chosen, -1]))  # twice, and one that was never sent

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def reject_for_a_moment(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.unanswered)))
        del self.unanswered[sequence]
        self.core.received(Rejected(sequence, Backpressure.code, "busy"))

    @rule()
    def retry(self) -> None:
        self.core.retry()

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def refuse_for_good(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from(sorted(self.unanswered)))
        key = self.unanswered.pop(sequence).register_id
        self.core.received(Rejected(sequence, "SR120", "not allowed"))
        self.refused.add(key)
        with pytest.raises((RegistrationError, ClientClosed)):
            self.publications[key].republish(b"too late")

    @invariant()
    def acknowledged_versions_are_those_that_the_server_acknowledged(self) -> None:
        for key, publication in self.publications.items():
            assert publication.acknowledged_version == self.acknowledged.get(key, 0)

    @invariant()
    def nothing_unacknowledged_is_forgotten(self) -> None:
        waiting = [
            key
            for key, publication in self.publications.items()
            if key not in self.refused and not publication.is_acknowledged
        ]
        assert self.core.unacknowledged >= len(waiting)

    def teardown(self) -> None:
        """In the end the server holds exactly what is published."""
        self.connect()
        for _ in range(1_000):
            self.core.retry()
            self.send()
            if not self.unanswered:
                break
            self.core.received(Published(sorted(self.unanswered)))
            for record in self.unanswered.values():
                key = record.register_id
                self.acknowledged[key] = max(self.acknowledged.get(key, 0), record.version)
            self.unanswered.clear()
        assert self.core.unacknowledged == 0
        for key, data in self.wanted.items():
            if key not in self.refused:
                assert self.stored[key].data == (None if data is None else (data,)), key
                assert self.publications[key].is_acknowledged


TestRegistrations = Registrations.TestCase
TestRegistrations.settings = settings(derandomize=True, deadline=None, max_examples=150, stateful_step_count=40)


# --- publications ----------------------------------------------------------------------------------------------------


def test_nothing_is_sent_without_a_connection() -> None:
    shell = Shell()
    shell.publish()
    shell.subscribe()
    assert shell.sent() == []


def test_the_first_record_of_a_message_wakes_the_shell_and_further_ones_do_not() -> None:
    shell = Shell()
    shell.publish()
    shell.publish()
    assert shell.wakes == 1


def test_records_are_sent_in_batches_until_the_window_is_full() -> None:
    shell = Shell(window=WINDOW, batch=BATCH)
    for _ in range(10):
        shell.publish()
    shell.core.connected("s@1")
    assert [len(message.records) for message in shell.sent() if isinstance(message, Publish)] == [3, 3]
    wakes = shell.wakes
    shell.core.received(Published([0, 1]))
    assert shell.wakes == wakes + 1
    assert [sequence for sequence, _ in shell.records()] == [6, 7, 8]


def test_a_message_ends_with_the_record_that_makes_it_too_heavy() -> None:
    shell = Shell(window=1_000_000)
    for _ in range(6):
        shell.publish("a", b"x" * (1 << 20))
    shell.core.connected("s@1")
    assert [len(message.records) for message in shell.sent() if isinstance(message, Publish)] == [4, 2]


def test_an_unpublished_record_that_was_acknowledged_is_not_sent_at_the_next_connection() -> None:
    shell = Shell()
    kept, gone = shell.publish(), shell.publish()
    shell.core.connected("s@1")
    gone.unpublish()
    shell.core.received(Published([sequence for sequence, _ in shell.records()]))
    shell.core.connected("s@2")
    assert [record.register_id for _, record in shell.records()] == [kept.register_id]


def test_the_replay_comes_first_and_its_end_follows_its_last_acknowledgement() -> None:
    shell = Shell(window=WINDOW, batch=BATCH)
    for _ in range(WINDOW + 2):
        shell.publish()
    shell.subscribe()
    shell.core.connected("s@1")
    late = shell.publish()
    sent = shell.sent()
    assert [type(message) for message in sent] == [Publish, Publish, Subscribe]
    shell.core.received(Published([0, 1, 2]))
    assert [type(message) for message in shell.sent()] == [Publish]
    assert not shell.core.is_complete
    shell.core.received(Published([3, 4, 5]))
    assert shell.sent() == []
    shell.core.received(Published([6]))
    assert shell.sent() == [ReplayEnded()]
    shell.core.received(push([], 1))
    assert shell.core.is_complete
    shell.core.received(Published([7]))
    assert late.is_acknowledged
    assert shell.sent() == [PushesReceived([PushReceipt(A, Scope.DATA_CENTER, 1, 1)])]


def test_a_replayed_record_that_is_rejected_is_sent_again_before_the_end_of_the_replay() -> None:
    shell = Shell(window=WINDOW, batch=BATCH)
    for _ in range(WINDOW + 2):
        shell.publish()
    shell.connect(1)
    shell.core.received(Rejected(0, Backpressure.code, "busy"))
    shell.core.received(Published([1, 2, 3, 4, 5]))
    assert [type(message) for message in shell.sent()] == [Publish]
    assert shell.core.postponed.records
    shell.core.retry()
    assert [type(message) for message in shell.sent()] == [Publish]
    assert not shell.core.postponed.records
    shell.core.received(Published([6, 7]))
    assert shell.sent() == [ReplayEnded()]


def test_a_rejected_record_waits_for_its_retry_and_holds_up_no_other() -> None:
    shell = Shell()
    first = shell.publish()
    shell.connect(1)
    pauses = []
    for sequence in range(8):
        shell.core.received(Rejected(sequence, Backpressure.code, "busy"))
        assert (shell.records(), shell.core.unacknowledged) == ([], 1)
        pauses.append(shell.core.postponed.next_pause())
        shell.core.retry()
        assert [record.register_id for _, record in shell.records()] == [first.register_id]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    shell.core.received(Rejected(8, Backpressure.code, "busy"))
    wakes = shell.wakes
    second = shell.publish()
    assert shell.wakes == wakes + 1
    assert [record.register_id for _, record in shell.records()] == [second.register_id]
    shell.core.received(Published([9]))
    assert shell.core.postponed.next_pause() == 0.05
    assert shell.core.postponed.rejections == 9


def test_while_a_client_moves_pushes_of_the_former_server_count_until_the_new_one_has_pushed() -> None:
    shell = Shell()
    shell.connect(1)
    seen: list[Subscription] = []
    subscription = shell.subscribe("a", seen)
    shell.sent()
    shell.core.received(push([provider("p")], 7))
    shell.sent()
    publication = shell.publish()
    shell.connect(2)
    both = content_digest([provider("p"), provider("q")])
    shell.core.received_from_former(push([provider("q")], 8, 7, digest=both))
    shell.core.received_from_former(push([provider("x")], 10, 9, digest=1))
    shell.core.received_from_former(Published([0, 1, 2]))
    assert (subscription.version, len(seen), publication.is_acknowledged) == (8, 2, False)
    assert shell.sent() == []
    shell.core.received(push([], 8, 7, digest=both))
    shell.core.received_from_former(push([], 9))
    assert ([i.register_id for i in subscription.instances], len(seen)) == (["p", "q"], 2)
    assert shell.sent() == []


def test_a_first_part_confirms_a_subscription_whose_state_the_former_server_has_brought() -> None:
    shell = Shell()
    shell.connect(1)
    shell.subscribe("a", [])
    shell.core.received(push([provider("p")], 7))
    shell.connect(2)
    assert not shell.core.is_complete
    shell.core.received(structs.replace(push([provider("q")], 8), more=True))
    assert not shell.core.is_complete, "the rest of the parts is on its way"
    shell.connect(3)
    shell.core.received_from_former(push([provider("q")], 8))
    shell.core.received(structs.replace(push([provider("q")], 8), more=True))
    assert shell.core.is_complete


def test_a_callback_that_raises_any_exception_is_counted_and_loses_no_other_callback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def cancelled(_subscription: Subscription) -> None:
        raise asyncio.CancelledError

    shell = Shell()
    shell.connect(1)
    broken = shell.core.subscribe("a", cancelled, Scope.DATA_CENTER)
    seen: list[Subscription] = []
    shell.subscribe("a", seen)
    shell.core.received(push([provider("p")], 7))
    assert (broken.updates, broken.callback_failures, len(seen)) == (1, 1, 1)
    assert "the callback of the subscription to a#@#" in caplog.text


def test_an_impossible_name_or_too_large_a_payload_registers_nothing() -> None:
    shell = Shell()
    with pytest.raises(ModelError, match="blank"):
        shell.publish(" ")
    with pytest.raises(ModelError, match="too many"):
        shell.publish("a", b"x" * ((1 << 20) + 1))
    shell.core.connected("s@1")
    assert shell.records() == []


# --- subscriptions ---------------------------------------------------------------------------------------------------


def test_subscriptions_of_one_service_share_a_copy_and_one_subscribe() -> None:
    shell = Shell()
    shell.connect(1)
    first_seen: list[Subscription] = []
    second_seen: list[Subscription] = []
    first = shell.subscribe("a", first_seen)
    assert shell.sent() == [Subscribe([Want(A, Scope.DATA_CENTER)])]
    shell.core.received(push([provider("p")], 7))
    second = shell.subscribe("a", second_seen)
    assert (first_seen, second_seen) == ([first], [second])
    assert [i.register_id for i in second.instances] == ["p"]
    shell.sent()
    first.unsubscribe()
    assert shell.sent() == []
    second.unsubscribe()
    second.unsubscribe()
    assert shell.sent() == [Unsubscribe(A, Scope.DATA_CENTER)]
    shell.core.received(push([], 8))
    assert first_seen == [first]


def test_a_new_connection_asks_only_for_what_changed_since_the_copy() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    shell.subscribe()
    shell.core.received(push([provider("p")], 7))
    shell.core.disconnected()
    shell.core.connected("s@2")
    assert shell.sent() == [
        ReplayEnded(),
        Subscribe([Want(A, Scope.DATA_CENTER, 7, content_digest([provider("p")]))]),
    ]


def service_id(number: int) -> str:
    return f"s{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"


def wants(messages: list[Message]) -> list[int]:
    return [len(message.wants) for message in messages if isinstance(message, Subscribe)]


def test_many_subscriptions_are_sent_in_batches_as_their_pushes_arrive() -> None:
    shell = Shell()
    for number in range(MOST_UNCONFIRMED + 2 * WANTS_PER_MESSAGE):
        shell.subscribe(f"s{number}")
    shell.core.connected("s@1")
    assert wants(shell.sent()) == [WANTS_PER_MESSAGE] * (MOST_UNCONFIRMED // WANTS_PER_MESSAGE)
    for number in range(WANTS_PER_MESSAGE):
        wakes = shell.wakes
        shell.core.received(push([], 1, service=service_id(number)))
    assert shell.wakes == wakes + 1
    assert wants(shell.sent()) == [WANTS_PER_MESSAGE]
    assert not shell.core.is_complete


def test_subscriptions_without_a_slot_leader_do_not_hold_up_the_others() -> None:
    shell = Shell()
    for number in range(MOST_UNCONFIRMED + 1):
        shell.subscribe(f"s{number}")
    shell.connect(1)
    shell.core.wants.ping_sent()
    wakes = shell.wakes
    shell.core.ping_answered()
    assert shell.wakes == wakes + 1
    assert wants(shell.sent()) == [1]


def test_a_subscription_that_ends_before_it_was_sent_is_never_sent() -> None:
    shell = Shell()
    shell.connect(1)
    shell.subscribe().unsubscribe()
    assert shell.sent() == []
    assert shell.core.is_complete


def test_pushes_are_acknowledged_together_and_only_the_newest_of_a_service() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    shell.subscribe()
    shell.sent()
    wakes = shell.wakes
    shell.core.received(push([provider("p")], 7))
    shell.core.received(push([provider("q")], 8, 7, digest=content_digest([provider("p"), provider("q")])))
    assert (shell.core.owes_receipts, shell.wakes) == (True, wakes)
    assert shell.sent() == [PushesReceived([PushReceipt(A, Scope.DATA_CENTER, 8, 8)])]
    assert not shell.core.owes_receipts


def test_a_push_that_says_that_the_copy_is_current_needs_no_receipt_and_no_callback() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    seen: list[Subscription] = []
    subscription = shell.subscribe("a", seen)
    shell.core.received(push([provider("p")], 7))
    shell.core.connected("s@2")
    shell.sent()
    shell.core.received(push([], 9, start=7, digest=content_digest([provider("p")])))
    assert (subscription.version, len(seen), shell.core.is_complete) == (9, 1, True)
    assert not shell.core.owes_receipts
    shell.core.received(push([], 10, start=9, digest=1))
    assert shell.sent() == [PushesReceived([PushReceipt(A, Scope.DATA_CENTER, 10, 0)])]


def test_a_push_that_confirms_a_copy_which_the_former_server_brought_needs_no_receipt() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    shell.subscribe()
    shell.core.received(push([provider("p")], 7))
    shell.core.connected("s@2")
    shell.sent()
    shell.core.received(push([], 7, start=7, digest=content_digest([provider("p")])))
    assert (shell.core.is_complete, shell.core.owes_receipts) == (True, False)
    shell.core.received(push([], 6, start=0))
    assert shell.sent() == [PushesReceived([PushReceipt(A, Scope.DATA_CENTER, 6, 7)])]


def test_a_client_reports_that_its_former_server_has_brought_a_newer_state_than_the_new_one_confirms() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    shell.subscribe()
    shell.core.received(push([provider("p")], 7))
    shell.core.connected("s@2")
    shell.sent()
    shell.core.received_from_former(push([provider("q")], 9))
    shell.core.received(push([], 8, start=7, digest=content_digest([provider("p")])))
    assert shell.sent() == [PushesReceived([PushReceipt(A, Scope.DATA_CENTER, 8, 9)])]


def test_a_push_that_does_not_fit_is_answered_at_once_with_version_zero() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    seen: list[Subscription] = []
    shell.subscribe("a", seen)
    shell.sent()
    wakes = shell.wakes
    shell.core.received(push([provider("q")], 9, start=8))
    assert shell.wakes == wakes + 1
    assert shell.sent() == [PushesReceived([PushReceipt(A, Scope.DATA_CENTER, 9, 0)])]
    assert seen == []


def test_many_acknowledgements_of_pushes_do_not_wait() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    for number in range(RECEIPTS_PER_MESSAGE):
        shell.subscribe(f"s{number}")
    shell.sent()
    wakes = shell.wakes
    for number in range(RECEIPTS_PER_MESSAGE):
        service = f"s{number}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
        shell.core.received(push([], 1, service=service))
        assert (shell.wakes > wakes) == (number == RECEIPTS_PER_MESSAGE - 1)


# --- configuration, other messages, the end --------------------------------------------------------------------------


def test_every_watch_of_a_key_gets_each_new_entry_and_the_last_unwatch_is_sent() -> None:
    shell = Shell()
    shell.connect(1)
    seen: list[ConfigWatch] = []
    first, second = shell.core.watch_config("k", seen.append), shell.core.watch_config("k", None)
    assert shell.sent() == [WatchConfigs({"k": 0}), WatchConfigs({"k": 0})]
    shell.core.received(Configs([ConfigEntry("k", b"v", 3), ConfigEntry("other", b"w", 1)]))
    assert (seen, second.value) == ([first], b"v")
    shell.core.connected("s@2")
    assert shell.sent() == [WatchConfigs({"k": 3}), ReplayEnded()]
    first.unwatch()
    assert shell.sent() == []
    second.unwatch()
    assert shell.sent() == [UnwatchConfig("k")]


def test_an_unexpected_message_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    shell = Shell()
    shell.core.connected("s@1")
    shell.sent()
    shell.core.received(Done())
    assert "the session server sent a Done" in caplog.text
    assert shell.sent() == []


def test_a_closed_core_refuses_every_call_and_ends_what_there_is() -> None:
    shell = Shell()
    publication, subscription = shell.publish(), shell.subscribe()
    shell.core.watch_config("k", None)
    shell.core.close()
    for call in (shell.publish, shell.subscribe, publication.unpublish, lambda: shell.core.watch_config("k", None)):
        with pytest.raises(ClientClosed):
            call()
    assert isinstance(publication.ended, ClientClosed)
    assert not subscription.is_ready


# --- overrides of instances ------------------------------------------------------------------------------------------


def test_a_client_that_sees_an_instance_follows_the_overrides_and_one_that_sees_bytes_does_not() -> None:
    shell = Shell()
    shell.connect(1)
    subscription = shell.subscribe()
    shell.sent()
    shell.core.received(push([provider("p")], 1))
    assert not [m for m in shell.sent() if isinstance(m, WatchConfigs)]
    typed = provider("q", encode_instance(Instance("10.0.0.1", 80)))
    shell.core.received(push([provider("p"), typed], 2))
    assert [m for m in shell.sent() if isinstance(m, WatchConfigs)] == [WatchConfigs({OVERRIDES_KEY: 0})]
    shell.core.received(push([typed], 3))
    assert not [m for m in shell.sent() if isinstance(m, WatchConfigs)]
    value = Overrides().changed(A, "10.0.0.1:80", Override(weight=3)).encode()
    shell.core.received(Configs([ConfigEntry(OVERRIDES_KEY, value, 4)]))
    assert [p.instance and p.instance.weight for p in subscription.instances] == [3]
    shell.core.connected("s@2")
    assert [m for m in shell.sent() if isinstance(m, WatchConfigs)] == [WatchConfigs({OVERRIDES_KEY: 4})]


def test_a_user_may_watch_the_overrides_too() -> None:
    shell = Shell()
    shell.connect(1)
    seen: list[bytes | None] = []
    watch = shell.core.watch_config(OVERRIDES_KEY, lambda w: seen.append(w.value))
    subscription = shell.subscribe()
    shell.core.received(push([provider("q", encode_instance(Instance("10.0.0.1", 80)))], 1))
    shell.core.received(Configs([ConfigEntry(OVERRIDES_KEY, None, 0)]))
    assert (seen, len(subscription.instances)) == ([None], 1)
    watch.unwatch()
    assert not [m for m in shell.sent() if isinstance(m, UnwatchConfig)], "the client itself still needs it"
