"""Keys: who is trusted, and what an address says."""

from __future__ import annotations

import pytest
from slotreeve.errors import ConfigError, Unreachable
from slotreeve.keys import (
    SPEAKS_AS,
    KeyPair,
    KeyRing,
    Principal,
    TrustedKeys,
    client_id,
    is_client_of,
    split_name,
    with_name,
)
from slotreeve.model.nodes import Role

ONE, OTHER, THIRD = "1" * 40, "2" * 40, "3" * 40


def test_a_key_leads_to_its_holder_and_a_name_to_its_keys() -> None:
    trusted = TrustedKeys({Role.DATA: {"data-1": [ONE, OTHER]}, Role.CLIENT: {"shop": [THIRD]}})
    assert trusted.holder(OTHER) == Principal("data-1", Role.DATA, OTHER)
    assert [principal.key for principal in trusted.named("data-1")] == [ONE, OTHER]
    assert trusted.holder("4" * 40) is None
    assert trusted.named("data-2") == []
    assert [principal.name for principal in trusted.all()] == ["data-1", "data-1", "shop"]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({Role.DATA: {"data-1": ["short"]}}, r"\[data\] data-1: expected a key, 40 characters"),
        ({Role.DATA: {"data-1": [ONE[:-1] + "~"]}}, "expected a key"),
        ({Role.DATA: {"data-1": [7]}}, "expected a key"),
        ({Role.DATA: {"data-1": [ONE], "data-2": [ONE]}}, r"data-2: this is the key of data-1, too"),
        ({Role.DATA: {"data-1": [ONE, ONE]}}, "this is the key of data-1, too"),
        ({Role.DATA: {"a": [ONE]}, Role.META: {"a": [OTHER]}}, r"\[meta\] 'a': expected a name that no other row has"),
        ({Role.DATA: {" ": [ONE]}}, "expected a name"),
        ({Role.DATA: {"data-1\n": [ONE]}}, "expected a name"),
    ],
)
def test_a_list_that_leaves_open_who_holds_a_key_is_refused(
    rows: dict[Role, dict[str, list[str]]], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        TrustedKeys(rows)


def test_rights_are_those_of_clients() -> None:
    rows = {Role.CLIENT: {"shop": [ONE, OTHER], "till": [THIRD]}}
    trusted = TrustedKeys(rows, {"shop": ["read:*", "register:com.example.Shop"]})
    assert {each.key: each.rights for each in trusted.all()} == {
        ONE: ("read:*", "register:com.example.Shop"),
        OTHER: ("read:*", "register:com.example.Shop"),
        THIRD: (),
    }


@pytest.mark.parametrize(
    ("rights", "problem"),
    [
        ({"data-1": ["read:*"]}, "there is no client of this name"),
        ({"nobody": ["read:*"]}, "there is no client of this name"),
        ({"shop": ["write:*"]}, r"\[rights\] shop: right 'write:\*': expected read:PATTERN"),
        ({"shop": ["operate:*"]}, "operators have the key of a tool"),
    ],
)
def test_rights_that_cannot_be_meant_are_refused(rights: dict[str, list[str]], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        TrustedKeys({Role.DATA: {"data-1": [ONE]}, Role.CLIENT: {"shop": [OTHER]}}, rights)


def test_a_message_about_a_bad_key_does_not_repeat_it() -> None:
    with pytest.raises(ConfigError) as caught:
        TrustedKeys({Role.DATA: {"data-1": ["a-secret~that-was-put-into-the-wrong-row"]}})
    assert "a-secret" not in str(caught.value)
    assert "secret-half" not in repr(KeyPair("public-half", "secret-half"))


def test_the_newest_key_of_a_name_is_expected_first() -> None:
    keys = KeyRing(KeyPair(ONE, ONE), TrustedKeys({Role.META: {"meta-1": [OTHER, THIRD]}}))
    assert [principal.key for principal in keys.expected_at("meta-1@127.0.0.1:7710")] == [THIRD, OTHER]
    with pytest.raises(Unreachable, match=r"expected NAME@127.0.0.1:7710"):
        keys.expected_at("127.0.0.1:7710")
    with pytest.raises(Unreachable, match="no key of 'meta-2' is trusted here"):
        keys.expected_at("meta-2@127.0.0.1:7710")


def test_a_key_holds_as_long_as_it_stands_under_the_same_name_and_role() -> None:
    lists = [TrustedKeys({Role.META: {"data-1": [ONE]}}), TrustedKeys({Role.DATA: {"data-1": [OTHER]}})]
    keys = KeyRing(
        KeyPair(THIRD, THIRD), TrustedKeys({Role.DATA: {"data-1": [ONE]}}), lambda: lists.pop(0) if lists else None
    )
    principal = Principal("data-1", Role.DATA, ONE)
    assert keys.still_holds(principal)
    keys.look_again()
    assert not keys.still_holds(principal), "it is a meta server's now"
    keys.look_again()
    assert not keys.still_holds(principal), "it is nobody's now"
    keys.look_again()
    assert keys.trusted.holder(OTHER) is not None, "nothing has changed"


@pytest.mark.parametrize(
    ("address", "name", "place"),
    [
        ("data-1@127.0.0.1:7720", "data-1", "127.0.0.1:7720"),
        ("127.0.0.1:7720", "", "127.0.0.1:7720"),
        ("data-10.0.0.1:7720@[::1]:7720", "data-10.0.0.1:7720", "[::1]:7720"),
        ("a@b@localhost:1", "a@b", "localhost:1"),
    ],
)
def test_an_address_may_say_whose_it_is(address: str, name: str, place: str) -> None:
    assert split_name(address) == (name, place)
    if name:
        assert with_name(name, place) == address


def test_only_a_server_speaks_as_a_server() -> None:
    servers = {Role.META, Role.DATA, Role.SESSION}
    assert set(SPEAKS_AS) == set(Role)
    for role, spoken in SPEAKS_AS.items():
        assert spoken & servers == ({role} if role in servers else set())


def test_a_name_with_a_slash_is_refused_because_a_slash_ends_it_in_the_ids_of_clients() -> None:
    with pytest.raises(ConfigError, match="without slashes"):
        TrustedKeys({Role.CLIENT: {"shop/1": [ONE]}})
    assert is_client_of("shop", client_id("shop", "1"))
    assert not any(is_client_of("shop", other) for other in ("shop", "shop-2/1", "shopper/1", "/1", ""))
