"""Keys: what a process proves its identity with, and whose keys it trusts. Pure.

A key is that of Curve25519 as ZeroMQ's CURVE has it: 32 bytes, written in Z85 as 40 characters (ZeroMQ's RFCs 26 and
32). A transport proves that a peer holds a key; what its holder may be is said here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from slotreeve.errors import ConfigError, ModelError, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.model.rights import Right, parse_right

KEY_LENGTH = 40
"""Characters of a key in Z85."""
NO_RIGHTS: Mapping[str, Iterable[str]] = MappingProxyType({})
_Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}").fullmatch
SPEAKS_AS: Mapping[Role, frozenset[Role]] = {
    Role.META: frozenset({Role.META}),
    Role.DATA: frozenset({Role.DATA}),
    Role.SESSION: frozenset({Role.SESSION}),
    Role.GATEWAY: frozenset({Role.CLIENT, Role.TOOL}),
    Role.TOOL: frozenset({Role.CLIENT, Role.TOOL}),
    Role.CLIENT: frozenset({Role.CLIENT}),
}
"""What the holder of a key of each role may say that it is. To servers a gateway is a client, and a tool to whom its
callers order something."""
OF_NAME = "/"
"""Ends the name of a key in the ids of its clients."""
ONE_NODE = frozenset({Role.META, Role.DATA, Role.SESSION})
"""The holder of a key of these roles is the one node that the key is named after. Clients and tools of one key may be
many processes."""


@dataclass(frozen=True)
class KeyPair:
    """The two halves of a key. The secret one is never printed."""

    public: str
    secret: str = field(repr=False)


class Principal(NamedTuple):
    """Who holds a key.

    Attributes:
        name: of a server: its node's name.
        key: the public half.
        rights: of a client: what it may do, each ``RIGHT:PATTERN`` (:func:`slotreeve.model.rights.parse_right`).
    """

    name: str
    role: Role
    key: str
    rights: tuple[str, ...] = ()


class TrustedKeys:
    """The public keys that a cluster trusts. It never changes: another list is another object.

    Args:
        keys: by role and name; a name may have several keys, while one of them replaces another.
        rights: those of clients, by name. One without rights may do nothing.

    Raises:
        ConfigError: a key is no key or stands twice, a name is empty, holds a line break or stands under two roles, or
            rights are not good or belong to no client.
    """

    def __init__(
        self, keys: Mapping[Role, Mapping[str, Iterable[str]]], rights: Mapping[str, Iterable[str]] = NO_RIGHTS
    ) -> None:
        given = {name: checked_rights(name, texts, keys.get(Role.CLIENT, {})) for name, texts in rights.items()}
        self._by_key: dict[str, Principal] = {}
        self._by_name: dict[str, list[Principal]] = {}
        for role, names in keys.items():
            for name, theirs in names.items():
                if name in self._by_name or not name.isprintable() or not name.strip() or OF_NAME in name:
                    raise ConfigError(
                        f"[{role}] {name!r}: expected a name that no other row has, without slashes or line breaks"
                    )
                may, where = given.get(name, ()), f"[{role}] {name}"
                self._by_name[name] = [Principal(name, role, checked_key(key, where), may) for key in theirs]
                for principal in self._by_name[name]:
                    other = self._by_key.setdefault(principal.key, principal)
                    if other is not principal:
                        raise ConfigError(
                            f"[{role}] {name}: this is the key of {other.name}, too; expected another for each name"
                        )

    def holder(self, key: str) -> Principal | None:
        """Who holds a key; None if it is not trusted."""
        return self._by_key.get(key)

    def named(self, name: str) -> list[Principal]:
        """The keys under a name, in the order in which they were given; empty if there is none."""
        return list(self._by_name.get(name, ()))

    def all(self) -> list[Principal]:
        """Every key, in the order in which they were given."""
        return list(self._by_key.values())


class KeyRing:
    """What one process proves its identity with, and whom it trusts. One event loop uses it; other threads may read
    ``trusted``.

    Args:
        own: its own key. It stays, because listeners have it from the start.
        trusted: whom it trusts at first.
        newer: returns another list of trusted keys, if there is one by now. It must not raise.
        name: of the holder of the own key, where the trusted ones need not say it.

    Attributes:
        trusted: whom it trusts now.
    """

    def __init__(
        self,
        own: KeyPair,
        trusted: TrustedKeys,
        newer: Callable[[], TrustedKeys | None] = lambda: None,
        name: str = "",
    ) -> None:
        self.own = own
        self.trusted = trusted
        self._newer, self._name = newer, name

    @property
    def name(self) -> str:
        """What the holder of the own key is called; empty where neither its file nor the trusted ones say it."""
        known = self.trusted.holder(self.own.public)
        return self._name or (known.name if known is not None else "")

    def look_again(self) -> None:
        """Trust whoever is to be trusted by now."""
        newer = self._newer()
        if newer is not None:
            self.trusted = newer

    def still_holds(self, principal: Principal) -> bool:
        """Whether that key is still trusted, and under the same name and role."""
        return self.trusted.holder(principal.key) == principal

    def expected_at(self, address: str) -> list[Principal]:
        """Which keys the process at ``name@host:port`` may have, the newest one first.

        Raises:
            Unreachable: the address does not say whose key it is, or no key of that name is trusted.
        """
        name, place = split_name(address)
        if not name:
            raise Unreachable(f"{address} does not say whose key to expect there; expected NAME@{place}")
        found = self.trusted.named(name)
        if not found:
            raise Unreachable(f"{address}: no key of {name!r} is trusted here")
        return found[::-1]


def checked_key(text: str, where: str) -> str:
    """``text`` if it is a key.

    Raises:
        ConfigError: it is none; ``where`` it stands is for the message, which does not repeat it: it may be a secret.
    """
    if not isinstance(text, str) or not _Z85(text):
        raise ConfigError(f"{where}: expected a key, {KEY_LENGTH} characters of Z85, as `slotreeve keys new` prints it")
    return text


def checked_rights(name: str, texts: Iterable[str], clients: Container[str]) -> tuple[str, ...]:
    """The rights of a client.

    Raises:
        ConfigError: there is no such client, or one of them is no right that clients have.
    """
    if name not in clients:
        raise ConfigError(f"[rights] {name}: there is no client of this name; only clients have rights")
    found = tuple(texts)
    for text in found:
        try:
            right, _ = parse_right(text)
        except ModelError as error:
            raise ConfigError(f"[rights] {name}: {error}") from None
        if right is Right.OPERATE:
            raise ConfigError(f"[rights] {name}: {text!r}: operators have the key of a tool; expected read or register")
    return found


def client_id(name: str, number: str) -> str:
    """The id of one client among those with the key of this name."""
    return f"{name}{OF_NAME}{number}" if name else number


def is_client_of(name: str, client: str) -> bool:
    """Whether a client's id is one of those that the key of this name is for. No name holds a slash."""
    return client.startswith(f"{name}{OF_NAME}")


def with_name(name: str, address: str) -> str:
    """An address that says whose it is, ``name@host:port``, so that who connects knows which key to expect."""
    return f"{name}@{address}"


def split_name(address: str) -> tuple[str, str]:
    """Name and ``host:port`` of ``name@host:port``. The name is empty where there is none."""
    name, _, place = address.rpartition("@")
    return name, place
