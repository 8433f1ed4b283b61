"""Bugs in what operators do, and in what must hold when data servers end together. See ``planted_bugs``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotreeve_client.configuration import ConfigWatches
from slotreeve_protocol.meta_messages import ConfigEntry, Heartbeat, LeaseGranted, View
from slotreeve_servers.data.endings.brake import Brake
from slotreeve_servers.data.replication.in_sync import _Copies
from slotreeve_servers.meta.members.heartbeats import LastHeartbeats
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.node.settings_in_force import SettingsInForce
from slotreeve_servers.session.clients.configuration import ConfigMirror
from slotreeve_servers.session.clients.orders import OrdersInForce
from slotreeve_servers.session.core import SessionCore

from tests.simulation.planting import Patch, bug, replaced, returning


@bug("a session server does not fetch the configuration that it has missed", "orders")
def _missed_configuration() -> Patch:
    def lease_granted(self: SessionCore, _leader: Peer, _granted: LeaseGranted) -> None:
        del self

    return replaced(SessionCore, "lease_granted", lease_granted)


@bug("a client does not say at its next session server which keys it watches", "orders")
def _watches_are_not_repeated() -> Patch:
    def versions_in_parts(self: ConfigWatches) -> Iterator[dict[str, int]]:
        del self
        return iter(())

    return replaced(ConfigWatches, "versions_in_parts", versions_in_parts)


@bug("a client that is switched on again need not send what it publishes", "orders")
def _switched_on_without_a_replay() -> Patch:
    def follow_orders(self: SessionCore, newer: Iterable[ConfigEntry]) -> None:
        for entry in newer:
            self._orders.take(entry)
        if self._is_closed:
            self._send_all_away()
        for client in list(self.clients.values()):
            is_off = self._orders.is_off(client.peer)
            if is_off and not client.is_off:
                self.registrations.said_goodbye(client)
            client.is_off = is_off
        self._due_pushes.orders_changed()

    return replaced(SessionCore, "_follow_orders", follow_orders)


@bug("a data server whose ends an order has frozen keeps them frozen", "orders")
def _frozen_for_good() -> Patch:
    def freeze(self: Brake, frozen: bool, now: float) -> None:
        self.is_frozen = self.is_frozen or frozen

    return replaced(Brake, "freeze", freeze)


@bug("no data server freezes the ends of registrations", "orders")
def _never_frozen() -> Patch:
    def freeze(self: Brake, _frozen: bool, now: float) -> None:
        self._thawed_at = now

    return replaced(Brake, "freeze", freeze)


@bug("a session server pushes although pushes are stopped", "orders")
def _pushes_go_on() -> Patch:
    def may_push(self: OrdersInForce, peer: Peer) -> bool:
        return bool(peer) or self.orders.push_stopped

    return replaced(OrdersInForce, "may_push", may_push)


@bug("servers do not take a live setting back when the operator's table is empty", "orders")
def _settings_stay() -> Patch:
    original = SettingsInForce.take

    def take(self: SettingsInForce, value: bytes | None, version: int) -> None:
        if value is not None and value != b"{}":
            original(self, value, version)

    return replaced(SettingsInForce, "take", take)


@bug("a data server that stops need not wait until its slots are handed over", "leases")
def _goes_at_once() -> Patch:
    def may_leave(
        self: LastHeartbeats, heartbeat: Heartbeat, view: View, banned: frozenset[str], is_protected: bool
    ) -> bool:
        return bool(heartbeat.stopping) and self is not None

    return replaced(LastHeartbeats, "may_leave", may_leave)


@bug("a client counts versions of configuration on after the cluster has lost its meta state", "late")
def _former_configuration_counts() -> Patch:
    return returning(ConfigWatches, "forget_versions")


@bug("a session server keeps the configuration of a former era", "late")
def _configuration_of_a_former_era() -> Patch:
    return returning(ConfigMirror, "begin_anew")


@bug("orders that only a former era had stay in force", "late")
def _orders_of_a_former_era() -> Patch:
    def load(self: ConfigMirror, entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
        self._is_loaded = True
        self._former.clear()
        return self.apply(entries)

    return replaced(ConfigMirror, "load", load)


@bug("a leader does not wait for a learner that it has reported as ready", "promotions")
def _ready_binds_nobody() -> Patch:
    def is_ready(self: _Copies, peer: Peer) -> None:
        self.forget(peer)
        self.ready.add(peer)
        self.lost.discard(peer.node)
        self.late.pop(peer.node, None)

    return replaced(_Copies, "is_ready", is_ready)
