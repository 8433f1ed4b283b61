"""Commands that need no cluster, and the help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from slotreeve.errors import ConfigError, PluginError
from slotreeve_cli.main import COMMANDS, app, command_line
from slotreeve_cli.options import MetaOption, SessionOption
from slotreeve_cli.printing import print_json
from slotreeve_harness.figures import percentile
from typer.testing import CliRunner

runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(command_line(arguments[0] if arguments else ""), list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_figure_that_there_is_none_of_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"p50": percentile([], 0.5), "directory": Path("x"), "name": "\u00fc"})
    assert capsys.readouterr().out == '{"p50": null, "directory": "x", "name": "\u00fc"}\n'


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []

    def walk(command: object, path: tuple[str, ...]) -> None:
        below = getattr(command, "commands", None)
        if below:
            for name, child in below.items():
                walk(child, (*path, name))
        else:
            found.append(path)

    walk(typer.main.get_command(app), ())
    return found


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...]) -> None:
    # As a process does: with the commands of one module.
    result = runner.invoke(command_line(path[0]), [*path, "--help"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "Example" in text
    assert f"slotreeve {' '.join(path)}" in text.replace("│", "").replace("  ", " ")


def test_the_version_is_printed() -> None:
    assert run("--version").startswith("slotreeve 0.")


def test_the_help_groups_the_commands_and_says_a_sentence_of_each() -> None:
    text = run("--help")
    headings = [line.split("─ ")[1].split(" ─")[0] for line in text.splitlines() if line.startswith("╭─")]
    assert {*headings} == {"Options", *COMMANDS}
    shown = " ".join(text.replace("│", " ").split())
    assert "subscribe Print what is published for each SERVICE, now and at every change, until Ctrl-C." in shown
    assert "Start a cluster of processes and measure it: publish" in shown
    assert "Each gets a fresh cluster" not in shown


def test_the_command_line_imports_only_itself_until_a_command_runs() -> None:
    program = """
import sys, slotreeve_cli.main
slotreeve_cli.main.command_line()
ours = {name.partition(".")[0] for name in sys.modules if name.startswith("slotreeve")}
print(sorted(ours), "pydantic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "['slotreeve_cli', 'slotreeve_harness'] False\n"


def test_one_command_imports_its_own_module_only_and_the_version_none() -> None:
    program = """
import sys, slotreeve_cli.main
def ours():
    return sorted(name for name in sys.modules if name.startswith("slotreeve_cli."))
sys.argv = ["slotreeve", "--version"]
slotreeve_cli.main.main()
print(ours(), "typer" in sys.modules)
slotreeve_cli.main.command_line("members")
print(ours())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    version, first, second = done.stdout.splitlines()
    assert version.startswith("slotreeve 0.")
    assert first == "['slotreeve_cli.main'] False"
    assert second == "['slotreeve_cli.main', 'slotreeve_cli.options', 'slotreeve_cli.status']"


@pytest.mark.parametrize(
    ("module", "names"), [pair for below in COMMANDS.values() for pair in below.items()], ids=lambda text: text
)
def test_a_module_adds_the_commands_that_its_line_says(module: str, names: str) -> None:
    every = names.split()
    for name in every:
        made = command_line(name)
        added = [group.name for group in made.registered_groups] + [each.name for each in made.registered_commands]
        assert sorted(map(str, added)) == sorted(every), module


def test_what_is_no_command_is_looked_for_among_all() -> None:
    assert len(command_line("statsu").registered_commands) == len(app.registered_commands)


def test_config_show_tells_each_value_and_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[cluster]\nslots = 64\n[slot_function]\nuse = "md5"\n')
    rows = json.loads(run("config", "show", "-c", str(file), "--set", "meta.lease_seconds=9", "-o", "json"))
    by_key = {row["key"]: row for row in rows}
    assert by_key["cluster.slots"] == {"key": "cluster.slots", "value": 64, "from": str(file)}
    assert by_key["meta.lease_seconds"]["value"] == 9
    assert by_key["meta.lease_seconds"]["from"] == "flag for meta.lease_seconds"
    assert by_key["cluster.replicas"]["from"] == "default"
    assert by_key["slot_function.use"]["value"] == "md5"
    assert by_key["election.fle.ping_interval_ms"]["from"] == "default"


def test_config_check_names_the_chosen_plugins(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text('[balancer]\nuse = "even"\n')
    assert "balancer even" in run("config", "check", "--config", str(file))


def test_config_check_fails_on_a_plugins_own_option(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[election.fle]\nlease_msec = 3\n")
    with pytest.raises(PluginError, match="did you mean 'lease_ms'"):
        runner.invoke(command_line("config"), ["config", "check", "-c", str(file)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[election]\nuse = "postgres"\n', "dsn is missing; expected postgres://"),
        ('[election]\nuse = "mysql"\n', "dsn is missing; expected mysql://"),
        ("[election.fle]\nweights = {meta-9 = 2}\n", "meta-9"),
        ('[cluster.meta]\na = "127.0.0.1:1"\nb = "127.0.0.1:2"\n', "election.fle.data_dir: is not set"),
        ('[meta]\nshadow_election = "postgres"\n', "dsn is missing"),
        ('[node]\nbind = "0.0.0.0:7720"\n', "node.bind.*can be reached from other machines"),
        ('[node]\nbind = "here"\n', "node.bind.*is not host:port"),
        ('[cluster.meta]\nmeta-1 = "10.0.0.1:7710"\n', "10.0.0.1:7710 can be reached from other machines"),
        ('[gateway]\nlisten = "0.0.0.0:7740"\n', "gateway.listen.*there is no tokens"),
        ('[http]\nenabled = true\nlisten = "0.0.0.0:80"\n', "http.listen.*can be reached from other machines"),
    ],
)
def test_config_check_fails_on_what_a_server_would_not_start_with(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        runner.invoke(command_line("config"), ["config", "check", "-c", str(file)], catch_exceptions=False)


def test_config_check_opens_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(f'[election.fle]\ndata_dir = "{tmp_path}/state"\n')
    run("config", "check", "-c", str(file))
    assert list(tmp_path.iterdir()) == [file]


def test_a_setting_without_a_value_is_wrong_usage() -> None:
    result = runner.invoke(command_line("config"), ["config", "check", "--set", "meta.lease_seconds"])
    assert result.exit_code == 2


def test_a_missing_configuration_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        runner.invoke(
            command_line("config"), ["config", "check", "-c", str(tmp_path / "none.toml")], catch_exceptions=False
        )


def test_plugins_list_names_every_offer_of_every_port() -> None:
    listed = json.loads(run("plugins", "list", "-o", "json"))
    assert {("election", "fle"), ("balancer", "even"), ("transport", "zmq"), ("slot_function", "crc32c")} <= {
        (row["port"], row["name"]) for row in listed["offers"]
    }
    assert listed["broken"] == []


def test_plugins_check_is_content_with_the_built_ins() -> None:
    assert "good" in run("plugins", "check")


def test_plugins_check_names_a_plugin_that_is_not_offered() -> None:
    with pytest.raises(PluginError, match="no plugin offers evven"):
        runner.invoke(command_line("plugins"), ["plugins", "check", "evven"], catch_exceptions=False)


def test_slot_of_prints_the_slot_of_a_key() -> None:
    assert json.loads(
        run("slot-of", "com.alipay.test.Service", "--function", "crc32c", "--slots", "256", "-o", "json")
    ).keys() == {"slot"}


def test_the_default_configuration_keeps_the_published_bounds_of_staleness() -> None:
    rows = json.loads(run("explain", "staleness", "-o", "json"))
    seconds = {row["what"]: row["at most, s"] for row in rows}
    assert seconds["client closed"] <= 0.5
    assert seconds["client killed"] <= 0.5
    assert seconds["client frozen"] <= 10 + 0.5
    assert seconds["client frozen, where a session server has very many, who ping less often"] <= 14
    assert seconds["client frozen while a herd comes or goes (500 clients or more)"] <= 41
    assert seconds["session server killed, with its clients"] <= 5
    assert seconds["data server killed, until readable"] <= 2
    assert seconds["meta leader killed or frozen, until another leads"] <= 1
    assert seconds["lease not renewed, after its time to live and 2 % of it"] <= 2
    shorter = json.loads(run("explain", "staleness", "--set", "session.client_lease_seconds=4", "-o", "json"))
    assert {row["what"]: row["at most, s"] for row in shorter}["client frozen"] == pytest.approx(4.45)


@pytest.mark.parametrize("separator", [",", " ", ", "])
def test_addresses_of_several_servers_may_stand_in_one_variable(
    separator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer()

    @app.command()
    def show(meta: MetaOption = ["default:1"], session: SessionOption = ["default:2"]) -> None:  # noqa: B006
        typer.echo(f"{meta} {session}")

    monkeypatch.setenv("SLOTREEVE_META", separator.join(["a:1", "[::1]:2"]))
    shown = runner.invoke(app, ["-s", "b:1", "-s", f"c:2{separator}d:3"], catch_exceptions=False).stdout
    assert shown == "['a:1', '[::1]:2'] ['b:1', 'c:2', 'd:3']\n"


@pytest.mark.parametrize(
    "url", ["http://a\x01b:80", "http://xn--a-.com", "http://[::1", "http://h:99999", "http://h:0", "ftp://h", "h"]
)
def test_another_registry_at_an_address_that_none_can_have_is_refused_in_words(url: str) -> None:
    result = runner.invoke(command_line("compare"), ["compare", "--from", "consul", url])
    assert isinstance(result.exception, ConfigError)
    assert "is no address of a registry" in str(result.exception)
