"""Requests about the election back-end of a cluster: which one is in use, and a swap to another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from slotreeve.errors import ClientError, RequestTimeout, SlotreeveError, Unreachable
from slotreeve.ports import Transport
from slotreeve_protocol.meta_messages import ElectionIs, GetElection, SwapElection, Swapped

from slotreeve_client.administration import LEADER_SECONDS, POLL_SECONDS, a_leader, ask_any

SWAP_ATTEMPTS = 10
"""A leader that loses its lead before the swap is done has changed nothing."""
SWAP_SECONDS = 120.0
AGREE_SECONDS = 15.0


async def swap_election(
    transport: Transport,
    cluster: str,
    addresses: Iterable[str],
    to: str,
    check_only: bool = False,
    without: Sequence[str] = (),
) -> Swapped:
    """Let the meta state of a running cluster go over to the election ``to``; with ``check_only``, find out whether
    every meta server could. Those that are named in ``without`` are not asked.

    Raises:
        Refused, Unreachable: as :func:`slotreeve_client.administration.ask_any`.
        ClientError: it was refused; the message says why. The election in use stays, unless the message says that it is
            not known.
    """
    known = list(addresses)
    for _ in range(SWAP_ATTEMPTS):
        until = asyncio.get_running_loop().time() + LEADER_SECONDS
        leader = await a_leader(transport, cluster, known, until)
        asked = SwapElection(to, check_only, tuple(without))
        reply = await ask_any(transport, cluster, [leader], asked, SWAP_SECONDS)
        if isinstance(reply, Swapped):
            return reply
    raise ClientError(f"the leader changed {SWAP_ATTEMPTS} times before the swap was done; it was not")


async def elections_in_use(transport: Transport, cluster: str, addresses: Iterable[str]) -> dict[str, ElectionIs]:
    """The election that each of these meta servers uses, by its address; those that do not answer are left out.

    Raises:
        Unreachable: none answered.
    """
    found: dict[str, ElectionIs] = {}
    failures = []
    for address in addresses:
        try:
            reply = await ask_any(transport, cluster, [address], GetElection())
        except SlotreeveError as error:
            failures.append(str(error))
            continue
        if not isinstance(reply, ElectionIs):
            raise ClientError(f"{address} answered GetElection with a {type(reply).__name__}")
        found[address] = reply
    if not found:
        raise Unreachable("; ".join(failures))
    return found


async def all_use(transport: Transport, cluster: str, addresses: Iterable[str], name: str) -> dict[str, ElectionIs]:
    """Wait until every one of these meta servers uses the election ``name`` and knows its leader.

    Raises:
        Unreachable: none answers.
        RequestTimeout: not within 15 s; the message says which servers use another one or do not answer.
    """
    known = list(addresses)
    for _ in range(round(AGREE_SECONDS / POLL_SECONDS)):
        found = await elections_in_use(transport, cluster, known)
        late = [
            address
            for address in known
            if address not in found or found[address].use != name or found[address].leader is None
        ]
        if not late:
            return found
        await asyncio.sleep(POLL_SECONDS)
    raise RequestTimeout(f"the election {name!r} is not in use yet at {', '.join(late)}")
