"""A request to the meta leader to give up its lead."""

from __future__ import annotations

from collections.abc import Iterable

from slotreeve.errors import ClientError, Unreachable
from slotreeve.ports import Transport
from slotreeve_protocol.general_messages import Done
from slotreeve_protocol.meta_messages import LeaderIs, Resign

from slotreeve_client.administration import ask_any, cluster_leader


async def resign_leader(transport: Transport, cluster: str, addresses: Iterable[str], to: str = "") -> LeaderIs:
    """Let the meta leader resign, to the meta server ``to`` if one is named; return who led.

    Raises:
        Refused, Unreachable: as :func:`slotreeve_client.administration.ask_any`; Unreachable also while none leads.
        ClientError: it did not resign; the message says why.
    """
    leader = await cluster_leader(transport, cluster, addresses)
    if leader.address is None:
        raise Unreachable("no meta server leads now, so none can resign")
    reply = await ask_any(transport, cluster, [leader.address], Resign(to))
    if not isinstance(reply, Done):
        raise ClientError(f"{leader.leader} does not lead any more; the leader has changed meanwhile")
    return leader
