"""Every server with its state and its load, for the page of servers. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slotreeve.model.nodes import Node, Role
from slotreeve_client.condition import ClusterCondition

LOADS = {
    Role.DATA: {"registrations": ("registration", "registrations"), "leases": ("lease", "leases")},
    Role.SESSION: {
        "clients": ("client", "clients"),
        "services_watched": ("service watched", "services watched"),
        "clients_behind": ("client behind", "clients behind"),
        "writes_waiting": ("write waiting", "writes waiting"),
    },
}
"""Counters that say what a server has to do now, with their names for people: of one, and of several."""
SLOTS_LED, SLOTS_FOLLOWED = ("slot led", "slots led"), ("slot followed", "slots followed")
GOOD, SOON, BAD = "good", "soon", "bad"
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class ServerRow:
    """One server. ``loads``: what it has to do, each a number and its name. ``is_banned``: by an order in force."""

    name: str
    role: str
    state: str
    address: str
    zone: str = ""
    weight: float | None = None
    loads: Sequence[tuple[int, str]] = ()
    is_banned: bool = False

    @property
    def tone(self) -> str:
        """``good``, ``soon`` (it will be good by itself) or ``bad``."""
        if self.state in ("well", "leads", "follows"):
            return GOOD
        words = self.state.split(", ")
        return SOON if all(word.startswith(("copying", "draining", "restarting", "joins")) for word in words) else BAD


def states_of(condition: ClusterCondition) -> dict[str, str]:
    """The state of each server of any role, by name, without what changes from one second to the next."""
    return {row.name: _steady(row.state) for row in server_rows(condition)}


def _steady(state: str) -> str:
    """The state without its numbers: a server stays silent, however long it is."""
    return _NUMBER.sub("", state)


def server_rows(condition: ClusterCondition) -> list[ServerRow]:
    """Meta servers, then data and session servers."""
    rows = [ServerRow(meta.name, str(Role.META), meta.state, meta.address) for meta in condition.metas]
    if condition.view is None:
        return rows
    slots, states = condition.view.table.slots, condition.states()
    leads = Counter(slot.leader for slot in slots)
    follows = Counter(name for slot in slots for name in slot.holders[1:])
    banned = condition.orders.banned if condition.orders is not None else ()
    for node in [*condition.view.data, *condition.view.sessions]:
        loads = _held(node, condition.held.get(node.name, {}))
        if node.role is Role.DATA:
            loads = [_load(leads[node.name], SLOTS_LED), _load(follows[node.name], SLOTS_FOLLOWED), *loads]
        state = states.get(node.name, "joins")
        rows.append(
            ServerRow(
                node.name, str(node.role), state, node.address, node.zone, node.weight, loads, node.name in banned
            )
        )
    return rows


def _held(node: Node, held: Mapping[str, int]) -> list[tuple[int, str]]:
    return [_load(held[name], words) for name, words in LOADS.get(node.role, {}).items() if name in held]


def _load(number: int, words: tuple[str, str]) -> tuple[int, str]:
    return number, words[number != 1]
