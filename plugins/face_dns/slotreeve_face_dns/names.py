"""What a name in the zone stands for. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address

import dns.name
from slotreeve.model.data_info import DEFAULT_GROUP, DEFAULT_INSTANCE, DataInfo

SERVICE, ADDRESS, NAME_SERVER = b"service", b"addr", b"ns"
_NO_FILTER = {"tcp", "udp"}


class NameKind(Enum):
    """What there is at a name."""

    APEX = "the zone itself"
    NAME_SERVER = "this gateway"
    NODE = "nothing by itself, but names below it"
    SERVICE = "a service, if there is one of this name"
    ADDRESS = "an address that is written in the name"
    PART = "nothing by itself, if names of services end in this one"
    NOTHING = "nothing"


@dataclass(frozen=True)
class NamePlace:
    """Where a name points.

    Attributes:
        kind: what there is.
        service: the data id in small letters, of a service; or the end of one.
        tag: only instances with this tag, in small letters; empty: all.
        address: of a name that holds one.
    """

    kind: NameKind
    service: str = ""
    tag: str = ""
    address: IPv4Address | IPv6Address | None = None


_NOTHING = NamePlace(NameKind.NOTHING)


class Zone:
    """The names of one domain.

    Below it are ``SERVICE.service``, also as ``_SERVICE._tcp.service`` and ``_SERVICE._tcp`` (RFC 2782; another word
    than ``tcp`` or ``udp`` stands for a tag, as with Consul), and ``HEX.addr``, an address in hexadecimal.
    """

    def __init__(self, domain: str) -> None:
        self.origin = dns.name.from_text(domain.lower())
        self._origin = b"".join(bytes((len(label),)) + label for label in self.origin.labels)
        self._origin_labels = list(self.origin.labels[:-1])
        self.name_server = dns.name.Name([NAME_SERVER, *self.origin.labels])

    def place(self, name: bytes) -> NamePlace | None:
        """Where a name points; None: it does not belong to the zone. ``name``: as in a message, in small letters."""
        if name != self._origin and not name.endswith(self._origin):
            return None
        labels = _labels(name)
        own = len(self.origin.labels) - 1
        if labels[-own:] != self._origin_labels:
            return None  # a label that ends like the zone
        labels = labels[:-own]
        if not labels:
            return NamePlace(NameKind.APEX)
        first, last = labels[0], labels[-1]
        if labels in ([SERVICE], [ADDRESS]):
            return NamePlace(NameKind.NODE)
        if labels == [NAME_SERVER]:
            return NamePlace(NameKind.NAME_SERVER)
        if last == ADDRESS:
            return _of_address(first) if len(labels) == 2 else _NOTHING
        if last == SERVICE:
            labels = labels[:-1]
        elif not last.startswith(b"_"):
            return _NOTHING
        return _of_service(labels)

    def of_address(self, address: str) -> dns.name.Name:
        """The name that holds an address, which the SRV record of an instance without a name points to."""
        return dns.name.Name([ip_address(address).packed.hex().encode(), ADDRESS, *self.origin.labels])


def _labels(name: bytes) -> list[bytes]:
    found: list[bytes] = []
    at = 0
    while length := name[at]:
        found.append(name[at + 1 : at + 1 + length])
        at += 1 + length
    return found


def _of_service(labels: list[bytes]) -> NamePlace:
    try:
        texts = [label.decode() for label in labels]
    except UnicodeDecodeError:
        return _NOTHING
    if any("." in text for text in texts):
        return _NOTHING  # the dot would become one between labels
    if not texts[-1].startswith("_"):
        return NamePlace(NameKind.SERVICE, ".".join(texts))
    if len(texts) == 1:
        return NamePlace(NameKind.NODE)
    if not texts[0].startswith("_"):
        # Resolvers ask for each name above the one that they want, and take "no such name" for that one's answer, too.
        return NamePlace(NameKind.PART, ".".join(texts[:-1]))
    protocol = texts[-1][1:]
    return NamePlace(NameKind.SERVICE, ".".join(texts[:-1])[1:], "" if protocol in _NO_FILTER else protocol)


def _of_address(label: bytes) -> NamePlace:
    try:
        packed = bytes.fromhex(label.decode())
        return NamePlace(NameKind.ADDRESS, address=ip_address(packed))
    except ValueError:
        return _NOTHING


class DnsServices:
    """The services that have a name: those of the default group and instance id. Two whose data ids differ in small and
    capital letters only share a name; the first of them in the alphabet has it."""

    def __init__(self, data_info_ids: Iterable[str]) -> None:
        self._by_name: dict[str, str] = {}
        self._above: set[str] = set()
        for data_info_id in sorted(data_info_ids):
            info = DataInfo.parse(data_info_id)
            if (info.instance_id, info.group) != (DEFAULT_INSTANCE, DEFAULT_GROUP):
                continue
            name = info.data_id.lower()
            self._by_name.setdefault(name, data_info_id)
            while "." in name:
                name = name.partition(".")[2]
                self._above.add(name)

    def named(self, service: str) -> str | None:
        """The data info id of a service by its data id in small letters."""
        return self._by_name.get(service)

    def has_below(self, service: str) -> bool:
        """Whether the name of a service ends in this one, so that it is there without records (RFC 8020)."""
        return service in self._above
