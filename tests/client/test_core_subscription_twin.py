"""The subscriptions of the core of a client against a dumb twin: what a server makes of its messages, in order."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from slotreeve_client import Scope, Subscription
from slotreeve_client.wants import ServiceKey
from slotreeve_protocol.client_messages import Push, Subscribe, Unsubscribe

from tests.client.core_scene import Shell

EMPTY = 0
SERVICES = [f"{name}#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP" for name in "ab"]


class Subscriptions(RuleBasedStateMachine):
    """Any order of subscriptions, their ends, connections, answers, and turns in which the client sends."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell()
        self.core = self.shell.core
        self.open: list[Subscription] = []
        self.server: set[ServiceKey] = set()
        self.connections = 0
        self.has_sent = False

    @rule(service=st.sampled_from(SERVICES), scope=st.sampled_from(list(Scope)))
    def subscribe(self, service: str, scope: Scope) -> None:
        self.open.append(self.core.subscribe(service, None, scope))
        self.has_sent = False

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        self.open.pop(data.draw(st.integers(0, len(self.open) - 1))).unsubscribe()
        self.has_sent = False

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def subscribe_anew_in_one_turn(self, data: st.DataObject) -> None:
        old = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        old.unsubscribe()
        self.open.append(self.core.subscribe(old.data_info_id, None, old.scope))
        self.has_sent = False

    @rule()
    def connect(self) -> None:
        self.connections += 1
        self.core.connected(f"s@{self.connections}")
        self.server.clear()
        self.has_sent = False

    @rule()
    def send(self) -> None:
        for message in self.shell.sent():
            if isinstance(message, Subscribe):
                self.server.update((want.data_info_id, want.scope) for want in message.wants)
            elif isinstance(message, Unsubscribe):
                self.server.discard((message.data_info_id, message.scope))
        self.has_sent = self.connections > 0

    @precondition(lambda self: self.server)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        service, scope = data.draw(st.sampled_from(sorted(self.server)))
        self.core.received(Push(service, scope, 0, 1, EMPTY, [], []))

    @invariant()
    def the_server_pushes_exactly_what_the_client_watches(self) -> None:
        if self.has_sent:
            assert self.server == {(one.data_info_id, one.scope) for one in self.open}


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = settings(max_examples=150, stateful_step_count=25, derandomize=True)
