"""The union of all messages, and what their docstrings must say."""

from __future__ import annotations

import re
import typing

import pytest
from slotreeve.ports import Hello, Message
from slotreeve_protocol import (
    client_messages,
    delay_messages,
    general_messages,
    history_messages,
    lease_messages,
    meta_messages,
    people_messages,
    slot_messages,
)
from slotreeve_protocol.messages import AnyMessage

MESSAGES: list[type[Message]] = sorted(typing.get_args(AnyMessage), key=lambda message: message.__name__)
NAMES = {message.__name__ for message in MESSAGES}
MODULES = (
    client_messages,
    delay_messages,
    general_messages,
    history_messages,
    lease_messages,
    meta_messages,
    people_messages,
    slot_messages,
)
SENDER_AND_RECEIVER = re.compile(
    r"^(Client|Session|Data|Data leader|Data follower|Meta|Meta leader|Any process|Either end|A plugin|Data or session"
    r"|Tool) to .*(client|session|data|meta|server|follower|leader|other|process)"
)


def test_the_union_holds_every_message_that_is_defined() -> None:
    defined = {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and value is not Message
    }
    messages = {value for value in defined if issubclass(value, Message)}
    assert messages | {message for message in MESSAGES if message.__name__ == "Hello"} == set(MESSAGES)


def test_every_message_has_a_tag_of_its_own() -> None:
    tags = [message.__struct_config__.tag for message in MESSAGES]
    assert len(set(tags)) == len(tags)
    assert all(isinstance(tag, int) for tag in tags)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_a_message_is_a_frozen_array(message: type[Message]) -> None:
    config = message.__struct_config__
    assert (config.array_like, config.frozen) == (True, True)


@pytest.mark.parametrize("message", [m for m in MESSAGES if m is not Hello], ids=lambda message: message.__name__)
def test_the_docstring_of_a_message_names_sender_and_receiver_or_its_request(message: type[Message]) -> None:
    doc = " ".join((message.__doc__ or "").split())
    if doc.startswith("Reply"):
        asked = re.match(r"Reply to ([\w, ]+?):", doc)
        requests = {name for name in re.findall(r"\b[A-Z]\w+", asked[1]) if name != "Reply"} if asked else set()
        assert requests <= NAMES, doc
        assert requests or message.__name__ in {"Done", "Failed"}, doc
    else:
        assert SENDER_AND_RECEIVER.match(doc), doc


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_replies_that_a_docstring_names_are_messages(message: type[Message]) -> None:
    doc = " ".join((message.__doc__ or "").split())
    for replies in re.findall(r"Reply: (.*)$", doc) if not doc.startswith("Reply:") else []:
        named = set(re.findall(r"\b[A-Z]\w+", replies))
        assert named, doc
        assert named <= NAMES, doc


def test_a_message_that_names_a_reply_is_named_by_it() -> None:
    docs = {message.__name__: " ".join((message.__doc__ or "").split()) for message in MESSAGES}
    for name, doc in docs.items():
        for replies in re.findall(r"Reply: (.*)$", doc) if not doc.startswith("Reply") else []:
            for reply in set(re.findall(r"\b[A-Z]\w+", replies)) - {"Done", "Failed", "LeaderIs"}:
                assert re.search(rf"\b{name}\b", docs[reply]), f"{reply} does not name {name}"
