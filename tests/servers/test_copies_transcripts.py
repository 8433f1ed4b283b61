"""The transcripts of copies: how the meta leader changes one row of the slot table, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from slotreeve.model.nodes import Server
from slotreeve.model.plan import Plan
from slotreeve.model.slots import Limits, Move, Slot, SlotTable
from slotreeve_servers.meta.arranging.arranger import Arranger, CopyReports, Leaving, PlannedTable
from slotreeve_servers.meta.arranging.copy_steps import CopyReport

from tests.transcripts import run_transcript

TRANSCRIPTS = sorted((Path(__file__).parent / "copies").glob("*.txt"))


class Scripted:
    """An assigner or balancer that plans what the transcript says, once."""

    def __init__(self) -> None:
        self.plan: Plan | None = None

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        plan, self.plan = self.plan, None
        return plan

    balance = assign


class MetaLeader:
    """One slot, the servers that live, and what they have reported under the present table."""

    def __init__(self) -> None:
        self._plugin = Scripted()
        self._replicas = 2
        self._live, self._leaving = set[str](), Leaving()
        self._elected()

    def _elected(self) -> None:
        self._arranger = Arranger(1, self._replicas, self._plugin, self._plugin)
        self._target: PlannedTable | None = None
        self._report = CopyReport()

    def play(self, text: str) -> str:
        """Carry out one command, and show the row."""
        verb, *words = text.split()
        names = frozenset(words)
        match verb:
            case "replicas":
                self._replicas = int(words[0])
                self._elected()
                return "nothing"
            case "row":
                self._table = SlotTable(1, (self._row(words, 1),))
                self._live = set(self._table.slots[0].holders)
                self._target = None
                return self._shown()
            case "live":
                self._live = set(names)
                self._leaving = replace(self._leaving, acting=self._leaving.acting & names)
            case "stops":
                self._leaving = Leaving(for_good=names)
            case "restarts":
                self._leaving = Leaving(for_a_restart=names)
            case "acts":
                self._leaving = Leaving(acting=names)
            case "elect":
                self._elected()
                return "nothing"
            case "plan":
                self._plan(words)
            case "ready":
                self._report = CopyReport(ready=names)
            case "lost":
                self._report = CopyReport(lost=names)
            case "look":
                pass
            case _:
                raise ValueError(f"there is no command {verb!r}")
        return self._look()

    def _row(self, words: list[str], epoch: int) -> Slot:
        plus = words.index("+") if "+" in words else len(words)
        return Slot(0, words[0], epoch, tuple(words[1:plus]), tuple(words[plus + 1 :]))

    def _plan(self, words: list[str]) -> None:
        """The plugin, when it is asked next, wants this leader and these followers."""
        before = self._target.table.slots[0] if self._target is not None else self._table.slots[0]
        after = self._row(words, before.leader_epoch)
        moves = [Move(0, "drop", name, None, "planned") for name in before.followers if name not in after.followers]
        if before.leader != after.leader:
            moves.append(Move(0, "leader", before.leader, after.leader, "planned"))
        kept = {*before.followers} - {after.leader}
        moves += [Move(0, "follower", None, name, "planned") for name in after.followers if name not in kept]
        self._plugin.plan = Plan(SlotTable(self._table.epoch, (after,)), tuple(moves))

    def _look(self) -> str:
        servers = [Server(name) for name in sorted(self._live - self._leaving.acting)]
        reports = CopyReports({0: self._report}, dict.fromkeys(self._live, frozenset[int]()))
        found = self._arranger.arrange(self._table, servers, reports, self._leaving, target=self._target)
        self._target = found.target
        if found.plan is None:
            return "no other table"
        old, (new,) = self._table.slots[0], found.plan.table.slots
        epoch = self._table.epoch + 1
        leader_epoch = epoch if new.leader != old.leader else old.leader_epoch
        self._table = SlotTable(epoch, (Slot(0, new.leader, leader_epoch, new.followers, new.learners),))
        self._report = CopyReport()
        moves = [
            f"{m.kind} {m.source or ''}{' -> ' if m.source and m.target else ''}{m.target or ''}: {m.reason}"
            for m in found.plan.moves
        ]
        return "\n".join([*moves, *(["ALARM: unclean"] if found.unclean else []), self._shown()])

    def _shown(self) -> str:
        row = self._table.slots[0]
        return (
            f"table {self._table.epoch}: {row.leader} leads under epoch {row.leader_epoch}; "
            f"followers {' '.join(row.followers) or 'none'}; learners {' '.join(row.learners) or 'none'}"
        )


def test_there_are_transcripts_of_copies() -> None:
    assert len(TRANSCRIPTS) >= 5


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_of_copies_holds(path: Path, rewrite_transcripts: bool) -> None:
    run_transcript(path, MetaLeader().play, rewrite_transcripts)
