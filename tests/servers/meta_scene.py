"""The core of a meta server with members around it, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from slotreeve.model.nodes import Node, Role
from slotreeve.model.slots import SlotFacts
from slotreeve.ports import Leadership
from slotreeve_balancer.default_assigner import DefaultAssigner
from slotreeve_balancer.even_balancer import EvenBalancer
from slotreeve_balancer.options import DefaultAssignerOptions, EvenBalancerOptions
from slotreeve_protocol.meta_messages import (
    Heartbeat,
    LeaderIs,
    LeaseGranted,
    SlotCopies,
    Stopping,
    View,
)
from slotreeve_servers.meta.arranging.arranger import Arranger
from slotreeve_servers.meta.core import MetaCore
from slotreeve_servers.node.outbox import Peer
from slotreeve_servers.settings import Settings

from tests.servers.recording_outbox import RecordingOutbox, a_peer, deliver
from tests.servers.scripted_election import ScriptedElection

FACTS = SlotFacts(4, 2, "crc32c")
THIS = Node("meta-1", Role.META, "meta-1:1", "meta-1@1")
TOOL = a_peer("tool", Role.TOOL)


class Scene:
    """meta-1 with an election that the test sets; it leads in term 1 unless told otherwise."""

    def __init__(
        self, leads: bool = True, meta: Sequence[str] = ("meta-1", "meta-2"), replicas: int = 2, slots: int = 4
    ) -> None:
        self.outbox, self.election = RecordingOutbox(), ScriptedElection()
        settings = Settings.model_validate({"cluster": {"slots": slots, "meta": {name: f"{name}:1" for name in meta}}})
        arranger = Arranger(
            slots, replicas, DefaultAssigner(DefaultAssignerOptions()), EvenBalancer(EvenBalancerOptions()), 0
        )
        self.core = MetaCore(
            self.outbox, self.election, arranger, settings, THIS, msgspec.structs.replace(FACTS, slots=slots)
        )
        self.peers: dict[str, Peer] = {}
        self.core.start()
        if leads:
            self.lead(1)

    def lead(self, term: int, seconds: float = float("inf")) -> None:
        self.report(Leadership("meta-1", term, True, self.outbox.now() + seconds, "elected"))

    def report(self, leadership: Leadership) -> None:
        self.election.current = leadership
        self.core.leadership_changed(leadership)
        self.outbox.end_turn()

    def node(self, name: str, life: int = 1) -> Node:
        role = Role.DATA if name.startswith("data") else Role.SESSION
        return Node(name, role, f"{name}:1", f"{name}@{life}")

    def connect(self, name: str, life: int = 1) -> Peer:
        node = self.node(name, life)
        peer = self.peers[name] = Peer(name, node.role, node.process_id, f"{name}:9")
        self.core.opened(peer)
        self.outbox.end_turn()
        return peer

    def heartbeat(
        self,
        name: str,
        life: int = 1,
        stopping: Stopping = Stopping.NO,
        unsettled: tuple[int, ...] = (),
        has: tuple[int, int] | None = None,
        unready: tuple[str, ...] = (),
    ) -> LeaseGranted | LeaderIs:
        """``has``: revision and table epoch of the newest view that the server has. A leader calls its learners ready
        if they are not among the ``unready``."""
        table = self.core.view.read().table
        revision, epoch = has or (0, table.epoch)
        copies = [
            SlotCopies(slot.id, slot.leader_epoch, [each for each in slot.learners if each not in unready], [])
            for slot in table.slots
            if slot.leader == name and slot.learners
        ]
        message = Heartbeat(self.node(name, life), revision, epoch, list(unsettled), stopping, copies)
        reply = deliver(self.outbox, self.core.handlers, self.peers[name], message)
        assert isinstance(reply, LeaseGranted | LeaderIs)
        return reply

    def commit_all(self) -> list[View]:
        """Carry out every commit that the core begins; returns the views."""
        views: list[View] = []
        while commits := [effect.what for effect in self.outbox.effects if effect.kind == "commit"]:
            (view,) = commits
            assert isinstance(view, View)
            self.outbox.effects = [effect for effect in self.outbox.effects if effect.kind != "commit"]
            old = self.core.view.read()
            self.election.state.store("view", msgspec.msgpack.encode(view), view.term)
            self.core.committed(old, view)
            self.outbox.end_turn()
            views.append(view)
        return views

    def cluster(self, *names: str) -> View:
        """These servers join; returns the view when nothing is left to change."""
        for name in names:
            self.connect(name)
            self.heartbeat(name)
        self.settle(names)
        return self.core.view.read()

    def settle(self, names: tuple[str, ...], seconds: float = 2.0) -> None:
        """Every one of ``names`` reports again and again that it holds everything."""
        for _ in range(round(seconds / 0.25)):
            self.outbox.advance(0.25)
            self.commit_all()
            for name in names:
                self.heartbeat(name)
            self.commit_all()
