"""Plugins that are bad in each way that we know: none is ranked, each is named with its reason, the job goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.conftest import QUICK, wheel

pytestmark = pytest.mark.spark

STRANGE_PLUGINS = """
from slotreeve import Draft, Offer, Plan, SlotTable, hookimpl


class Raises:
    def balance(self, table, servers, limits):
        raise ValueError("made up")


class Hangs:
    def balance(self, table, servers, limits):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass


class LosesASlot:
    def balance(self, table, servers, limits):
        return Plan(SlotTable(table.epoch, table.slots[:-1]), ())


class Circles:
    def balance(self, table, servers, limits):
        draft = Draft(table, servers)
        draft.lead(0, draft.followers(0)[0], "it was a follower")
        return draft.plan()


class Lies:
    def balance(self, table, servers, limits):
        draft = Draft(table, servers)
        poorest, richest = next(draft.least_leaders()), next(draft.most_leaders())
        if draft.leads(richest) - draft.leads(poorest) < 2:
            return None
        slot = min(draft.led_by(richest))
        if poorest not in draft.followers(slot):
            draft.follow(slot, poorest, "to lead it", instead_of=draft.followers(slot)[0])
        draft.lead(slot, poorest, "it leads the fewest")
        return Plan(draft.table(), draft.moves[:1])


class Allocates:
    def __init__(self):
        self.kept = []

    def balance(self, table, servers, limits):
        while True:
            self.kept.append(bytearray(1_000_000))


class ByLength:
    def slot_of(self, key):
        return len(key) % self.slots


class Constant:
    def slot_of(self, key):
        return 0


class OutOfRange:
    def slot_of(self, key):
        return self.slots


class RaisesToo:
    def slot_of(self, key):
        raise ValueError("made up")


def made(cls, slots):
    built = cls()
    built.slots = slots
    return built


def offer(name, cls):
    return Offer(name, lambda options, context: made(cls, context.slots), "bad")


@hookimpl
def slotreeve_balancers():
    return [
        offer("raises", Raises),
        offer("hangs", Hangs),
        offer("loses_a_slot", LosesASlot),
        offer("circles", Circles),
        offer("lies", Lies),
        offer("allocates", Allocates),
    ]


@hookimpl
def slotreeve_slot_functions():
    return [
        offer("by_length", ByLength),
        offer("constant", Constant),
        offer("out_of_range", OutOfRange),
        offer("raises_too", RaisesToo),
    ]
"""
BALANCERS = {
    "raises + default": "balancer: raised ValueError: made up",
    "hangs + default": "ran out of time: not done after 3 s",
    "loses_a_slot + default": "balancer: number of slots changed: it has 31 slots, not 32",
    "circles + default": "balancer: moves in circles: after 3 rounds the table is one that it was before",
    "lies + default": "balancer: moves do not lead to the table: ",
    "allocates + default": "it took more than 256 MB of memory",
}
FUNCTIONS = {
    "by_length": "less even than chance by chi-square (p < 1e-06): varies by 232% beyond it",
    "constant": "less even than chance by chi-square (p < 1e-06): varies by 387% beyond it",
    "out_of_range": "PluginError: it answers slot 16; there are 16, from 0 on",
    "raises_too": "ValueError: made up",
}


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it, with the wheel beside it."""
    strange = wheel(tmp_path, "strange_plugins", {"__init__.py": STRANGE_PLUGINS})
    options = [part for setting in QUICK.items() for part in ("--conf", "=".join(setting))]
    command = [sys.executable, "-m", "slotreeve_cli", "spark", *arguments, "--plugin-wheel", str(strange), *options]
    return subprocess.run(
        [*command, "--master", "local[2]", "--out", str(tmp_path / "out")],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.fixture(scope="module")
def compared(java: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The results and what was printed, in 80 columns, when the built-in balancers met the bad ones."""
    directory = tmp_path_factory.mktemp("balancers")
    names = ",".join(["default", "even", *(name.partition(" ")[0] for name in BALANCERS)])
    done = run(
        directory,
        *("compare", "balancers", "--balancers", names, "--traces", "scale out by one; scale in by one"),
        *("--slots", "32", "--servers", "4", "--seeds", "1", "--timeout", "3", "--memory", "256"),
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return directory / "out", done.stdout.splitlines()


def stored(compared: tuple[Path, list[str]], table: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(compared[0] / table).to_pylist()
    return rows


def test_no_bad_balancer_is_ranked_and_each_is_named_with_its_reason(compared: tuple[Path, list[str]]) -> None:
    disqualified = {str(row["competitor"]): row for row in stored(compared, "disqualified")}
    assert disqualified.keys() == BALANCERS.keys()
    for name, reason in BALANCERS.items():
        assert str(disqualified[name]["reason"]).startswith(reason), disqualified[name]
        assert disqualified[name]["example"] == "scale in by one, seed 0, 32 slots, 4 servers"
        assert disqualified[name]["cells"] == "2/2"
    for table in ("summary", "trade_off"):
        assert {row["competitor"] for row in stored(compared, table)} == {"default", "even"}


def test_the_disqualified_come_first_in_tables_of_80_columns(compared: tuple[Path, list[str]]) -> None:
    lines = compared[1]
    assert lines[0] == "disqualified: not ranked"
    assert lines[-1].endswith("; 6 disqualified)")
    assert [line for line in lines[:-1] if len(line) > 80] == []
    words = {word for line in lines for word in line.split()}
    assert {"uneven", "loses_a_slot", "criterion", "default", "competitor", "recommended:"} <= words


def test_no_bad_slot_function_is_ranked_and_each_is_named_with_its_reason(java: None, tmp_path: Path) -> None:
    names = ",".join(["crc32c", "md5", *FUNCTIONS])
    keys = ("--keys", "generated:20000", "--slots", "16,32", "--timeout", "3")
    done = run(tmp_path, "compare", "slot-functions", "--functions", names, *keys, "-o", "json")
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout)
    assert {row["competitor"]: row["reason"] for row in found["disqualified"]} == FUNCTIONS
    examples = {row["competitor"]: row["example"] for row in found["disqualified"]}
    assert examples["by_length"] == "16 slots, 20,000 keys"
    assert {row["function"] for row in found["tables"]["moves"]} == {"crc32c", "md5"}
    fast = {row["function"] for row in found["tables"]["spread"] if row["nanoseconds_per_key"] is not None}
    assert fast == {"crc32c", "md5"}
    assert not any(name in line for line in found["verdicts"] for name in FUNCTIONS)
