"""The kinds of faults, and what each of them strikes."""

from __future__ import annotations

import random
from pathlib import Path

from slotreeve_chaos.faults import ChaosFaults
from slotreeve_chaos.history import HistoryRecorder, read
from slotreeve_chaos.network_faults import link_cuts
from slotreeve_chaos.proxy import ProxyCut
from slotreeve_chaos.targets import ROLES, ChaosTargets
from slotreeve_chaos.workload import ChaosLoad, ChaosWorkload
from slotreeve_client import ClientOptions
from slotreeve_harness.processes import LocalCluster

NO_LOAD = ChaosLoad(services=0, registrations=0, writers=0, subscribers=0, subscribed=0)


def test_a_link_that_is_cut_one_way_is_cut_in_the_connections_that_either_end_made() -> None:
    assert link_cuts("data-1", "meta-1", True, False) == [
        ("meta-1", ProxyCut("data-1", to_server=True, to_client=False)),
        ("data-1", ProxyCut("meta-1", to_server=False, to_client=True)),
    ]


def test_a_link_that_is_cut_both_ways_is_cut_so_for_both_ends() -> None:
    cuts = link_cuts("data-1", "meta-1", True, True)
    assert all(cut.to_server and cut.to_client and not cut.refuses for _, cut in cuts)


def test_a_fault_is_recorded_with_its_begin_and_end(tmp_path: Path) -> None:
    with HistoryRecorder(tmp_path / "history.jsonl") as recorder, recorder.fault("delay", "data-1"):
        recorder.append("seen")
    records = [(record["kind"], record.get("phase")) for record in read(tmp_path / "history.jsonl")]
    assert records == [("fault", "begin"), ("seen", None), ("fault", "end")]


def test_every_kind_of_fault_is_listed_in_its_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "chaos.md").read_text()
    rng = random.Random(1)
    with HistoryRecorder(tmp_path / "history.jsonl") as recorder:
        targets = ChaosTargets(LocalCluster(tmp_path), recorder, rng, 2.0)
        workload = ChaosWorkload(["127.0.0.1:1"], ClientOptions(), recorder, rng, NO_LOAD)
        kinds = ChaosFaults(targets, {}, workload).kinds
    assert [kind for kind in kinds if f"`{kind}`" not in page] == []
    assert {f"{what} {role}" for what in ("kill", "pause", "duty cycle") for role in ROLES} <= kinds.keys()
