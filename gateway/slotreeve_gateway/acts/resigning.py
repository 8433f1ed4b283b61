"""The act that lets the meta leader resign."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from slotreeve.errors import ClientError, RequestError, Unreachable
from slotreeve_client.condition import MetaSeen, meta_servers
from slotreeve_client.resignation import resign_leader

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.kinds import HandOver, deed_of
from slotreeve_gateway.acts.outcome import ActOutcome


async def hand_over(actor: Actor, act: HandOver, is_dry: bool) -> ActOutcome:
    """See :func:`slotreeve_gateway.acts.carry_out`. It finishes writes under way first."""
    transport, cluster, addresses = actor.servers.asked
    metas = await meta_servers(transport, cluster, list(addresses))
    leader = next((meta for meta in metas if meta.state == "leads"), None)
    if leader is None or leader.known is None:
        raise Unreachable("no meta server leads now, so none can resign")
    if act.to == leader.name:
        return ActOutcome([f"Nothing changes: {leader.name} leads already."], None, False)
    if act.leader not in ("", leader.name):
        sentence = f"Nothing changes: {leader.name} leads now, and {act.leader} was to resign."
        return ActOutcome([sentence], None, False)
    _check_next(metas, act.to)
    sentences = [f"{leader.name} gives up the lead of term {leader.known.term} once writes under way are done."]
    if act.to:
        sentences.append(f"{act.to} is to lead next, if the election {leader.known.use} lets a leader choose.")
        undo = HandOver(leader.name)
    else:
        sentences.append(f"The election {leader.known.use} chooses the next leader, so no act undoes this.")
        undo = None
    if not is_dry:
        actor.begins(deed_of(replace(act, leader=leader.name)))
        try:
            await resign_leader(transport, cluster, addresses, act.to)
        except ClientError as error:
            raise RequestError(f"{leader.name} did not resign: {error}") from None
    return ActOutcome(sentences, undo, True)


def _check_next(metas: Sequence[MetaSeen], name: str) -> None:
    """Raises RequestError: no meta server of this name answers."""
    if not name:
        return
    if all(meta.name != name for meta in metas):
        known = ", ".join(meta.name for meta in metas)
        raise RequestError(f"to is {name[:80]!r}, which is no meta server; they are {known}")
    if any(meta.name == name and meta.known is None for meta in metas):
        raise RequestError(f"to is {name!r}, which does not answer")
