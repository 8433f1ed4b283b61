"""The subscriptions that are not confirmed, against a dumb twin."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from slotreeve_client.wants import MOST_UNCONFIRMED, WANTS_PER_MESSAGE, ServiceKey, Wants
from slotreeve_protocol.client_messages import Scope


def keys(count: int, first: int = 0) -> list[ServiceKey]:
    return [(f"s{number}", Scope.DATA_CENTER) for number in range(first, first + count)]


def test_no_more_are_on_their_way_than_the_limit_allows() -> None:
    wants = Wants(keys(MOST_UNCONFIRMED + 1_500))
    sent = []
    while found := wants.take():
        assert len(found) <= WANTS_PER_MESSAGE
        sent += found
    assert sent == keys(MOST_UNCONFIRMED)
    assert not wants.has_room
    for key in sent[:WANTS_PER_MESSAGE]:
        assert not wants.has_room
        wants.confirmed(key)
    assert wants.has_room
    assert wants.take() == keys(WANTS_PER_MESSAGE, MOST_UNCONFIRMED)


def test_those_sent_before_an_answered_ping_do_not_count_and_those_sent_after_it_do() -> None:
    wants = Wants(keys(2 * MOST_UNCONFIRMED))
    wants.take()
    wants.ping_sent()
    while wants.take():
        pass
    wants.ping_answered()
    assert wants.take() == keys(WANTS_PER_MESSAGE, MOST_UNCONFIRMED)
    assert wants.take() == []


class Subscriptions(RuleBasedStateMachine):
    """Any order of subscriptions, ends, messages, pushes and pings. The twin is the set that was sent and pushed."""

    def __init__(self) -> None:
        super().__init__()
        self.wants = Wants([])
        self.subscribed: set[ServiceKey] = set()
        self.sent: set[ServiceKey] = set()
        self.pushed: set[ServiceKey] = set()

    @rule(key=st.sampled_from(keys(6)))
    def subscribe(self, key: ServiceKey) -> None:
        if key not in self.subscribed:
            self.subscribed.add(key)
            self.wants.add(key)

    @precondition(lambda self: self.subscribed)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.subscribed)))
        self.subscribed.remove(key)
        assert self.wants.discard(key) == (key in self.sent)
        self.sent.discard(key)
        self.pushed.discard(key)

    @rule()
    def send(self) -> None:
        found = self.wants.take()
        assert set(found) == self.subscribed - self.sent
        self.sent.update(found)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def push(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.sent)))
        self.wants.confirmed(key)
        self.pushed.add(key)

    @rule()
    def ping(self) -> None:
        self.wants.ping_sent()

    @rule()
    def answer_the_ping(self) -> None:
        self.wants.ping_answered()

    @invariant()
    def exactly_the_pushed_ones_are_confirmed(self) -> None:
        assert {key for key in self.subscribed if self.wants.is_confirmed(key)} == self.pushed
        assert self.wants.are_confirmed == (self.subscribed == self.pushed)


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = settings(derandomize=True, max_examples=100)
