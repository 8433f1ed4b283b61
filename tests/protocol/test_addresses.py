"""Addresses and endpoints."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotreeve.errors import ConfigError, ModelError
from slotreeve_protocol.addresses import (
    AddressKind,
    check_server_address,
    endpoint,
    is_loopback,
    kind_of,
    normal,
    split_endpoint,
)

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join).filter(lambda n: not n.rpartition(".")[2].isdecimal())
ADDRESSES = st.ip_addresses().map(str) | NAMES


@given(ADDRESSES, st.integers(0, 65_535))
def test_an_endpoint_reads_back_as_it_was_written(address: str, port: int) -> None:
    assert split_endpoint(endpoint(normal(address), port)) == (normal(address), port)


@given(ADDRESSES)
def test_the_normal_address_is_its_own_normal_address(address: str) -> None:
    assert normal(normal(address)) == normal(address)


@given(st.ip_addresses())
def test_every_ip_address_is_one(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert kind_of(normal(str(address))) is (AddressKind.IPV4 if address.version == 4 else AddressKind.IPV6)
    assert normal(address.exploded) == normal(str(address))


@given(st.text(st.sampled_from("0123456789.:af-_%[]x"), max_size=20))
def test_what_looks_like_an_ip_address_is_one_or_is_refused(text: str) -> None:
    try:
        found = normal(text)
    except ModelError:
        return
    if kind_of(found) is AddressKind.NAME:
        assert not found.rpartition(".")[2].isdecimal()
    else:
        assert ipaddress.ip_address(found) == ipaddress.ip_address(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DB.Example.COM.", "db.example.com"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("my_service", "my_service"),
        ("a." * 126 + "b", "a." * 126 + "b"),
        ("10.0.0.1.example", "10.0.0.1.example"),
    ],
)
def test_an_address_is_brought_into_its_usual_form(text: str, expected: str) -> None:
    assert normal(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "10.0.0.256", "010.0.0.1", "1.2.3", "[::1]", "fe80::1%eth0", "::1::2", "-a", "a-", "a..b", "ü.de"),
        *(
            "a b",
            "x" * 64,
            "a." * 127 + "b",
            "10.0.0.1\n",
            "a\n",
            "10.0.0.\u0661",
            "\ud800",
            "1.2.3.4.",
            "localhost:80",
        ),
    ],
)
def test_what_is_no_address_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(ModelError, match=r"address is .*; expected an IPv4 address, an IPv6 address without brackets"):
        normal(text)


@pytest.mark.parametrize("text", ["::1", "[::1]", "db"])
def test_an_endpoint_may_have_no_port(text: str) -> None:
    assert split_endpoint(text) == (text.strip("[]"), 0)


@pytest.mark.parametrize(
    "text", ["a:", "a:x", "a:65536", "a:-1", "[::1", "[a]:80", "[::1]80", "[::1]:", "a:\u0661", ":80"]
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="address is"):
        split_endpoint(text)


@pytest.mark.parametrize(
    ("listen", "wanted"),
    [
        ("127.0.0.1:80", True),
        ("127.8.9.10", True),
        ("[::1]:80", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost:1", True),
        ("0.0.0.0:80", False),
        ("[::]:80", False),
        ("::", False),
        ("10.0.0.1", False),
        ("", False),
        (":80", False),
        ("localhost.example.com:80", False),
        ("[::ffff:127.0.0.1]:80", False),
    ],
)
def test_what_only_this_machine_reaches_is_loopback(listen: str, wanted: bool) -> None:
    assert is_loopback(listen) is wanted


@pytest.mark.parametrize("text", ["127.0.0.1:7730", "[::1]:7730", "session-1:1", "session-1@10.0.0.1:7730", "a/b@h:1"])
def test_a_server_has_an_address_with_a_port_and_perhaps_a_name(text: str) -> None:
    check_server_address(text)


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:x", "h:0", "http://h:1", "a:1,b:2", "a:1 b:2", "s-1@a:1 s-2@b:2", "[::1]"]
)
def test_what_is_no_address_of_one_server_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:port"):
        check_server_address(text)
