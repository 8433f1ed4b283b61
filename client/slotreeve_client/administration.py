"""Requests to the servers of a cluster, for tools and operators."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TypeVar

from slotreeve.errors import ClientError, Refused, RequestTimeout, TransportError, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message, Transport
from slotreeve_protocol.general_messages import Counters, Failed, GetCounters
from slotreeve_protocol.live_settings import SETTINGS_KEY, LiveSettings
from slotreeve_protocol.meta_messages import (
    ConfigEntry,
    Configs,
    GetConfigs,
    GetLeader,
    GetView,
    LeaderIs,
    PutConfig,
    View,
)
from slotreeve_protocol.orders import ORDERS_KEY, Orders
from slotreeve_protocol.overrides import OVERRIDES_KEY, Overrides
from slotreeve_protocol.provided import check_config_key
from slotreeve_protocol.tokens import TOKENS_KEY, Tokens

POLL_SECONDS = 0.02
LEADER_SECONDS = 2.0
"""For so long a leader is looked for. A question that is under way then may take as long as servers are silent."""
CHANGE_ATTEMPTS = 10


class _RepliesOnly:
    """The handler of a tool's connection: it gets replies and ignores everything else."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing to do."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Nothing to do: the request in flight fails with ConnectionLost."""


def asker() -> str:
    """Who asks, for the logs of servers: the account and the machine. Nobody has to prove it."""
    account = os.environ.get("SUDO_USER") or os.environ.get("USER") or os.environ.get("LOGNAME") or "somebody"
    return f"{account} on {platform.node() or 'an unnamed machine'}"


async def hello_of(transport: Transport, cluster: str, address: str, timeout_seconds: float = 2.0) -> Hello:
    """How a server introduces itself: its name, its protocol versions, its slot facts.

    Raises:
        Refused: it refused the connection; the message has its reason.
        Unreachable: no server answers there in time.
    """
    hello = Hello(cluster, asker(), Role.TOOL, "tool")
    connection = await transport.connect(address, hello, _RepliesOnly(), timeout_seconds)
    connection.close("done")
    return connection.peer


async def ask_any(
    transport: Transport, cluster: str, addresses: Iterable[str], message: Message, timeout_seconds: float = 2.0
) -> Message:
    """The reply of the first of these servers that sends one.

    Raises:
        Refused: a server refused the connection, e.g. because it belongs to another cluster.
        Unreachable: no server replied; the message names the reason for each address.
        ClientError: the reply is ``Failed``; the message says why.
    """
    failures = []
    for address in addresses:
        try:
            return await _ask_one(transport, cluster, address, message, timeout_seconds)
        except Refused:
            raise
        except TransportError as error:
            failures.append(f"{address}: {error}")
    raise Unreachable("no server answers: " + "; ".join(failures))


async def _ask_one(
    transport: Transport, cluster: str, address: str, message: Message, timeout_seconds: float = 2.0
) -> Message:
    """The reply of this server. Raises TransportError, Refused, and ClientError for a reply that is ``Failed``."""
    hello = Hello(cluster, asker(), Role.TOOL, "tool")
    connection = await transport.connect(address, hello, _RepliesOnly(), timeout_seconds)
    try:
        reply = await connection.ask(message, timeout_seconds)
    finally:
        connection.close("done")
    if isinstance(reply, Failed):
        raise ClientError(reply.reason)
    return reply


async def cluster_view(transport: Transport, cluster: str, addresses: Iterable[str]) -> View:
    """The committed slot table and members, from the meta leader if it can be reached, else from another meta server.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
        Unreachable: none leads, and the one that answers knows no view yet: it was started without the others.
    """
    known = list(addresses)
    leader = await cluster_leader(transport, cluster, known)
    if leader.address is not None:
        known.sort(key=lambda address: address != leader.address)
    reply = await ask_any(transport, cluster, known, GetView())
    if not isinstance(reply, View):
        raise ClientError(f"a meta server answered GetView with a {type(reply).__name__}")
    if leader.leader is None and not reply.revision:
        raise Unreachable(
            f"no meta server among {', '.join(known)} leads, and the one that answers knows no slot table"
        )
    return reply


async def cluster_leader(transport: Transport, cluster: str, addresses: Iterable[str]) -> LeaderIs:
    """The leader, in the view of the first meta server that replies and knows one: one that stands aside, or is cut off
    from the others, knows none. Where none of them does, the answer has no leader.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    unled: LeaderIs | None = None
    failures = []
    for address in addresses:
        try:
            reply = await _ask_one(transport, cluster, address, GetLeader())
        except Refused:
            raise
        except TransportError as error:
            failures.append(f"{address}: {error}")
            continue
        if not isinstance(reply, LeaderIs):
            raise ClientError(f"a meta server answered GetLeader with a {type(reply).__name__}")
        if reply.leader is not None:
            return reply
        unled = unled or reply
    if unled is None:
        raise Unreachable("no server answers: " + "; ".join(failures))
    return unled


async def counters(transport: Transport, cluster: str, address: str) -> dict[str, int]:
    """The counters of the server at ``address`` (of any role): what it counted since its start, and what it holds.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    reply = await ask_any(transport, cluster, [address], GetCounters())
    if not isinstance(reply, Counters):
        raise ClientError(f"{address} answered GetCounters with a {type(reply).__name__}")
    return reply.values


async def put_config(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    key: str,
    value: bytes | None,
    expected_version: int | None = None,
) -> ConfigEntry:
    """Write one key of the provided configuration through the meta leader; return the stored entry.

    ``value`` None deletes the key. ``expected_version`` 0 means that the key must not exist, None that any version may.

    Raises:
        ModelError: the key is blank, too long, or cannot be encoded.
        Refused, Unreachable: as :func:`ask_any`.
        ClientError: the value was not stored, or may not have been stored; the message says why.
    """
    check_config_key(key)
    reply = await _ask_leader(transport, cluster, addresses, PutConfig(key, value, expected_version))
    return reply.entries[0]


async def get_configs(
    transport: Transport, cluster: str, addresses: Iterable[str], prefix: str = "", with_deleted: bool = False
) -> list[ConfigEntry]:
    """The entries of the provided configuration whose key starts with ``prefix``, from the meta leader. Deleted keys
    are left out unless ``with_deleted``.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    reply = await _ask_leader(transport, cluster, addresses, GetConfigs(prefix))
    return [entry for entry in reply.entries if with_deleted or entry.value is not None]


async def change_config(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    key: str,
    change: Callable[[bytes | None], bytes | None],
) -> bytes | None:
    """Read one key of the provided configuration, and write what ``change`` makes of it; return the stored value.

    Where somebody else wrote it meanwhile, it is read and changed again. ``change`` gets None where there is no value.
    Nothing is written where it returns what it got.

    Raises:
        Refused, Unreachable, ClientError: as :func:`put_config`; and whatever ``change`` raises.
    """
    _, stored = await change_entry(transport, cluster, addresses, key, lambda entry: change(entry.value))
    return stored.value


async def change_entry(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    key: str,
    change: Callable[[ConfigEntry], bytes | None],
) -> tuple[ConfigEntry, ConfigEntry]:
    """As :func:`change_config`, for a ``change`` that looks at the version, too; return the entry as it was before and
    as it is stored. Both are the same where nothing was written.

    Raises:
        ModelError, Refused, Unreachable, ClientError: as :func:`put_config`; and whatever ``change`` raises.
    """
    check_config_key(key)
    known = list(addresses)
    attempt = 1
    while True:
        before = await get_entry(transport, cluster, known, key)
        value = change(before)
        if value == before.value:
            return before, before
        try:
            return before, await put_config(transport, cluster, known, key, value, before.version)
        except ClientError:
            if attempt == CHANGE_ATTEMPTS:
                raise
        attempt += 1


async def get_entry(transport: Transport, cluster: str, addresses: Iterable[str], key: str) -> ConfigEntry:
    """One entry of the provided configuration, from the meta leader. Its version is 0 if the key was never written; a
    deleted key has a version too, which a write must expect.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    entries = await get_configs(transport, cluster, addresses, key, with_deleted=True)
    return next((entry for entry in entries if entry.key == key), ConfigEntry(key, None, 0))


async def change_orders(
    transport: Transport, cluster: str, addresses: Iterable[str], change: Callable[[Orders], Orders]
) -> tuple[Orders, Orders]:
    """Change the operator's standing orders; return those before and those that are in force then. They are stored when
    any minority of the meta servers may be lost.

    Raises:
        Refused, Unreachable, ClientError: as :func:`put_config`; and whatever ``change`` raises.
        ModelError: the stored orders cannot be read.
    """
    changed = _changed(Orders, change)
    before, after = await change_entry(transport, cluster, addresses, ORDERS_KEY, lambda entry: changed(entry.value))
    return Orders.decode(before.value), Orders.decode(after.value)


async def change_overrides(
    transport: Transport, cluster: str, addresses: Iterable[str], change: Callable[[Overrides], Overrides]
) -> tuple[Overrides, Overrides]:
    """Change the operator's overrides of instances; return those before and those that are in force then. They are
    stored when any minority of the meta servers may be lost.

    Raises:
        Refused, Unreachable, ClientError: as :func:`put_config`; and whatever ``change`` raises.
        ModelError: the stored overrides cannot be read, or the changed ones are too large.
    """
    changed = _changed(Overrides, change)
    before, after = await change_entry(transport, cluster, addresses, OVERRIDES_KEY, lambda entry: changed(entry.value))
    return Overrides.decode(before.value), Overrides.decode(after.value)


async def change_tokens(
    transport: Transport, cluster: str, addresses: Iterable[str], change: Callable[[Tokens], Tokens]
) -> Tokens:
    """Change the tokens of the gateways; return all of them. They are stored as overrides are.

    Raises:
        Refused, Unreachable, ClientError: as :func:`put_config`; and whatever ``change`` raises.
        ModelError: the stored tokens cannot be read, or the changed ones are too large.
    """
    return Tokens.decode(await change_config(transport, cluster, addresses, TOKENS_KEY, _changed(Tokens, change)))


async def change_settings(
    transport: Transport, cluster: str, addresses: Iterable[str], change: Callable[[LiveSettings], LiveSettings]
) -> tuple[LiveSettings, LiveSettings]:
    """Change the operator's live settings; return the table before, and the one that is in force then. They are stored
    as orders are.

    Raises:
        Refused, Unreachable, ClientError: as :func:`put_config`; and whatever ``change`` raises.
        ModelError: the stored table cannot be read.
    """
    changed = _changed(LiveSettings, change)
    before, after = await change_entry(transport, cluster, addresses, SETTINGS_KEY, lambda entry: changed(entry.value))
    return LiveSettings.decode(before.value), LiveSettings.decode(after.value)


E = TypeVar("E", Orders, Overrides, Tokens, LiveSettings)


def _changed(entry: type[E], change: Callable[[E], E]) -> Callable[[bytes | None], bytes | None]:
    """``change`` on the bytes of an entry. What changes nothing leaves the bytes as they are."""

    def changed(value: bytes | None) -> bytes | None:
        before = entry.decode(value)
        after = change(before)
        return value if after == before else after.encode()

    return changed


async def _ask_leader(
    transport: Transport, cluster: str, addresses: Iterable[str], message: PutConfig | GetConfigs
) -> Configs:
    known, loop = list(addresses), asyncio.get_running_loop()
    until = loop.time() + LEADER_SECONDS
    while True:
        reply = await ask_any(transport, cluster, [await a_leader(transport, cluster, known, until)], message)
        if isinstance(reply, Configs):
            return reply
        if loop.time() >= until:
            raise Unreachable(f"the meta leader changes all the time; asked were {', '.join(known)}")
        await asyncio.sleep(POLL_SECONDS)


async def a_leader(transport: Transport, cluster: str, addresses: Sequence[str], until: float) -> str:
    """Where the meta leader is; waits for one until then, by the time of the event loop. Raises as :func:`ask_any`;
    Unreachable also if none leads."""
    loop = asyncio.get_running_loop()
    while True:
        known = await cluster_leader(transport, cluster, addresses)
        if known.address is not None:
            return known.address
        if loop.time() >= until:
            raise Unreachable(f"no meta server among {', '.join(addresses)} leads")
        await asyncio.sleep(POLL_SECONDS)


async def complete_view(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    names: Set[str],
    replicas: int,
    timeout_seconds: float,
) -> View:
    """Wait until exactly the data and session servers ``names`` are members and every slot has a leader and all the
    followers that so many data servers allow.

    Raises:
        Refused, ClientError: as :func:`ask_any`.
        RequestTimeout: this did not happen within ``timeout_seconds``; the message says what is missing.
    """
    known = list(addresses)
    missing = "no meta server answered"
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    view = await cluster_view(transport, cluster, known)
                    missing = _missing(view, names, replicas)
                    if not missing:
                        return view
                except Refused:
                    raise
                except TransportError as error:
                    missing = str(error)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise RequestTimeout(f"the cluster is not ready after {timeout_seconds:g} s: {missing}") from None


def _missing(view: View, names: Set[str], replicas: int) -> str:
    """What the cluster lacks to be complete; empty if it is complete."""
    members = {node.name for node in [*view.data, *view.sessions]}
    if members != names:
        return f"members are {', '.join(sorted(members)) or 'none'}; expected {', '.join(sorted(names))}"
    followers = min(replicas, len(view.data)) - 1
    holders = [(slot.leader, slot.followers) for slot in view.table.slots]
    complete = sum(leader is not None and len(named) >= followers for leader, named in holders)
    return "" if holders and complete == len(holders) else f"{complete} of {len(holders)} slots are complete"
