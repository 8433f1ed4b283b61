"""The messages that the core of a client sends for publications."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs
from slotreeve.errors import Backpressure, ClientClosed, ModelError, RegistrationError
from slotreeve.model.datum import content_digest
from slotreeve_client import Scope, Subscription
from slotreeve_client.configuration import KEYS_PER_MESSAGE
from slotreeve_protocol.client_messages import (
    Publish,
    Published,
    PushesReceived,
    PushReceipt,
    Rejected,
    ReplayEnded,
    Subscribe,
)
from slotreeve_protocol.meta_messages import WatchConfigs

from tests.client.core_scene import BATCH, WINDOW, A, Shell, provider, push


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
        shell.publish("a", b"x" * (1 << 18))
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
    assert shell.sent() == [ReplayEnded(1)]
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
    assert shell.sent() == [ReplayEnded(1)]


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


def test_a_version_that_is_refused_is_followed_by_what_was_taken_before_it_which_each_connection_gets() -> None:
    shell = Shell()
    publication = shell.publish("a", b"old")
    shell.core.connected("s@1")
    shell.core.received(Published([sequence for sequence, _ in shell.records()]))
    publication.republish(b"too much")
    ((sequence, _),) = shell.records()
    shell.core.received(Rejected(sequence, "SR503", "too much"))
    assert [(record.version, record.data) for _, record in shell.records()] == [(3, (b"old",))]
    assert (publication.data, publication.is_acknowledged) == ((b"old",), False)
    shell.core.connected("s@2")
    ((sequence, record),) = shell.records()
    assert (record.version, record.data, record.incarnation) == (3, (b"old",), 2)
    shell.core.received(Rejected(sequence, "SR503", "that is too much here, too"))
    assert shell.records() == []
    with pytest.raises(RegistrationError, match="that is too much here, too"):
        publication.republish(b"new")


def test_a_version_that_is_refused_in_a_replay_does_not_end_the_replay() -> None:
    shell = Shell()
    publication = shell.publish("a", b"old")
    shell.core.connected("s@1")
    shell.core.received(Published([sequence for sequence, _ in shell.records()]))
    publication.republish(b"too much")
    shell.core.connected("s@2")
    ((sequence, _),) = shell.records()
    shell.core.received(Rejected(sequence, "SR503", "too much"))
    (again,) = shell.sent()
    assert isinstance(again, Publish)
    assert [record.data for record in again.records] == [(b"old",)]
    shell.core.received(Published([again.sequence]))
    assert shell.sent() == [ReplayEnded(2)]


def test_a_version_that_is_on_its_way_when_a_newer_one_is_refused_takes_the_place_of_that() -> None:
    shell = Shell()
    publication = shell.publish("a", b"1")
    shell.core.connected("s@1")
    ((first, _),) = shell.records()
    publication.republish(b"too much")
    ((second, _),) = shell.records()
    shell.core.received(Rejected(second, "SR503", "too much"))
    shell.core.received(Published([first]))
    assert [(record.version, record.data) for _, record in shell.records()] == [(3, (b"1",))]
    publication.unpublish()
    assert [(record.version, record.data) for _, record in shell.records()] == [(4, None)]


def test_a_flush_waits_for_the_answers_to_what_was_published_before_it() -> None:
    async def scenario() -> None:
        shell = Shell()
        kept, changed, gone, _refused = (shell.publish() for _ in range(4))
        shell.core.connected("s@1")
        _kept_at, changed_at, gone_at, refused_at = (sequence for sequence, _ in shell.records())
        flush = asyncio.create_task(shell.core.flushed())
        await asyncio.sleep(0)

        async def has_ended() -> bool:
            await asyncio.sleep(0)
            return flush.done()

        shell.publish()
        changed.republish(b"2")
        (_, (later_at, _)) = shell.records()
        shell.core.received(Rejected(refused_at, "SR503", "too much"))
        shell.core.received(Rejected(changed_at, Backpressure.code, "busy"))
        shell.core.received(Published([later_at]))
        assert not await has_ended()
        gone.unpublish()
        ((gone_for_good_at, _),) = shell.records()
        shell.core.received(Published([gone_for_good_at]))
        shell.core.connected("s@2")
        assert not await has_ended()
        sent = {record.register_id: sequence for sequence, record in shell.records()}
        assert gone.register_id not in sent
        shell.core.received(Published([gone_at, sent[kept.register_id]]))
        assert await has_ended()
        await flush
        assert shell.core.unacknowledged == 2

    asyncio.run(scenario())


def test_a_flush_waits_for_a_version_that_was_taken_before_another_one_was_refused() -> None:
    async def scenario() -> None:
        shell = Shell()
        publication = shell.publish()
        shell.core.connected("s@1")
        ((first, _),) = shell.records()
        flushes = [asyncio.create_task(shell.core.flushed())]
        await asyncio.sleep(0)
        publication.republish(b"too much")
        flushes.append(asyncio.create_task(shell.core.flushed()))
        await asyncio.sleep(0)
        ((second, _),) = shell.records()
        shell.core.received(Rejected(second, "SR503", "too much"))
        await asyncio.sleep(0)
        assert [flush.done() for flush in flushes] == [False, False]
        shell.core.received(Published([first]))
        await flushes[0]
        assert not flushes[1].done(), "what takes the place of the refused version is on its way"
        ((third, _),) = shell.records()
        shell.core.received(Published([third]))
        await flushes[1]
        publication.republish(b"more")
        last = asyncio.create_task(shell.core.flushed())
        await asyncio.sleep(0)
        shell.core.close()
        with pytest.raises(ClientClosed):
            await last
        with pytest.raises(ClientClosed):
            await shell.core.flushed()

    asyncio.run(scenario())


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


def test_a_refused_version_that_has_a_successor_ends_nothing() -> None:
    shell = Shell()
    publication = shell.publish("a", b"1")
    shell.core.connected("s@1")
    ((first, _),) = shell.records()
    publication.republish(b"2")
    shell.core.received(Rejected(first, "SR503", "too much"))
    assert publication.ended is None
    assert [(record.version, record.data) for _, record in shell.records()] == [(2, (b"2",))]


@pytest.mark.parametrize("code", [Backpressure.code, RegistrationError.code])
def test_what_waits_for_room_is_sent_although_all_that_was_on_its_way_is_rejected(code: str) -> None:
    shell = Shell(window=WINDOW, batch=BATCH)
    shell.connect(1)
    first = [shell.publish() for _ in range(WINDOW)]
    sent = shell.records()
    for publication in first:
        publication.republish(b"newer")
    waiting = shell.publish()
    assert shell.records() == []
    wakes = shell.wakes
    for sequence, _ in sent:
        shell.core.received(Rejected(sequence, code, "no"))
    assert shell.wakes > wakes
    assert waiting.register_id in [record.register_id for _, record in shell.records()]


@pytest.mark.parametrize("on_change", [7, "f", asyncio.sleep])
def test_what_cannot_be_called_at_a_change_is_refused_at_once(on_change: Any) -> None:
    shell = Shell()
    with pytest.raises(ModelError, match="expected a function that is not async"):
        shell.core.subscribe("a", on_change, Scope.ZONE)
    with pytest.raises(ModelError, match="expected a function that is not async"):
        shell.core.watch_config("k", on_change)


def test_very_many_watched_keys_are_asked_for_in_several_messages() -> None:
    shell = Shell()
    for number in range(2 * KEYS_PER_MESSAGE + 1):
        shell.core.watch_config(f"key-{number}", None)
    shell.core.connected("s@1")
    asked = [len(message.wants) for message in shell.sent() if isinstance(message, WatchConfigs)]
    assert asked == [KEYS_PER_MESSAGE, KEYS_PER_MESSAGE, 1]


def test_what_began_and_ended_without_a_connection_is_neither_kept_nor_sent() -> None:
    shell = Shell()
    kept = shell.publish("a", b"kept")
    for _ in range(1_000):
        shell.publish("a", b"x").unpublish()
    assert shell.core.unacknowledged == 1
    shell.core.connected("s@1")
    assert [record.register_id for _, record in shell.records()] == [kept.register_id]


def test_nobody_waits_for_a_registration_that_ended_before_it_was_sent() -> None:
    async def run() -> bool:
        shell = Shell()
        publication = shell.publish("a", b"x")
        waiting = [asyncio.ensure_future(each) for each in (publication.acknowledged(), shell.core.flushed())]
        await asyncio.sleep(0)
        publication.unpublish()
        await asyncio.wait_for(asyncio.gather(*waiting), 10)
        return publication.is_acknowledged

    assert asyncio.run(run())


def test_a_replay_does_not_wait_for_what_ended_before_it_was_sent() -> None:
    shell = Shell(window=1, batch=1)
    first, second = shell.publish("a", b"1"), shell.publish("a", b"2")
    shell.core.connected("s@1")
    ((sequence, record),) = shell.records()
    assert record.register_id == first.register_id
    second.unpublish()
    shell.core.received(Published([sequence]))
    assert [type(message) for message in shell.sent()] == [ReplayEnded]


def test_what_a_lost_connection_may_have_brought_is_ended_over_the_next_one() -> None:
    shell = Shell()
    publication = shell.publish("a", b"x")
    shell.connect(1)
    shell.core.disconnected()
    publication.unpublish()
    shell.core.connected("s@2")
    assert [record.data for _, record in shell.records()] == [None]
