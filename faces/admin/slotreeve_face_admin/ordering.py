"""The acts that change the operator's standing orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace
from slotreeve.errors import ModelError
from slotreeve_client.administration import change_orders
from slotreeve_client.draining import drainable
from slotreeve_gateway import ClusterServers, Right
from slotreeve_gateway.rest import Answer, Handler, RestCall, RestOperation
from slotreeve_protocol.orders import Orders
from starlette.responses import Response

from slotreeve_face_admin.acts import (
    ACT_ANSWERS,
    LONGEST_NAME,
    MOST_VALUE_BYTES,
    PREFIX,
    Actor,
    ActQuery,
    Undo,
    act_answer,
    check_name,
    command_of,
    path_of,
)
from slotreeve_face_admin.order_effects import effects

MOST_NAMES = 1_000
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Change = Callable[[Orders], Orders]


class PushStopBody(Struct, forbid_unknown_fields=True):
    """Who is pushed to although pushing is stopped."""

    except_for: Annotated[tuple[Name, ...], Meta(max_length=MOST_NAMES, description="Client ids or IP addresses.")] = (
        field(default=(), name="except")
    )


class Ordering:
    """Changes the orders through the meta leader. ``gateway`` is the name of this gateway, for logs."""

    def __init__(self, servers: ClusterServers, gateway: str) -> None:
        self._servers, self._gateway = servers, gateway

    def operations(self) -> list[RestOperation[Handler]]:
        """What operators may order."""
        server, client = "orders/banned/{node}", "orders/clients-off/{client}"
        gone = {404: Answer("There is no such server.")}
        return [
            _order("PUT", server, "ban", "Ban a server: it must hold no slots and no clients.", self._ban),
            _order("DELETE", server, "unban", "Take a ban back, or a drain.", self._unban),
            RestOperation(
                "PUT",
                f"{PREFIX}/drains/{{node}}",
                "drain",
                "Let a server hand over what it holds. As a ban, for a member that others can stand in for only.",
                self._drain,
                {**ACT_ANSWERS, **gone},
                Right.OPERATE,
                ActQuery,
                for_all=True,
            ),
            RestOperation(
                "PUT",
                f"{PREFIX}/orders/push-stop",
                "stopPush",
                "Stop pushing to all clients except the named ones; publishing and lookups go on.",
                self._stop_push,
                ACT_ANSWERS,
                Right.OPERATE,
                ActQuery,
                PushStopBody,
                for_all=True,
            ),
            _order("DELETE", "orders/push-stop", "startPush", "Push to all clients again.", self._start_push),
            _order("PUT", client, "clientOff", "Hide what a client publishes from every subscriber.", self._hide),
            _order("DELETE", client, "clientOn", "Show what a client publishes again.", self._show),
        ]

    async def _ban(self, call: RestCall) -> Response:
        name = _named(call, "node")
        return await self._change(call, f"bans {name}", lambda orders: _with(orders, banned=orders.banned | {name}))

    async def _unban(self, call: RestCall) -> Response:
        name = _named(call, "node")
        deed = f"takes back the ban of {name}"
        return await self._change(call, deed, lambda orders: _with(orders, banned=orders.banned - {name}))

    async def _drain(self, call: RestCall) -> Response:
        name = _named(call, "node")
        await drainable(*self._servers.asked, name)
        return await self._change(call, f"drains {name}", lambda orders: _with(orders, banned=orders.banned | {name}))

    async def _stop_push(self, call: RestCall) -> Response:
        body: PushStopBody = call.body
        names = frozenset(body.except_for)
        deed = "stops pushing" + (f" except to {', '.join(sorted(names))}" if names else "")
        return await self._change(call, deed, lambda orders: _with(orders, push_stopped=True, push_to=names))

    async def _start_push(self, call: RestCall) -> Response:
        return await self._change(
            call, "starts pushing", lambda orders: _with(orders, push_stopped=False, push_to=frozenset())
        )

    async def _hide(self, call: RestCall) -> Response:
        name = _named(call, "client")
        deed = f"hides what {name} publishes"
        return await self._change(call, deed, lambda orders: _with(orders, clients_off=orders.clients_off | {name}))

    async def _show(self, call: RestCall) -> Response:
        name = _named(call, "client")
        deed = f"shows what {name} publishes"
        return await self._change(call, deed, lambda orders: _with(orders, clients_off=orders.clients_off - {name}))

    async def _change(self, call: RestCall, deed: str, change: Change) -> Response:
        query: ActQuery = call.query
        actor = Actor(call, self._servers, self._gateway)
        before, _ = await change_orders(*actor.servers.asked, lambda orders: orders)
        sentences = await effects(self._servers, before, change(before))
        if query.dry_run:
            return act_answer(False, sentences or [_NOTHING], undo_of(before, change(before)))
        actor.begins(deed)
        before, after = await change_orders(*actor.servers.asked, change)
        return act_answer(before != after, sentences or [_NOTHING], undo_of(before, after))


_NOTHING = "Nothing changes: the orders say so already."


def _order(method: str, path: str, name: str, summary: str, handler: Handler) -> RestOperation[Handler]:
    place = f"{PREFIX}/{path}"
    return RestOperation(method, place, name, summary, handler, ACT_ANSWERS, Right.OPERATE, ActQuery, for_all=True)


def _named(call: RestCall, place: str) -> str:
    name = call.names[place]
    check_name(f"the name of the {'client' if place == 'client' else 'server'}", name)
    return name


def _with(orders: Orders, **changes: object) -> Orders:
    changed = replace(orders, **changes)
    size = len(changed.encode())
    if size > MOST_VALUE_BYTES:
        raise ModelError(f"the orders would take {size} bytes; {MOST_VALUE_BYTES} is the limit: take some back")
    return changed


def undo_of(before: Orders, after: Orders) -> Undo | None:
    """The act that makes the orders ``before`` of those ``after``, which differ by one act; None: they are the same."""
    for name in after.banned - before.banned:
        return Undo("DELETE", path_of("orders", "banned", name), None, _command("unban", name))
    for name in before.banned - after.banned:
        return Undo("PUT", path_of("orders", "banned", name), None, _command("ban", name))
    for name in after.clients_off - before.clients_off:
        return Undo("DELETE", path_of("orders", "clients-off", name), None, _command("client-on", name))
    for name in before.clients_off - after.clients_off:
        return Undo("PUT", path_of("orders", "clients-off", name), None, _command("client-off", name))
    if (before.push_stopped, before.push_to) == (after.push_stopped, after.push_to):
        return None
    path = path_of("orders", "push-stop")
    if not before.push_stopped:
        return Undo("DELETE", path, None, _command("start-push"))
    names = sorted(before.push_to)
    options = [f"--except={name}" for name in names]
    return Undo("PUT", path, {"except": names}, command_of(["slotreeve", "admin", "stop-push", *options], []))


def _command(order: str, *names: str) -> str:
    return command_of(["slotreeve", "admin", order], list(names))
