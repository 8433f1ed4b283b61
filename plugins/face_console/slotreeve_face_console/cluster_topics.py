"""The pieces of the pages about the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slotreeve.errors import ModelError, SlotreeveError, Unreachable
from slotreeve.model.nodes import Role
from slotreeve_client.administration import ask_any, get_configs
from slotreeve_client.condition import RECENT_SECONDS, ClusterCondition
from slotreeve_gateway import Gateway
from slotreeve_protocol.live_settings import SETTINGS_KEY, LiveSettings
from slotreeve_protocol.meta_messages import ConfigEntry, GetHistory, History

from slotreeve_face_console.delay_topics import DelayTopics
from slotreeve_face_console.entries import entry_rows
from slotreeve_face_console.lag import LaggingClients
from slotreeve_face_console.losses import InstanceLoss, ServiceLosses
from slotreeve_face_console.notes import departures
from slotreeve_face_console.past_pieces import PastPieces
from slotreeve_face_console.readings import SharedReadings
from slotreeve_face_console.rendering import Rendering, counted, time_text
from slotreeve_face_console.server_rows import server_rows
from slotreeve_face_console.slot_past import SlotPast, slot_past
from slotreeve_face_console.slot_states import ServerNumbers, SlotStates, slot_states, slots_key, wanted_followers
from slotreeve_face_console.topics import Regions
from slotreeve_face_console.watch import ClusterLook, ConsoleWatch, Trouble

ANSWER_STEPS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Seconds that answers are said to come within: a page changes where a step is crossed only."""
MOST_CHANGES, LEADERSHIP_COLUMNS = 20, 5
MAP_MS = 3_600_000
"""The slot map can be set back by so long."""
KINDS = {
    "whole": "have a leader that serves and all followers",
    "copying": "have a follower that still copies",
    "thin": "lack a follower",
    "settling": "have a leader that does not serve yet",
    "lost": "have no leader, or one that is gone",
}
"""Kinds of slots with what is so with them, the best first."""


@dataclass(frozen=True)
class StatusBar:
    """What each page shows of the cluster. ``age_seconds``: of the state, where it is known to be old."""

    problems: int
    leader: str
    term: int | None
    at_ms: int
    trouble: Trouble | None
    age_seconds: float | None = None


class ClusterTopics:
    """Makes the pieces of each page from one shared reading of the cluster, and what the servers tell of the past.

    All methods raise Unreachable where no state of the cluster is known yet. ``seconds``: how often the names of the
    services are asked for; seldom where that takes long.

    Attributes:
        delays: the pieces about delays.
    """

    def __init__(
        self, gateway: Gateway, watch: ConsoleWatch, past: PastPieces, rendering: Rendering, seconds: float
    ) -> None:
        self._gateway, self._watch, self._past, self._rendering = gateway, watch, past, rendering
        self._losses, self._numbers = ServiceLosses(), ServerNumbers()
        self._lag = LaggingClients(gateway.servers, gateway.clock)
        self._counts: SharedReadings[Mapping[str, int]] = SharedReadings(gateway.clock)
        self._seconds = seconds
        self.delays = DelayTopics(gateway.servers, gateway.clock, rendering)
        self._slots: tuple[object, SlotStates] | None = None
        self._entries: Sequence[ConfigEntry] = ()
        self._changes: Mapping[str, str] = {}

    async def look(self) -> ClusterLook:
        """The newest state that is known."""
        await self._watch.read()
        if self._watch.look is None:
            why = self._watch.trouble.why if self._watch.trouble is not None else "they have not replied yet"
            raise Unreachable(f"the state of the cluster is not known: {why}")
        return self._watch.look

    async def services(self) -> Mapping[str, int]:
        """Number of instances by service. Raises Unreachable: the registry does not answer."""
        reading = await self._counts.read("all", self._gateway.registry.directory.services, self._seconds)
        if reading.value is None:
            raise Unreachable(f"the services are not known: {reading.trouble or 'the registry has not answered yet'}")
        return reading.value

    async def stop(self) -> None:
        """End the questions that are on their way."""
        for asking in (self._counts, self._lag, self.delays):
            await asking.stop()

    async def bar(self, age_seconds: float | None = None) -> Mapping[str, str]:
        """The region that each page has."""
        look, trouble = await self.look(), self._watch.trouble
        leader = look.condition.leader
        term = leader.known.term if leader is not None and leader.known is not None else None
        name = leader.name if leader is not None else ""
        bar = StatusBar(len(look.condition.problems()), name, term, look.at_ms, trouble, age_seconds)
        return {"bar": self._rendering.piece("bar", bar)}

    @property
    def age_seconds(self) -> float | None:
        """How old the state is, where the servers do not reply; else None."""
        if self._watch.look is None or self._watch.trouble is None:
            return None
        return (self._gateway.clock.wall_ms() - self._watch.look.at_ms) / 1000

    # --- the first page --------------------------------------------------------------------------------------------

    async def first(self) -> Regions:
        """What changed, who lags, health."""
        look, make = await self.look(), self._rendering
        condition = look.condition
        notes = [*departures(condition), *self._watch.recent_notes(RECENT_SECONDS)]
        (news, untold), losses, lag, delays = await asyncio.gather(
            self._past.news(notes),
            self._of_services(condition),
            self._lag.sentences(condition),
            self.delays.objective(condition),
        )
        return {
            "bar": await self.bar(),
            "news": news,
            "untold": untold,
            "losses": losses,
            "lag": make.sentences(lag, "No session server has a client that lags.", "soon"),
            **delays,
            "health": self._health(look),
            "problems": make.sentences(condition.problems(), "There are none.", "bad"),
            "orders": self._orders(condition),
        }

    async def _of_services(self, condition: ClusterCondition) -> Mapping[str, str]:
        """The services that lost instances, as the data servers tell, or as was seen here where none tells."""
        directory, make = self._gateway.registry.directory, self._rendering
        counts: Mapping[str, int] | None = None
        try:
            counts = await self.services()
            self._losses.note(directory.index, counts, self._gateway.clock.wall_ms())
        except SlotreeveError as error:
            why = error
        data = [node.name for node in condition.view.data] if condition.view is not None else []
        told = await self._past.losses(counts, data)
        if told is not None:
            return told
        if counts is None:
            return make.sentences([f"The services cannot be listed now: {why}."], "", "bad")
        losses = list(reversed(self._losses.found.values()))
        found = {
            loss.data_info_id: make.piece("loss", loss.data_info_id, "soon" if loss.now else "bad", _loss_text(loss))
            for loss in losses
        }
        return found or make.sentences([], "No service lost an instance while a console was open in the last hour.")

    def _orders(self, condition: ClusterCondition) -> Mapping[str, str]:
        """The standing orders, each with what takes it back."""
        make, orders = self._rendering, condition.orders
        if orders is None:
            return make.sentences(["No meta leader tells the orders now."], "", "bad")
        found = [(f"{name} is banned.", "unban", {"server": name}) for name in sorted(orders.banned)]
        if orders.push_stopped:
            but = f" but to {', '.join(sorted(orders.push_to))}" if orders.push_to else ""
            found.append((f"Nobody is pushed to{but}.", "start-push", {}))
        if orders.ends_frozen:
            found.append(("No registration ends unless its provider withdraws it.", "thaw", {}))
        off = sorted(orders.clients_off)
        found += [(f"What {name} publishes is hidden.", "client-on", {"client": name}) for name in off]
        return self._standing(found, "There are none.")

    def _standing(self, found: Iterable[tuple[str, str, Mapping[str, str]]], otherwise: str) -> Mapping[str, str]:
        """What stands until it is taken back: a sentence, and the act that takes it back with its fields."""
        make = self._rendering
        pieces = {text: make.piece("standing", text, text, act, fields) for text, act, fields in found}
        return pieces or make.sentences([], otherwise)

    @property
    def clients_off(self) -> frozenset[str]:
        """Ids and IP addresses of clients that an order hides, as far as it is known."""
        orders = self._watch.look.condition.orders if self._watch.look is not None else None
        return orders.clients_off if orders is not None else frozenset()

    def _health(self, look: ClusterLook) -> Mapping[str, str]:
        condition, states = look.condition, self._states(look)
        view, leader = condition.view, condition.leader
        known = leader.known if leader is not None else None
        facts: list[tuple[str, str, str, str]] = []
        if leader is None or known is None:
            facts.append(("Leader", "nobody leads", "", "bad"))
        else:
            facts.append(("Leader", leader.name, f"term {known.term}, election {known.use}", ""))
        if view is not None:
            bad = states.not_serving
            facts.append(("Slots not serving", f"{bad:,}", f"of {len(states.cells):,}", "bad" if bad else ""))
            thin, copies = states.without_all_copies, wanted_followers(condition) + 1
            wanted = f"{counted(copies, 'copy', 'copies')} wanted, {counted(len(view.data), 'data server')}"
            facts.append(("Slots without all copies", f"{thin:,}", wanted, "soon" if thin else ""))
            registrations = counted(self._held(condition, "registrations"), "registration")
            facts.append(("Data servers", str(len(view.data)), registrations, ""))
            clients = counted(self._held(condition, "clients"), "client")
            facts.append(("Session servers", str(len(view.sessions)), clients, ""))
        facts.append(("Servers reply", _within(look.took_seconds), "to the questions of this console", ""))
        return {name: self._rendering.piece("fact", name, value, note, tone) for name, value, note, tone in facts}

    @staticmethod
    def _held(condition: ClusterCondition, counter: str) -> int:
        return sum(held.get(counter, 0) for held in condition.held.values())

    # --- slots -----------------------------------------------------------------------------------------------------

    def _states(self, look: ClusterLook) -> SlotStates:
        """The slots; the same object where nothing changed, so that whoever compares sees it at once."""
        key = slots_key(look.condition)
        if self._slots is None or self._slots[0] != key:
            self._slots = key, slot_states(look.condition, self._numbers)
        return self._slots[1]

    async def slots(self) -> Regions:
        """The slot map: ``cells`` and ``names`` for the script that draws, the other regions for the page."""
        look, make = await self.look(), self._rendering
        states, view = self._states(look), look.condition.view
        zones = {node.name: node.zone for node in view.data} if view is not None else {}
        legend = {}
        for name, number in self._numbers.numbers.items():
            if name in zones or name in states.leads or name in states.follows:
                leads, follows = states.leads.get(name, 0), states.follows.get(name, 0)
                legend[name] = make.piece("legend", name, number, leads, follows, zones.get(name), name in zones)
        return {
            "bar": await self.bar(),
            "kinds": {kind: make.piece("kind", kind, states.kinds.get(kind, 0), text) for kind, text in KINDS.items()},
            "legend": legend,
            "names": {str(number): name for name, number in self._numbers.numbers.items()},
            "cells": states.cells,
        }

    async def slot_past(self) -> SlotPast:
        """The slot map of the last hour."""
        look, reading = await self.look(), await self._past.tables()
        until_ms = self._gateway.clock.wall_ms()
        events, notes = self._past.commits(reading)
        slots = look.condition.view.table.slots if look.condition.view is not None else ()
        return slot_past(events, slots, until_ms - MAP_MS, until_ms, self._numbers, notes)

    # --- servers, election, configuration --------------------------------------------------------------------------

    async def servers(self) -> Regions:
        """Every server."""
        look = await self.look()
        rows = server_rows(look.condition)
        of_role = {role: [row for row in rows if row.role == role] for role in (Role.META, Role.DATA, Role.SESSION)}
        regions = {
            str(role): {row.name: self._rendering.piece("server", row, look.since.get(row.name)) for row in found}
            for role, found in of_role.items()
        }
        return {"bar": await self.bar(), **regions}

    async def election(self) -> Regions:
        """The leader, and each meta server as it replies."""
        look, make = await self.look(), self._rendering
        leader = look.condition.leader
        replies = [meta.known for meta in look.condition.metas if meta.known is not None]
        known = max(replies, key=lambda reply: (reply.term, reply.leader is not None), default=None)
        facts = [("Leader", leader.name if leader else "nobody", "" if leader else "bad")]
        facts.append(("Term", str(known.term) if known else "not known", ""))
        facts.append(("Election", known.use if known else "not known", ""))
        if known is not None and known.generation:
            facts.append(("Changes of the election", str(known.generation), ""))
        return {
            "bar": await self.bar(),
            "facts": {name: make.piece("fact", name, value, "", tone) for name, value, tone in facts},
            "metas": {meta.name: make.piece("meta", meta, look.since.get(meta.name)) for meta in look.condition.metas},
            "problems": make.sentences(_of_election(look.condition), "Every meta server knows the same leader.", "bad"),
            "history": await self._history(look.condition),
            "resign": self._resignation(look.condition),
        }

    def _resignation(self, condition: ClusterCondition) -> Mapping[str, str]:
        """The form that lets the leader resign."""
        if condition.leader is None:
            return self._rendering.sentences([], "No meta server leads, so none can resign.")
        others = [meta.name for meta in condition.metas if meta.state == "follows"]
        return {"resign": self._rendering.piece("resign", condition.leader.name, others)}

    async def _history(self, condition: ClusterCondition) -> Mapping[str, str]:
        """The changes of leadership that one meta server has seen since its start: the leader, or one that answers.
        What was read last stays where none answers."""
        servers, make = self._gateway.servers, self._rendering
        answering = [meta for meta in condition.metas if meta.known is not None]
        seen_by = condition.leader or next(iter(answering), None)
        if seen_by is not None and self._watch.trouble is None:
            try:
                reply = await ask_any(servers.transport, servers.cluster, [seen_by.address], GetHistory())
            except SlotreeveError:
                reply = None
            if isinstance(reply, History):
                shown = list(reversed(reply.changes))[:MOST_CHANGES]
                rows = {f"{each.at_ms} {each.term} {each.leader}": each for each in shown}
                self._changes = {key: make.piece("leadership", key, each, seen_by.name) for key, each in rows.items()}
        return self._changes or make.rows_none("No change of leadership is known.", LEADERSHIP_COLUMNS)

    async def configuration(self) -> Regions:
        """The keys of the provided configuration."""
        bar, servers, make = await self.bar(), self._gateway.servers, self._rendering
        notice: dict[str, str] = {}
        try:
            self._entries = await get_configs(servers.transport, servers.cluster, servers.metas)
        except SlotreeveError as error:
            text = f"The configuration cannot be read now, so this is what was read last: {error}."
            notice = make.sentences([text], "", "bad")
        rows = {row.key: make.piece("entry", row) for row in entry_rows(self._entries)}
        nothing = make.rows_none("Nothing is provided.", 5 if make.acts else 4)
        return {"bar": bar, "notice": notice, "settings": self._settings(), "entries": rows or nothing}

    def _settings(self) -> Mapping[str, str]:
        """The settings that operators have changed, each with what takes that back."""
        table = next((entry.value for entry in self._entries if entry.key == SETTINGS_KEY), None)
        try:
            values = LiveSettings.decode(table).values
        except ModelError as error:
            return self._rendering.sentences([f"The settings of operators cannot be read: {error}."], "", "bad")
        found = [(f"{name} is {value}.", "unset", {"name": name}) for name, value in sorted(values.items())]
        return self._standing(found, "None: each is as the configuration of its server says.")


def _loss_text(loss: InstanceLoss) -> str:
    now = "no instance" if not loss.now else counted(loss.now, "instance")
    return (
        f"has {now} since {time_text(loss.at_ms)} at the latest; it had {loss.before:,} at {time_text(loss.before_ms)}."
    )


def _within(seconds: float) -> str:
    return next((f"within {step:g} s" for step in ANSWER_STEPS if seconds <= step), f"after {seconds:.0f} s")


def _of_election(condition: ClusterCondition) -> Sequence[str]:
    found = []
    if condition.leader is None:
        found.append("No meta server leads: slots, members and configuration stay as they are until one does.")
    leaders = {meta.known.leader for meta in condition.metas if meta.known is not None and meta.known.leader}
    if len(leaders) > 1:
        found.append(f"The meta servers name different leaders: {', '.join(sorted(leaders))}.")
    for meta in condition.metas:
        if meta.known is None:
            found.append(f"{meta.name} at {meta.address} does not answer: {meta.problem}.")
        elif meta.known.leader is None:
            found.append(f"{meta.name} knows no leader{': ' if meta.cause else ''}{meta.cause}.")
    return found
