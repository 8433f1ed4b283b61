"""The act that lets the meta leader resign."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from slotreeve.errors import ClientError, RequestError, Unreachable
from slotreeve_client.condition import MetaSeen, meta_servers
from slotreeve_client.resignation import resign_leader
from slotreeve_gateway import ClusterServers, Right
from slotreeve_gateway.rest import Handler, RestCall, RestOperation
from starlette.responses import Response

from slotreeve_face_admin.acts import (
    ACT_ANSWERS,
    LONGEST_NAME,
    PREFIX,
    Actor,
    ActQuery,
    Undo,
    act_answer,
    command_of,
    path_of,
)


class ResignBody(Struct, forbid_unknown_fields=True):
    """Who leads next."""

    to: Annotated[
        str, Meta(max_length=LONGEST_NAME, description="A meta server; empty: the election chooses the next leader.")
    ] = ""


class Resigning:
    """Asks the meta leader to resign. ``gateway`` is the name of this gateway, for logs."""

    def __init__(self, servers: ClusterServers, gateway: str) -> None:
        self._servers, self._gateway = servers, gateway

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may ask for."""
        return [
            RestOperation(
                "POST",
                f"{PREFIX}/election/resignation",
                "resign",
                "Ask the meta leader to resign; it finishes writes under way first.",
                self._resign,
                ACT_ANSWERS,
                Right.OPERATE,
                ActQuery,
                ResignBody,
                for_all=True,
            )
        ]

    async def _resign(self, call: RestCall) -> Response:
        query: ActQuery = call.query
        body: ResignBody = call.body
        actor = Actor(call, self._servers, self._gateway)
        transport, cluster, addresses = actor.servers.asked
        metas = await meta_servers(transport, cluster, list(addresses))
        leader = next((meta for meta in metas if meta.state == "leads"), None)
        if leader is None or leader.known is None:
            raise Unreachable("no meta server leads now, so none can resign")
        if body.to == leader.name:
            return act_answer(False, [f"Nothing changes: {leader.name} leads already."], None)
        _check_next(metas, body.to)
        sentences = [f"{leader.name} gives up the lead of term {leader.known.term} once writes under way are done."]
        if body.to:
            sentences.append(f"{body.to} is to lead next, if the election {leader.known.use} lets a leader choose.")
            words = ["slotreeve", "election", "resign", f"--to={leader.name}"]
            undo = Undo("POST", path_of("election", "resignation"), {"to": leader.name}, command_of(words, []))
        else:
            sentences.append(f"The election {leader.known.use} chooses the next leader, so no act undoes this.")
            undo = None
        if not query.dry_run:
            actor.begins(f"asks {leader.name} to resign{f' to {body.to}' if body.to else ''}")
            try:
                await resign_leader(transport, cluster, addresses, body.to)
            except ClientError as error:
                raise RequestError(f"{leader.name} did not resign: {error}") from None
        return act_answer(not query.dry_run, sentences, undo)


def _check_next(metas: list[MetaSeen], name: str) -> None:
    """Raises RequestError: no meta server of this name answers."""
    if not name:
        return
    if all(meta.name != name for meta in metas):
        known = ", ".join(meta.name for meta in metas)
        raise RequestError(f"body: to is {name[:80]!r}, which is no meta server; they are {known}")
    if any(meta.name == name and meta.known is None for meta in metas):
        raise RequestError(f"body: to is {name!r}, which does not answer")
