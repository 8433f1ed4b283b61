"""The acts that change the operator's standing orders."""

from __future__ import annotations

from msgspec.structs import replace
from slotreeve.errors import ModelError
from slotreeve_client.administration import change_orders
from slotreeve_client.draining import drainable
from slotreeve_protocol.orders import Orders

from slotreeve_gateway.acts.actor import Actor
from slotreeve_gateway.acts.kinds import (
    MOST_VALUE_BYTES,
    Ban,
    ClientOff,
    ClientOn,
    Drain,
    Freeze,
    Order,
    StartPush,
    StopPush,
    Thaw,
    Unban,
    deed_of,
)
from slotreeve_gateway.acts.order_effects import effects
from slotreeve_gateway.acts.outcome import ActOutcome

_NOTHING = "Nothing changes: the orders say so already."


async def order(actor: Actor, act: Order, is_dry: bool) -> ActOutcome:
    """See :func:`slotreeve_gateway.acts.carry_out`."""
    asked = actor.servers.asked
    drained = await drainable(*asked, act.server) if isinstance(act, Drain) else None

    def change(orders: Orders) -> Orders:
        return changed(orders if drained is None else drained.banned_in(orders), act)

    before, _ = await change_orders(*asked, lambda orders: orders)
    after = change(before)
    verb = "Draining" if isinstance(act, Drain) else "Banning"
    sentences = await effects(actor.servers, before, after, verb)
    if not is_dry:
        actor.begins(deed_of(act))
        before, after = await change_orders(*asked, change)
    return ActOutcome(sentences or [_NOTHING], undo_of(before, after), before != after)


def changed(orders: Orders, act: Order) -> Orders:
    """The orders after an act.

    Raises:
        ModelError: they would be too large.
    """
    match act:
        case Ban() | Drain():
            made = replace(orders, banned=orders.banned | {act.server})
        case Unban():
            made = replace(orders, banned=orders.banned - {act.server})
        case StopPush():
            made = replace(orders, push_stopped=True, push_to=frozenset(act.except_for))
        case StartPush():
            made = replace(orders, push_stopped=False, push_to=frozenset())
        case Freeze() | Thaw():
            made = replace(orders, ends_frozen=isinstance(act, Freeze))
        case ClientOff():
            made = replace(orders, clients_off=orders.clients_off | {act.client})
        case ClientOn():
            made = replace(orders, clients_off=orders.clients_off - {act.client})
    size = len(made.encode())
    if size > MOST_VALUE_BYTES:
        raise ModelError(f"the orders would take {size} bytes; {MOST_VALUE_BYTES} is the limit: take some back")
    return made


def undo_of(before: Orders, after: Orders) -> Order | None:
    """The act that makes the orders ``before`` of those ``after``, which differ by one act; None: they are the same."""
    for name in after.banned - before.banned:
        return Unban(name)
    for name in before.banned - after.banned:
        return Ban(name)
    for name in after.clients_off - before.clients_off:
        return ClientOn(name)
    for name in before.clients_off - after.clients_off:
        return ClientOff(name)
    if before.ends_frozen != after.ends_frozen:
        return Freeze() if before.ends_frozen else Thaw()
    if (before.push_stopped, before.push_to) == (after.push_stopped, after.push_to):
        return None
    return StopPush(tuple(sorted(before.push_to))) if before.push_stopped else StartPush()
