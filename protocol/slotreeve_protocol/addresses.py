"""Network addresses of providers: IPv4, IPv6 and DNS names. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from string import whitespace

from slotreeve.errors import ConfigError, ModelError
from slotreeve.keys import split_name

MAX_NAME_LENGTH = 253
"""Longest DNS name, in characters."""
MAX_PORT = 65_535

_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}").fullmatch
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}").fullmatch
_RIGHT = "an IPv4 address, an IPv6 address without brackets, or a DNS name (in ASCII) of at most 253 characters"


class AddressKind(StrEnum):
    """What an address is."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    NAME = "name"


def kind_of(address: str) -> AddressKind:
    """The kind of an address that :func:`normal` returned."""
    if ":" in address:
        return AddressKind.IPV6
    return AddressKind.IPV4 if _IPV4(address) else AddressKind.NAME


def normal(address: str) -> str:
    """The usual text of an address, so that equal addresses are equal texts: names in small letters without the last
    dot, IPv6 in its shortest form.

    Raises:
        ModelError: it is no address. An IPv6 address with a scope (``%eth0``) is none: only its own host knows it.
    """
    if _IPV4(address):
        return address
    if ":" in address:
        try:
            parsed = IPv6Address(address)
        except ValueError:
            raise _wrong(address) from None
        if parsed.scope_id is not None:
            raise _wrong(address)
        return str(parsed)
    name = address.lower() if address.isascii() else ""
    name = name.removesuffix(".")
    # A name whose last label is a number would be taken for an IPv4 address by many programs.
    if len(name) > MAX_NAME_LENGTH or not _NAME(name) or name.rpartition(".")[2].isdecimal():
        raise _wrong(address)
    return name


def endpoint(address: str, port: int) -> str:
    """``address:port``, with brackets around an IPv6 address; the address alone where the port is 0."""
    if not port:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def split_endpoint(text: str) -> tuple[str, int]:
    """Address and port of ``10.0.0.1:8080``, ``[2001:db8::1]:8080`` or ``db.example.com:5432``. The port is 0 where
    there is none.

    Raises:
        ModelError: it is none of these.
    """
    address, port = text, ""
    if text.startswith("["):
        address, bracket, port = text[1:].partition("]")
        if not bracket or ":" not in address or (port and not port.startswith(":")):
            raise _wrong_endpoint(text)
        port = port[1:] if port else "0"
    elif text.count(":") == 1:
        address, _, port = text.partition(":")
    else:
        port = "0"
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= MAX_PORT):
        raise _wrong_endpoint(text)
    return normal(address), int(port)


def check_server_address(text: str) -> None:
    """Whether a server may be at ``text``: ``host:port``, with keys ``name@host:port``.

    Raises:
        ConfigError: it is something else, such as several addresses in one text.
    """
    name, place = split_name(text)
    try:
        has_port = split_endpoint(place)[1] > 0 and not {*name} & {"@", ",", *whitespace}
    except ModelError:
        has_port = False
    if not has_port:
        raise ConfigError(
            f"{text[:200]!r} is no address of a server; expected host:port, or with keys name@host:port, and one only"
        )


def is_callable(address: str) -> bool:
    """Whether an IP address may be that of a single machine: it is not unspecified (``0.0.0.0``, ``::``), a group of
    machines or the broadcast address."""
    parsed = ip_address(address)
    parsed = (parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None) or parsed
    return not (parsed.is_unspecified or parsed.is_multicast or str(parsed) == "255.255.255.255")


def is_loopback(listen: str) -> bool:
    """Whether only this machine reaches what listens at ``listen``: an address with or without a port."""
    host = listen.rpartition(":")[0] if listen.count(":") == 1 or "]:" in listen else listen
    host = host.strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wrong(address: str) -> ModelError:
    return ModelError(f"address is {address[:80]!r}; expected {_RIGHT}")


def _wrong_endpoint(text: str) -> ModelError:
    return ModelError(
        f"address is {text[:80]!r}; expected address:port, e.g. 10.0.0.1:8080, [2001:db8::1]:8080 or db.example.com:80"
    )
