"""Tokens and rights."""

from __future__ import annotations

import fnmatch
import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from slotreeve.errors import ModelError
from slotreeve.model.rights import MAX_PATTERN_LENGTH, Right, Rights, parse_right
from slotreeve_protocol.tokens import (
    MAX_RIGHTS,
    MAX_TOKENS,
    MAX_TOKENS_BYTES,
    Token,
    Tokens,
    hash_of,
    new_token,
    parts_of,
)

HASH = "ab" * 32


def token(name: str = "greeter", **fields: object) -> Token:
    return Token(**{"name": name, "secret_hash": HASH, "rights": ("read:*",), **fields})  # type: ignore[arg-type]


@given(st.lists(st.text("ab*.", min_size=1, max_size=8), min_size=1, max_size=4), st.text("ab.", max_size=12))
@example(["ab*ba"], "aba")
def test_a_pattern_matches_what_a_regular_expression_would(patterns: list[str], name: str) -> None:
    rights = Rights(f"read:{pattern}" for pattern in patterns)
    wanted = any(re.fullmatch(fnmatch.translate(pattern), name) for pattern in patterns)
    assert rights.hold(Right.READ, name) is wanted
    assert not rights.hold(Right.REGISTER, name)


def test_rights_are_about_the_data_id_whatever_instance_and_group() -> None:
    rights = Rights(["register:com.a.*", "operate:com.a.B"])
    assert rights.hold(Right.REGISTER, "com.a.B#@#tenant#@#GROUP")
    assert rights.hold(Right.OPERATE, "com.a.B#@#tenant#@#GROUP")
    assert not rights.hold(Right.REGISTER, "com.b.C#@#com.a.B#@#com.a.B")
    assert not rights.hold(Right.OPERATE, "com.a.B.C")
    assert not rights.hold(Right.READ, "com.a.B")
    assert not Rights().hold(Right.READ, "")


def test_a_pattern_with_many_stars_on_a_long_name_takes_no_time() -> None:
    rights = Rights(["read:" + "a*" * 120 + "b"])
    assert not rights.hold(Right.READ, 2_000 * "a")


@pytest.mark.parametrize(
    "text", ["", "read", "read:", "Read:*", "write:*", "read: ", "read:" + (MAX_PATTERN_LENGTH + 1) * "a", ":*"]
)
def test_what_is_no_right_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ModelError, match="expected read:PATTERN, register:PATTERN or operate:PATTERN"):
        parse_right(text)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "name is ''"),
        ({"name": "a b"}, "name is 'a b'"),
        ({"name": 65 * "a"}, "name is"),
        ({"secret_hash": "ab"}, "no SHA-256"),
        ({"rights": ()}, "it has 0 rights"),
        ({"rights": ("read:*",) * (MAX_RIGHTS + 1)}, "it has 51 rights"),
        ({"rights": ("all:*",)}, "right 'all:[*]'"),
        ({"note": "a\nb"}, "note"),
        ({"note": 201 * "a"}, "note"),
    ],
)
def test_what_is_no_token_is_refused(fields: dict[str, object], wrong: str) -> None:
    with pytest.raises(ModelError, match=wrong):
        token(**fields)  # type: ignore[arg-type]


def test_a_new_token_is_found_by_its_id_and_known_by_the_hash_of_its_secret() -> None:
    numbers = itertools.count(1)
    text, token_id, secret_hash = new_token(lambda size: next(numbers).to_bytes(size, "big"))
    shown_id, secret = parts_of(text)
    assert shown_id == token_id == "0000000000000001"
    assert len(secret) == 64
    assert hash_of(secret).hex() == secret_hash
    assert secret not in secret_hash


@pytest.mark.parametrize("text", ["", "slotreeve", "slotreeve.a", "slotreeve.a.", "other.a.b", "\ud800", "a" * 10_000])
def test_what_is_no_token_of_ours_has_no_parts(text: str) -> None:
    assert parts_of(text) == ("", "")
    assert len(hash_of(text)) == 32


def test_tokens_are_issued_and_revoked_by_name_and_survive_their_json() -> None:
    one = Tokens().issued("1", token("a", ends_ms=5, note="ü"))
    both = one.issued("2", token("b"))
    assert Tokens.decode(both.encode()) == both
    assert both.revoked("b") == one
    assert both.revoked("c") == both
    assert Tokens.decode(None) == Tokens()
    with pytest.raises(ModelError, match="a token a is there already"):
        both.issued("3", token("a"))


def test_there_are_bounds_for_all_tokens_together() -> None:
    full = Tokens({str(i): token(f"t{i}") for i in range(MAX_TOKENS)})
    with pytest.raises(ModelError, match="500 tokens are the limit"):
        full.issued("x", token("x"))
    large = Tokens({str(i): token(f"t{i}", rights=("read:" + 256 * "a",) * MAX_RIGHTS) for i in range(100)})
    with pytest.raises(ModelError, match=f"{MAX_TOKENS_BYTES} is the limit"):
        large.encode()


@pytest.mark.parametrize("value", [b"", b"[]", b'{"by_id":{"1":{"name":""}}}', b"[" * 100_000])
def test_what_is_no_json_of_tokens_is_refused(value: bytes) -> None:
    with pytest.raises(ModelError, match="slotreeve gateway token writes it"):
        Tokens.decode(value)


def test_a_token_ends_at_its_time() -> None:
    assert [token(ends_ms=5).has_ended(now) for now in (4, 5)] == [False, True]
    assert not token().has_ended(10**15)
