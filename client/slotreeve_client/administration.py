"""Questions to the meta servers, for tools and operators."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.errors import ClientError, Refused, TransportError, Unreachable
from slotreeve.model.nodes import Role
from slotreeve.ports import Connection, Transport
from slotreeve.wire.messages import Failed, GetLeader, GetView, Hello, LeaderIs, Message, View


class _Quiet:
    """A tool takes nothing but replies."""

    def opened(self, connection: Connection) -> None:
        """Nothing to do."""

    def received(self, connection: Connection, message: Message, request_id: int | None) -> None:
        """Nothing is expected."""

    def closed(self, connection: Connection, reason: str) -> None:
        """Whoever waits for a reply is told by the transport."""


async def ask_meta(
    transport: Transport, cluster: str, addresses: Iterable[str], message: Message, timeout_seconds: float = 2.0
) -> Message:
    """The answer of the first meta server that gives one.

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
    raise Unreachable("no meta server answers: " + "; ".join(failures))


async def cluster_view(transport: Transport, cluster: str, addresses: Iterable[str]) -> View:
    """The committed slot table and members, as the meta leader knows them where it can be reached.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_meta`.
    """
    known = list(addresses)
    leader = await cluster_leader(transport, cluster, known)
    if leader.address is not None:
        known.sort(key=lambda address: address != leader.address)
    reply = await ask_meta(transport, cluster, known, GetView())
    if not isinstance(reply, View):
        raise ClientError(f"a meta server answered GetView with a {type(reply).__name__}")
    return reply


async def cluster_leader(transport: Transport, cluster: str, addresses: Iterable[str]) -> LeaderIs:
    """Who leads, as the first meta server that answers knows it.

    Raises:
        Refused, Unreachable, ClientError: as :func:`ask_meta`.
    """
    reply = await ask_meta(transport, cluster, addresses, GetLeader())
    if not isinstance(reply, LeaderIs):
        raise ClientError(f"a meta server answered GetLeader with a {type(reply).__name__}")
    return reply
