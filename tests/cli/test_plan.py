"""Dry runs: reading scenarios, playing them, and the commands ``plan`` and ``slot-of``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer
from slotreeve import Limits, Move, Plan, Server, Slot, SlotTable
from slotreeve.errors import ConfigError, InvalidTable, ModelError, PluginError
from slotreeve_cli import plan, scenarios, slot_of
from slotreeve_cli.scenarios import LONGEST_CONVERGENCE, PlanScenario, read_scenarios
from typer.testing import CliRunner, Result


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    plan.add_to(app)
    slot_of.add_to(app)
    return app


def run(app: typer.Typer, *arguments: str, given: object = None) -> Result:
    return CliRunner().invoke(app, arguments, input=None if given is None else json.dumps(given))


def scenario(line: object) -> PlanScenario:
    (only,) = read_scenarios("file", [json.dumps(line)])
    return only


LINE = {"slots": 2, "replicas": 2, "servers": ["a", {"name": "b", "zone": "east", "weight": 2}]}

# --- reading -------------------------------------------------------------------------------------------------------


def test_a_scenario_is_read_into_the_model() -> None:
    read = scenario(LINE | {"initial": [[1, "b", ["a"]]], "exact": True})
    assert read.table == SlotTable(0, (Slot(0, None, 0, ()), Slot(1, "b", 0, ("a",))))
    assert read.servers == (Server("a"), Server("b", "east", 2.0))
    assert read.limits == Limits(2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x.jsonl, line 2: not JSON"),
        ("[]", "line 2: Expected `object`, got `array`; a scenario is an object with slots"),
        ('{"slots": 2, "replicas": 2}', "line 2: Object missing required field `servers`"),
        ('{"slots": 0, "replicas": 2, "servers": ["a"]}', r"Expected `int` >= 1 - at `\$.slots`"),
        ('{"slots": 2, "replicas": 9, "servers": ["a"]}', r"Expected `int` <= 7 - at `\$.replicas`"),
        ('{"slots": 2, "replicas": 2, "servers": []}', "Expected `array` of length >= 1"),
        ('{"slots": 2, "replicas": 2, "servers": ["a", "a"]}', "server a stands twice among the servers"),
        ('{"slots": 2, "replicas": 2, "servers": [{"name": "a", "weight": 0}]}', "weight"),
        ('{"slots": 2, "replicas": 2, "servers": ["a"], "initial": [[2, "a", []]]}', "slot 2; there are 2, from 0 on"),
        ('{"slots": 2, "replicas": 2, "servers": ["a"], "initial": [[0, "a", []], [0, "a", []]]}', "slot 0 twice"),
        ('{"slots": 2, "replicas": 2, "servers": ["a"], "initial": [[0, "a", ["a"]]]}', "slot 0 names a server twice"),
        ('{"slots": 2, "replicas": 2, "servers": ["a"], "initial": [[0, "a", ["b", "c"]]]}', "it may have 1"),
        ('{"slots": 2, "replicas": 2, "servers": ["a"], "initial": [[0, 1, []]]}', r"at `\$.initial\[0\]\[1\]`"),
    ],
)
def test_a_wrong_line_is_refused_with_file_line_and_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        list(read_scenarios("x.jsonl", ["\n", text]))
    assert str(caught.value).startswith("x.jsonl, line 2: ")


LIVE = {
    "epoch": 7,
    "term": 2,
    "revision": 40,
    "slots": [
        {"slot": 0, "leader": "a", "leader_epoch": 3, "followers": ["b"]},
        {"slot": 1, "leader": "a", "leader_epoch": 7, "followers": ["c", "b"]},
        {"slot": 2, "leader": "a", "leader_epoch": 7, "followers": ["c"]},
    ],
}
"""As ``slotreeve slots -o json`` printed it before it named servers; slot 1 is about to move."""


@pytest.mark.parametrize("names_all", [False, True])
def test_the_saved_table_of_a_live_cluster_is_a_scenario(names_all: bool) -> None:
    servers = [{"name": name, "zone": "z", "weight": 1.0} for name in "abcd"]
    read = scenario(LIVE | ({"servers": servers, "replicas": 2} if names_all else {}))
    assert read.limits == Limits(2)
    assert [(slot.leader, slot.followers) for slot in read.table.slots] == [("a", ("b",)), ("a", ("c",)), ("a", ("c",))]
    assert read.servers == tuple(
        Server(name, "z", 1.0) if names_all else Server(name) for name in "abcd"[: 3 + names_all]
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"slots": [{"slot": 1, "leader": "a"}]}, "not all from 0 to 0"),
        ({"slots": [{"slot": 0, "leader": None, "followers": []}]}, "no server is in the table"),
        ({"slots": []}, "length >= 1"),
        ({"slots": [{"leader": "a"}]}, "field `slot`"),
    ],
)
def test_a_damaged_table_is_refused_with_what_would_be_right(table: object, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        scenario(table)


# --- playing ---------------------------------------------------------------------------------------------------------


class Restless:
    """A balancer that never ends."""

    def balance(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        slot = table.slots[0]
        return Plan(table, (Move(0, "leader", slot.leader, slot.leader, "no peace"),))


class Lazy:
    """An assigner that leaves everything as it is."""

    def assign(self, table: SlotTable, servers: Sequence[Server], limits: Limits) -> Plan | None:
        return Plan(table, (Move(0, "leader", None, "a", "pretended"),))


def test_a_balancer_that_never_ends_is_named_with_its_last_reason() -> None:
    complete = scenario(LINE | {"initial": [[0, "a", ["b"]], [1, "b", ["a"]]]})
    with pytest.raises(PluginError, match=r"file, line 1: the balancer does not end: after 5 steps .* 'no peace'"):
        scenarios.converge(complete, Lazy(), Restless(), longest=5)
    assert LONGEST_CONVERGENCE > 1_000


def test_an_assigner_whose_result_is_invalid_is_an_error() -> None:
    with pytest.raises(InvalidTable, match="slot 0 has no leader"):
        scenarios.assign(scenario(LINE), Lazy())


def test_balancing_what_is_not_assigned_is_an_error_that_names_the_remedy() -> None:
    with pytest.raises(ModelError, match="assign or converge complete them first"):
        scenarios.balance(scenario(LINE), Restless())
    gone = LINE | {"initial": [[0, "a", ["gone"]], [1, "b", ["a"]]]}
    with pytest.raises(ModelError, match=r"slot 0 .* not live"):
        scenarios.balance(scenario(gone), Restless())


# --- commands --------------------------------------------------------------------------------------------------------


def lines(result: Result) -> Iterator[dict[str, object]]:
    assert result.exit_code == 0, result.exception
    return (json.loads(line) for line in result.stdout.splitlines())


@pytest.mark.parametrize("command", ["assign", "balance", "converge"])
@pytest.mark.parametrize("plugin", ["default", "even"])
def test_every_command_takes_a_saved_table(app: typer.Typer, tmp_path: Path, command: str, plugin: str) -> None:
    file = tmp_path / "table.json"
    file.write_text(json.dumps(LIVE) + "\n")
    (printed,) = lines(run(app, "plan", command, "--plugin", plugin, str(file)))
    assert set(printed) == {"result", "moves", "steps", "spread"}


def test_assign_prints_result_moves_steps_and_spread(app: typer.Typer) -> None:
    line = {"slots": 2, "replicas": 2, "servers": ["b", "a"]}
    (printed,) = lines(run(app, "plan", "assign", "--plugin", "default", "-", given=line))
    assert printed["result"] == [[0, "a", ["b"]], [1, "b", ["a"]]]
    assert printed["steps"] == 1
    assert printed["spread"] == [1, 1, 1, 1]
    moves = printed["moves"]
    assert isinstance(moves, list)
    assert moves[0] == {
        "slot": 0,
        "kind": "leader",
        "source": None,
        "target": "a",
        "reason": "the slot had no leader; a led the fewest slots",
    }


@pytest.mark.parametrize("command", ["assign", "balance", "converge"])
@pytest.mark.parametrize("plugin", ["default", "even"])
def test_the_result_is_null_where_nothing_is_to_be_done(app: typer.Typer, command: str, plugin: str) -> None:
    line = LINE | {"servers": ["a", "b"], "initial": [[0, "a", ["b"]], [1, "b", ["a"]]]}
    (printed,) = lines(run(app, "plan", command, "--plugin", plugin, "-", given=line))
    assert printed == {"result": None, "moves": [], "steps": 0, "spread": [1, 1, 1, 1]}


@pytest.mark.parametrize("plugin", ["default", "even"])
def test_converge_assigns_first_and_balances_to_the_end(app: typer.Typer, tmp_path: Path, plugin: str) -> None:
    uneven = {"slots": 8, "replicas": 2, "servers": ["a", "b", "c", "d"]}
    uneven["initial"] = [[slot, "a", ["b"]] for slot in range(7)]
    file = tmp_path / "scenarios.jsonl"
    file.write_text(f"{json.dumps(uneven)}\n\n{json.dumps(LINE)}\n")
    first, second = lines(run(app, "plan", "converge", "--plugin", plugin, str(file)))
    assert isinstance(first["steps"], int)
    assert first["steps"] > 1
    assert second["steps"] == 1


def test_a_dry_run_of_default_is_the_originals_step_and_can_be_a_servers(app: typer.Typer) -> None:
    line = {"slots": 4, "replicas": 2, "servers": ["a", "b"], "initial": [[slot, "a", ["b"]] for slot in range(4)]}
    (dry,) = lines(run(app, "plan", "balance", "-", given=line))
    (real,) = lines(run(app, "plan", "balance", "--set", "demoted_leader=follows", "-", given=line))
    assert dry["result"] == [[0, "b", []], *([slot, "a", ["b"]] for slot in range(1, 4))]
    assert real["result"] == [[0, "b", ["a"]], *([slot, "a", ["b"]] for slot in range(1, 4))]


def test_an_unknown_plugin_or_setting_names_what_there_is(app: typer.Typer) -> None:
    unknown = run(app, "plan", "balance", "--plugin", "evn", "-", given=LINE).exception
    assert isinstance(unknown, PluginError)
    assert "did you mean 'even'" in str(unknown)
    setting = run(app, "plan", "assign", "--set", "threshold=1", "-", given=LINE).exception
    assert isinstance(setting, PluginError)
    assert "threshold_percent" in str(setting)


def test_a_file_that_cannot_be_read_is_named(app: typer.Typer, tmp_path: Path) -> None:
    missing = run(app, "plan", "assign", str(tmp_path / "missing.jsonl")).exception
    assert isinstance(missing, ConfigError)
    assert "missing.jsonl: cannot be read" in str(missing)


def test_slot_of_prints_the_slot(app: typer.Typer) -> None:
    asked = ("slot-of", "aaaaaaaaaa", "--slots", "256")
    (printed,) = lines(run(app, *asked, "--function", "crc32c", "-o", "json"))
    assert printed == {"slot": 208}
    assert run(app, *asked, "--function", "md5").stdout == "32\n"


def test_a_plan_is_shown_as_a_table_of_its_moves(app: typer.Typer) -> None:
    done = run(app, "plan", "assign", "-", "--plugin", "even", "-o", "table", given=LINE)
    assert done.exit_code == 0, done.output
    assert "2 moves in 1 steps" in done.output or "4 moves in 1 steps" in done.output
    assert "leads 1 to 1 slots and follows 1 to 1" in done.output


@pytest.mark.parametrize("arguments", [[], ["tables.jsonl", "--live"]])
def test_either_a_file_or_the_live_table_is_planned_with(app: typer.Typer, arguments: list[str]) -> None:
    done = run(app, "plan", "converge", *arguments)
    assert done.exit_code == 2
    assert "expected a FILE of scenarios" in done.output
