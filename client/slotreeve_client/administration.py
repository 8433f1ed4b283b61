"""Questions to the meta servers, for tools and operators."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Set

from slotreeve.errors import ClientError, Refused, RequestTimeout, TransportError, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Hello, Message, Transport
from slotreeve_protocol.general_messages import Counters, Failed, GetCounters
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

POLL_SECONDS = 0.02
LEADER_ATTEMPTS = 100


class _Quiet:
    """A tool takes nothing but replies."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing is expected."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Whoever waits for a reply is told by the transport."""


async def ask_any(
    transport: Transport, cluster: str, addresses: Iterable[str], message: Message, timeout_seconds: float = 2.0
) -> Message:
    """The answer of the first of these servers that gives one.

    Raises:
        Refused: a server refused this tool (another cluster, say).
        Unreachable: none answered; the message names each with its reason.
        ClientError: the answer was Failed.
    """
    failures = []
    hello = Hello(cluster, "tool", Role.TOOL, "tool")
    for address in addresses:
        try:
            connection = await transport.connect(address, hello, _Quiet(), timeout_seconds)
            try:
                reply = await connection.ask(message, timeout_seconds)
            finally:
                connection.close("done")
        except Refused:
            raise
        except TransportError as error:
            failures.append(f"{address}: {error}")
            continue
        if isinstance(reply, Failed):
            raise ClientError(reply.reason)
        return reply
    raise Unreachable("nobody answers: " + "; ".join(failures))


async def cluster_view(transport: Transport, cluster: str, addresses: Iterable[str]) -> View:
    """The committed slot table and members, as the meta leader knows them where it can be reached.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    known = list(addresses)
    leader = await cluster_leader(transport, cluster, known)
    if leader.address is not None:
        known.sort(key=lambda address: address != leader.address)
    reply = await ask_any(transport, cluster, known, GetView())
    if not isinstance(reply, View):
        raise ClientError(f"a meta server answered GetView with a {type(reply).__name__}")
    return reply


async def cluster_leader(transport: Transport, cluster: str, addresses: Iterable[str]) -> LeaderIs:
    """Who leads, as the first meta server that answers knows it.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    reply = await ask_any(transport, cluster, addresses, GetLeader())
    if not isinstance(reply, LeaderIs):
        raise ClientError(f"a meta server answered GetLeader with a {type(reply).__name__}")
    return reply


async def counters(transport: Transport, cluster: str, address: str) -> dict[str, int]:
    """What the server at ``address`` (of any role) counted since its start, and what it holds.

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
    """Write one key of the provided configuration (None: delete it) through the meta leader; returns what is stored.

    Raises:
        Refused, Unreachable: as :func:`ask_any`.
        ClientError: it was not stored, or that is not known; the message says why.
    """
    reply = await _ask_leader(transport, cluster, addresses, PutConfig(key, value, expected_version))
    return reply.entries[0]


async def get_configs(
    transport: Transport, cluster: str, addresses: Iterable[str], prefix: str = ""
) -> list[ConfigEntry]:
    """The provided configuration as the meta leader knows it, by key; deleted keys are left out.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_any`.
    """
    reply = await _ask_leader(transport, cluster, addresses, GetConfigs(prefix))
    return [entry for entry in reply.entries if entry.value is not None]


async def _ask_leader(
    transport: Transport, cluster: str, addresses: Iterable[str], message: PutConfig | GetConfigs
) -> Configs:
    known = list(addresses)
    reply: Message = await cluster_leader(transport, cluster, known)
    for _ in range(LEADER_ATTEMPTS):
        if isinstance(reply, LeaderIs) and reply.address is not None:
            reply = await ask_any(transport, cluster, [reply.address], message)
        else:
            await asyncio.sleep(POLL_SECONDS)
            reply = await cluster_leader(transport, cluster, known)
        if isinstance(reply, Configs):
            return reply
    raise Unreachable(f"no meta server among {', '.join(known)} leads")


async def complete_view(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    names: Set[str],
    replicas: int,
    timeout_seconds: float,
) -> View:
    """Wait until exactly the data and session servers ``names`` are members and every slot has a leader and as many
    followers as there can be.

    Raises:
        Refused, ClientError: as :func:`ask_any`.
        RequestTimeout: not within ``timeout_seconds``; the message says what is lacking.
    """
    known = list(addresses)
    lacking = "no meta server answered"
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                try:
                    view = await cluster_view(transport, cluster, known)
                    lacking = _lacking(view, names, replicas)
                    if not lacking:
                        return view
                except Refused:
                    raise
                except TransportError as error:
                    lacking = str(error)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise RequestTimeout(f"the cluster is not ready after {timeout_seconds:g} s: {lacking}") from None


def _lacking(view: View, names: Set[str], replicas: int) -> str:
    """What keeps a cluster from being complete; empty when nothing does."""
    members = {node.name for node in [*view.data, *view.sessions]}
    if members != names:
        return f"members are {', '.join(sorted(members)) or 'none'}; expected {', '.join(sorted(names))}"
    followers = min(replicas, len(view.data)) - 1
    holders = [(slot.leader, slot.followers) for slot in view.table.slots]
    complete = sum(leader is not None and len(named) >= followers for leader, named in holders)
    return "" if holders and complete == len(holders) else f"{complete} of {len(holders)} slots are complete"
