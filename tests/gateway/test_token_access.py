"""Callers by their tokens."""

from __future__ import annotations

import asyncio
import logging

import pytest
from slotreeve.clock import LoopClock
from slotreeve.errors import Forbidden, Unauthenticated, Unreachable
from slotreeve_gateway.access import Right
from slotreeve_gateway.http import status_of
from slotreeve_gateway.token_access import TokenAccess
from slotreeve_protocol.tokens import Token, Tokens, hash_of


class Clock(LoopClock):
    """A wall clock that is set."""

    wall = 1_000

    def __init__(self) -> None:
        loop = asyncio.new_event_loop()
        loop.close()
        super().__init__(loop)

    def wall_ms(self) -> int:
        return self.wall


def token(name: str, secret: str, *rights: str, ends_ms: int | None = None) -> Token:
    return Token(name, hash_of(secret).hex(), rights, ends_ms=ends_ms)


TOKENS = Tokens(
    {"1": token("reader", "s1", "read:*"), "2": token("greeter", "s2", "register:com.G", ends_ms=2_000)}
).encode()


def access(*anonymous: str, value: bytes | None = TOKENS) -> TokenAccess:
    made = TokenAccess(Clock(), anonymous)
    made.take(value)
    return made


def test_a_caller_has_the_rights_of_its_token_and_no_others() -> None:
    reader = access().caller("slotreeve.1.s1")
    assert reader.name == "reader"
    reader.require(Right.READ, "com.G")
    assert not reader.may(Right.REGISTER, "com.G")
    with pytest.raises(Forbidden, match=r"the token reader has no right to register com\.G"):
        reader.require(Right.REGISTER, "com.G")


@pytest.mark.parametrize(
    "shown",
    ["", "slotreeve.1.s2", "slotreeve.1.", "slotreeve.3.s1", "slotreeve..", "1.s1", "slotreeve.1.s1 ", "s1", "\udc80"],
)
def test_a_wrong_token_is_refused_counted_and_not_repeated(shown: str) -> None:
    asked = access("read:*")
    with pytest.raises(Unauthenticated, match=r"^(SR\d+: )?the token is unknown or revoked$") as refused:
        asked.caller(shown)
    assert asked.refused == 1
    assert status_of(refused.value) == 401


def test_a_token_that_ends_is_refused_from_then_on() -> None:
    clock = Clock()
    asked = TokenAccess(clock)
    asked.take(TOKENS)
    assert asked.caller("slotreeve.2.s2").name == "greeter"
    assert asked.count == 2
    clock.wall = 2_000
    with pytest.raises(Unauthenticated, match="the token greeter has ended"):
        asked.caller("slotreeve.2.s2")
    assert asked.count == 1


def test_a_change_of_the_tokens_holds_from_the_next_request_on() -> None:
    asked = access()
    asked.take(Tokens.decode(TOKENS).revoked("reader").encode())
    with pytest.raises(Unauthenticated):
        asked.caller("slotreeve.1.s1")
    asked.take(None)
    with pytest.raises(Unauthenticated):
        asked.caller("slotreeve.2.s2")


def test_before_the_tokens_are_known_nobody_is_let_in_and_it_is_not_the_callers_fault() -> None:
    asked = TokenAccess(Clock(), ["read:*"])
    for shown in (None, "slotreeve.1.s1"):
        with pytest.raises(Unreachable) as refused:
            asked.caller(shown)
        assert status_of(refused.value) == 503
    assert not asked.is_known
    assert asked.refused == 0


def test_tokens_that_cannot_be_read_let_nobody_in_and_keep_those_before(caplog: pytest.LogCaptureFixture) -> None:
    asked = access(value=b"rubbish")
    assert not asked.is_known
    asked.take(TOKENS)
    asked.take(b"rubbish")
    assert asked.caller("slotreeve.1.s1").name == "reader"
    assert "the tokens before it stay in force" in caplog.text


def test_callers_without_a_token_have_what_is_granted_to_them_and_are_else_asked_for_one() -> None:
    anonymous = access("read:com.*").caller(None)
    anonymous.require(Right.READ, "com.G")
    assert not anonymous.may(Right.READ, "org.G")
    with pytest.raises(Unauthenticated, match=r"to read org\.G needs a token"):
        anonymous.require(Right.READ, "org.G")
    with pytest.raises(Unauthenticated, match="a token is needed"):
        access().caller(None)


def test_no_secret_comes_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        asked = access()
        asked.caller("slotreeve.1.s1")
        with pytest.raises(Unauthenticated) as refused:
            asked.caller("slotreeve.1.secret-of-somebody")
    assert "secret-of-somebody" not in caplog.text + str(refused.value)
