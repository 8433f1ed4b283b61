"""The table of messages and roles against the messages and the handlers of the servers."""

from __future__ import annotations

import typing
from collections.abc import Mapping

import pytest
from slotreeve.model.nodes import Role
from slotreeve.ports import Message
from slotreeve_protocol.general_messages import GetCounters, Ping
from slotreeve_protocol.messages import AnyMessage
from slotreeve_protocol.meta_messages import GetShadow, Heartbeat, Leave
from slotreeve_protocol.senders import SENDERS, senders_to
from slotreeve_protocol.slot_messages import Replicate, Write
from slotreeve_servers.data.core import DataCore
from slotreeve_servers.data.settings import DataSettings
from slotreeve_servers.node.dispatch import Handlers
from slotreeve_servers.session.core import SessionCore
from slotreeve_servers.session.settings import SessionSettings

from tests.servers.meta_scene import Scene
from tests.servers.recording_outbox import RecordingOutbox
from tests.servers.world import OneSlot, node_of

MESSAGES: list[type[Message]] = sorted(typing.get_args(AnyMessage), key=lambda message: message.__name__)
SERVERS = (Role.META, Role.DATA, Role.SESSION)
EVERYWHERE = {Ping, GetCounters}


def handlers_of(role: Role) -> Mapping[str, Handlers]:
    """The handlers of a server, by the role of the processes that it is for where that is only one."""
    if role is Role.META:
        return {"": Scene().core.handlers}
    if role is Role.DATA:
        data = DataCore(RecordingOutbox(), node_of("data-1"), DataSettings(), 1.0)
        return {"": data.handlers, "meta": data.membership.handlers, "data": data.leaders.handlers}
    session = SessionCore(RecordingOutbox(), node_of("session-1"), SessionSettings(), 1.0, OneSlot())
    return {"": session.handlers, "meta": session.membership.handlers, "data": session.leaders.handlers}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_message_has_an_entry_and_only_replies_have_no_handler(message: type[Message]) -> None:
    routes = SENDERS[message]
    doc = " ".join((message.__doc__ or "").split())
    if doc.startswith("Reply"):
        assert not routes
    assert all(senders for senders in routes.values())


@pytest.mark.parametrize("role", SERVERS)
def test_what_handlers_take_may_be_sent_to_them(role: Role) -> None:
    allowed = senders_to(role)
    taken = {
        partner: {*handlers.messages, *handlers.requests, *handlers.later}
        for partner, handlers in handlers_of(role).items()
    }
    for partner, messages in taken.items():
        for message in messages:
            assert message in allowed, f"nobody may send {message.__name__} to a {role} server"
            if partner and message not in EVERYWHERE:
                assert Role(partner) in allowed[message]
                partners = {Role(name) for name, kinds in taken.items() if name and message in kinds}
                assert allowed[message] == partners or message in taken[""]


def test_a_client_may_not_act_as_a_server() -> None:
    assert Role.CLIENT not in senders_to(Role.DATA)[Write]
    assert Role.CLIENT not in senders_to(Role.DATA)[Replicate]
    for message in (Heartbeat, Leave):
        assert senders_to(Role.META)[message] == {Role.DATA, Role.SESSION}
    assert senders_to(Role.META)[GetShadow] == {Role.TOOL}
    assert all(Role.CLIENT not in senders for kind, senders in senders_to(Role.META).items() if kind not in EVERYWHERE)
