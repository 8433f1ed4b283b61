"""The messages that the core of a client sends for subscriptions, configuration and overrides."""

from __future__ import annotations

import asyncio

import pytest
from slotreeve.errors import ClientClosed, RegistrationError
from slotreeve.model.datum import content_digest
from slotreeve.ports import Message
from slotreeve_client import ConfigWatch, Scope, Subscription
from slotreeve_client.core import RECEIPTS_PER_MESSAGE
from slotreeve_client.wants import MOST_UNCONFIRMED, WANTS_PER_MESSAGE
from slotreeve_protocol.client_messages import (
    NotPushed,
    PushesReceived,
    PushReceipt,
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

from tests.client.core_scene import A, Shell, provider, push

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


def test_a_server_that_pushes_what_nobody_watches_any_more_is_told_so() -> None:
    shell = Shell()
    shell.connect(1)
    subscription = shell.subscribe("a")
    shell.core.received(push([provider("p")], 7))
    shell.core.connected("s@2")
    subscription.unsubscribe()
    shell.connect(1)
    shell.core.received(push([], 8))
    assert shell.sent() == [Unsubscribe(A, Scope.DATA_CENTER)]


def test_a_subscription_that_is_not_taken_ends_with_the_reason_and_can_be_made_again() -> None:
    shell = Shell()
    shell.connect(1)
    seen: list[Subscription] = []
    one, other = shell.subscribe("a", seen), shell.subscribe("b")
    shell.sent()
    shell.core.received(NotPushed(A, Scope.DATA_CENTER, "SR502", "the key lacks a right"))
    assert (one.has_ended, other.has_ended, seen) == (True, False, [])
    with pytest.raises(RegistrationError, match=f"{A} is not pushed: the key lacks a right"):
        asyncio.run(one.ready())
    one.unsubscribe()
    assert shell.sent() == [], "the server does not have it"
    shell.core.received(NotPushed(A, Scope.DATA_CENTER, "SR502", "the key lacks a right"))
    again = shell.subscribe("a", seen)
    assert shell.sent() == [Subscribe([Want(A, Scope.DATA_CENTER)])]
    shell.core.received(push([provider("p")], 7))
    assert (again.count, one.count, seen) == (1, 0, [again])


def test_a_new_connection_asks_only_for_what_changed_since_the_copy() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    shell.subscribe()
    shell.core.received(push([provider("p")], 7))
    shell.core.disconnected()
    shell.core.connected("s@2")
    assert shell.sent() == [
        ReplayEnded(2),
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
    assert shell.sent() == [WatchConfigs({"k": 3}), ReplayEnded(2)]
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


def test_a_push_that_arrives_while_the_client_says_goodbye_concerns_nobody() -> None:
    shell = Shell()
    shell.connect(1)
    seen: list[Subscription] = []
    subscription = shell.subscribe(seen=seen)
    shell.sent()
    shell.core.close()
    late = push([provider("q", encode_instance(Instance("10.0.0.1", 80)))], 1)
    shell.core.received(late)
    shell.core.received_from_former(late)
    assert (subscription.is_ready, seen) == (False, [])


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


def test_in_another_era_the_next_whole_service_and_the_next_entry_count_whatever_their_versions() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    subscription, watch = shell.subscribe(), shell.core.watch_config("k", None)
    shell.core.received(push([provider("r")], 900))
    shell.core.received(Configs([ConfigEntry("k", b"old", 9)]))
    shell.core.connected("s@2")
    assert (subscription.version, watch.version) == (900, 9)
    shell.core.connected("s@3", in_another_era=True)
    assert (subscription.is_ready, subscription.count, watch.value) == (True, 1, b"old"), "what there is stays"
    wants, watched = {}, {}
    for message in shell.sent():
        if isinstance(message, Subscribe):
            wants.update({want.data_info_id: want.version for want in message.wants})
        elif isinstance(message, WatchConfigs):
            watched.update(message.wants)
    assert (wants, watched) == ({A: 0}, {"k": 0})
    shell.core.received(push([provider("r"), provider("s")], 5))
    shell.core.received(Configs([ConfigEntry("k", None, 0)]))
    assert (subscription.version, subscription.count, watch.value) == (5, 2, b"old"), "nobody has written it again"
    shell.core.received(Configs([ConfigEntry("k", None, 1)]))
    assert (watch.value, watch.version) == (None, 1)


def test_a_server_that_gets_another_era_is_asked_for_the_configuration_and_goes_on_with_services() -> None:
    shell = Shell()
    shell.core.connected("s@1")
    subscription, watch = shell.subscribe(), shell.core.watch_config("k", None)
    shell.core.received(push([provider("r")], 900))
    shell.core.received(Configs([ConfigEntry("k", b"old", 9)]))
    shell.sent()
    shell.core.era_changed()
    assert [message for message in shell.sent() if isinstance(message, Subscribe | WatchConfigs)] == [
        WatchConfigs({"k": 0})
    ]
    shell.core.received(Configs([ConfigEntry("k", b"again", 1)]))
    assert (subscription.version, watch.value, watch.version) == (900, b"again", 1)
