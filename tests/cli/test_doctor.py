"""``slotreeve doctor``: what is made of what is seen, and the command on a machine without servers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.clock import MachineClock
from slotreeve.key_files import issue
from slotreeve.model.nodes import Role
from slotreeve.offers import Port
from slotreeve_cli import doctor_findings as findings
from slotreeve_cli.doctor import Examination, checks, examine, patient_of
from slotreeve_cli.doctor_findings import Diagnosis, Verdict
from slotreeve_cli.doctor_network import addresses_of
from slotreeve_cli.doctor_patient import Patient, in_thread
from slotreeve_cli.doctor_ports import holder_of, in_short, sockets_at
from slotreeve_cli.doctor_probes import look_at_configurations
from slotreeve_cli.main import command_line
from slotreeve_client.tools import new_key_pair
from slotreeve_harness.free_ports import free_address
from slotreeve_servers.launch import Launcher
from slotreeve_servers.settings import load_settings
from typer.testing import CliRunner

runner = CliRunner()


def verdicts(found: list[Diagnosis]) -> list[str]:
    """The verdicts; and each that is not ok says what to do, in a sentence."""
    for each in found:
        assert bool(each.cure) is (each.verdict is not Verdict.OK), each
        assert not each.cure or each.cure[0].isupper(), each
        assert each.found, each
    return [str(each.verdict) for each in found]


# --- pure ------------------------------------------------------------------------------------------------------------


def test_a_configuration_is_good_or_its_error_is_shown() -> None:
    seen = [findings.ConfigurationSeen("a", chosen="election fle"), findings.ConfigurationSeen("b", "SR100: wrong")]
    found = findings.of_configurations(seen)
    assert verdicts(found) == ["ok", "fail"]
    assert found[1].found == "SR100: wrong"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (findings.PluginsSeen(3), ["ok"]),
        (findings.PluginsSeen(3, {"x of y 1": "does not import", "z of y 1": "unknown hook"}), ["warn", "warn"]),
        (findings.PluginsSeen(0, problem="SR110: two plugins offer"), ["fail"]),
    ],
)
def test_broken_plugins_are_a_warning_and_two_of_one_name_fail(seen: findings.PluginsSeen, expected: list[str]) -> None:
    assert verdicts(findings.of_plugins(seen)) == expected


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (findings.PortSeen("the data server", "h:1"), "ok", "free, for the data server"),
        (findings.PortSeen("the data server", "h:1", "no such address", is_elsewhere=True), "ok", "another machine"),
        (
            findings.PortSeen("the data server", "h:1", "in use", holder="process 7 (x)", is_ours=True),
            "ok",
            "process 7",
        ),
        (findings.PortSeen("the data server", "h:1", "in use", holder="process 7 (x)"), "fail", "process 7 (x) does"),
        (findings.PortSeen("the data server", "h:1", "Address already in use"), "fail", "cannot see"),
        (findings.PortSeen("the data server", "h:1", "Permission denied"), "fail", "Permission denied"),
    ],
)
def test_a_port_is_free_or_of_a_server_of_ours_or_it_fails_with_who_listens(
    seen: findings.PortSeen, verdict: str, words: str
) -> None:
    found = findings.of_ports([seen])
    assert verdicts(found) == [verdict]
    assert words in found[0].found


@pytest.mark.parametrize(
    ("seconds", "uncertain", "verdict"), [(0.2, 0.0, "ok"), (1.5, 0.0, "warn"), (-1.5, 0.0, "warn"), (2.5, 2.0, "ok")]
)
def test_a_clock_that_is_wrong_by_more_than_can_be_measurement_is_a_warning(
    seconds: float, uncertain: float, verdict: str
) -> None:
    seen = findings.ClockSeen(True, [findings.SkewSeen("meta-1", seconds, uncertain)])
    assert verdicts(findings.of_clock(seen)) == ["ok", verdict]


def test_a_clock_that_stands_still_in_suspend_is_a_warning() -> None:
    assert verdicts(findings.of_clock(findings.ClockSeen(False))) == ["warn"]


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (findings.DirectorySeen("d", "x", owner="a", account="a", sync_ms=0.5), "ok", "writable"),
        (findings.DirectorySeen("d", "x", exists=False, owner="a", account="a"), "ok", "first start makes it"),
        (findings.DirectorySeen("d", "x", exists=False, parent_exists=False), "fail", "parent does not exist"),
        (findings.DirectorySeen("d", "x", is_directory=False), "fail", "no directory"),
        (findings.DirectorySeen("d", "x", is_writable=False, owner="a", account="b"), "fail", "b cannot write"),
        (findings.DirectorySeen("d", "x", free_bytes=1), "fail", "0 MiB"),
        (findings.DirectorySeen("d", "x", free_bytes=findings.NO_SPACE), "warn", "64 MiB"),
        (findings.DirectorySeen("d", "x", sync_ms=250.0), "warn", "250 ms"),
        (findings.DirectorySeen("d", "x", owner="a", account="root"), "warn", "belongs to a"),
    ],
)
def test_a_directory_can_be_written_in_time_by_its_owner_and_has_room(
    seen: findings.DirectorySeen, verdict: str, words: str
) -> None:
    found = findings.of_directories([seen])
    assert verdicts(found) == [verdict]
    assert words in found[0].found


def test_without_directories_there_is_nothing_to_mend() -> None:
    assert verdicts(findings.of_directories([])) == ["ok"]


def test_a_database_that_cannot_be_reached_fails() -> None:
    seen = [
        findings.StoreSeen("fle"),
        findings.StoreSeen("mysql", problem="SR202: nobody"),
        findings.StoreSeen("a", "b"),
    ]
    assert verdicts(findings.of_stores(seen)) == ["ok", "fail", "ok"]


REQUIRED = ["pluggy>=1.7", "typer>=0.20", 'pyspark<5,>=4.1; extra == "spark"', 'slotreeve[fast]; extra == "dev"']


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        ({"pluggy": "1.7.0", "typer": "0.29.2"}, ["ok", "ok"]),
        ({"pluggy": "1.6.9", "typer": "0.29.2"}, ["ok", "fail"]),
        ({"pluggy": "1.10", "typer": "0.20"}, ["ok", "ok"]),
        ({"pluggy": "1.7.0"}, ["ok", "fail"]),
        ({"pluggy": "1.7.0", "typer": "1", "pyspark": "4.3.0"}, ["ok", "ok"]),
        ({"pluggy": "1.7.0", "typer": "1", "pyspark": "5.0"}, ["ok", "warn"]),
        ({"pluggy": "1.7.0", "typer": "1", "pyspark": "3.5.1"}, ["ok", "warn"]),
    ],
)
def test_what_is_required_must_be_there_and_extras_must_fit_where_they_are(
    installed: dict[str, str], expected: list[str]
) -> None:
    assert verdicts(findings.of_versions(findings.VersionsSeen((3, 11, 7), REQUIRED, installed, True))) == expected


def test_an_old_python_fails_and_slow_checksums_are_a_warning() -> None:
    seen = findings.VersionsSeen((3, 10, 1), [], {}, is_crc_native=False)
    assert verdicts(findings.of_versions(seen)) == ["fail", "ok", "warn"]


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (findings.ServerSeen("m", "h:1", versions=(1, 1)), "ok"),
        (findings.ServerSeen("m", "h:1", versions=(1, 9)), "ok"),
        (findings.ServerSeen("m", "h:1", versions=(2, 9)), "fail"),
        (findings.ServerSeen("m", "h:1", "nobody listens"), "warn"),
        (findings.ServerSeen("m", "h:1", "this is cluster 'a', not 'b'", is_refusal=True), "fail"),
        (findings.ServerSeen("m", "h:1", versions=(1, 1), differs="slots is 1 there"), "fail"),
    ],
)
def test_a_server_must_speak_a_version_of_ours_and_have_the_same_slots(seen: findings.ServerSeen, verdict: str) -> None:
    assert verdicts(findings.of_servers([seen], 1, 1)) == [verdict]


@pytest.mark.parametrize(("hard", "verdict"), [(100, "fail"), (4_096, "warn"), (1_048_576, "ok")])
def test_few_open_files_are_few_clients(hard: int, verdict: str) -> None:
    assert verdicts(findings.of_files(findings.FilesSeen(100, hard))) == [verdict]


def test_no_java_is_a_note_where_spark_is_not_installed_and_a_warning_where_it_is() -> None:
    assert verdicts(findings.of_spark(findings.SparkSeen(False))) == ["ok"]
    assert verdicts(findings.of_spark(findings.SparkSeen(True, "17"))) == ["ok"]
    assert verdicts(findings.of_spark(findings.SparkSeen(True, "", "there is no Java", "install one"))) == ["warn"]


def test_who_listens_at_a_port_is_read_from_the_table_of_the_kernel() -> None:
    table = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 0100007F:1E1E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 77 1 0 100 0 0 10 0",
        "   1: 0100007F:1E1E 0100007F:9999 01 00000000:00000000 00:00000000 00000000  0 0 78 1 0 100 0 0 10 0",
        "   2: 0100007F:1E1F 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 79 1 0 100 0 0 10 0",
    ]
    assert [*sockets_at(table, 7710)] == ["77"]


def test_a_command_is_shown_without_directories_and_without_what_may_be_a_secret() -> None:
    assert in_short(["/usr/bin/python", "/opt/bin/slotreeve", "data", "run", "--set", "x=secret", ""]) == (
        "python slotreeve data run"
    )


# --- the machine -----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane check starts no programs."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def flags(meta: str, *more: str) -> list[str]:
    others = [f"node.bind={meta}", "node.name=meta-1", f"cluster.meta.meta-1={meta}", *more]
    return [part for setting in others for part in ("--set", setting)]


def asked(exit_code: int, *arguments: str) -> dict[str, dict[str, str]]:
    result = runner.invoke(command_line("doctor"), ["doctor", *arguments, "-o", "json"], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    document = json.loads(result.stdout)
    assert document["fit"] is (exit_code == 0)
    return {row["check"]: row for row in document["checks"]}


def test_a_machine_that_is_fit_has_warnings_at_most(tmp_path: Path) -> None:
    meta = free_address()
    rows = asked(0, *flags(meta, f"election.fle.data_dir={tmp_path}/{{node}}", f"events.path={tmp_path}"))
    assert rows[f"port {meta}"]["verdict"] == "ok"
    for directory, found in ((tmp_path / "meta-1", "not there yet; the first start makes it"), (tmp_path, "writable")):
        row = rows[f"directory {directory}"]
        is_slow = row["verdict"] == "warn" and row["found"].startswith("a durable write took ")
        assert is_slow or (row["verdict"] == "ok" and row["found"].startswith(found)), row
    assert rows["server meta-1"]["verdict"] == "warn"
    assert [*tmp_path.iterdir()] == [], "nothing is written that stays"


def test_a_port_that_another_program_has_fails_with_its_name(listener: socket.socket) -> None:
    address = "{}:{}".format(*listener.getsockname())
    rows = asked(1, *flags(address))
    assert rows[f"port {address}"]["verdict"] == "fail"
    assert f"process {os.getpid()} (" in rows[f"port {address}"]["found"]
    assert holder_of(listener.getsockname()[1]).startswith(f"process {os.getpid()} ")


def test_each_configuration_is_looked_at_and_a_bad_one_fails(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(f'[cluster.meta]\nmeta-1 = "{free_address()}"\n[node]\nname = "meta-1"\n')
    bad.write_text("[cluster]\nslotz = 1\n")
    rows = asked(1, "-c", str(good), "-c", str(bad), "-c", str(tmp_path / "none.toml"))
    assert rows[f"configuration {good}"]["verdict"] == "ok"
    assert "did you mean 'slots'" in rows[f"configuration {bad}"]["found"]
    assert "cannot be read" in rows[f"configuration {tmp_path}/none.toml"]["found"]


def test_a_plugin_that_is_chosen_and_not_there_fails_as_a_server_would() -> None:
    rows = asked(1, "--set", "balancer.use=evven")
    (row,) = [row for what, row in rows.items() if what.startswith("configuration")]
    assert row["found"].startswith("SR110: ")


def test_a_table_for_people_ends_with_what_to_do() -> None:
    result = runner.invoke(command_line("doctor"), ["doctor", "--set", "cluster.slotz=1"])
    assert result.exit_code == 1
    cures = result.stdout.partition("\n\n")[2]
    assert cures.startswith("fail  configuration of defaults, environment and flags: Mend the setting")


def test_every_check_has_a_name_of_its_own_and_a_time_out() -> None:
    every = checks()
    assert len({check.what for check in every}) == len(every) >= 10
    assert all(0 < check.seconds <= 15 for check in every)


# --- checks that do not end ------------------------------------------------------------------------------------------


def one(check: Examination) -> Diagnosis:
    told: list[str] = []
    (found,) = asyncio.run(examine(Patient([]), [check], told.append))
    assert told == [check.what]
    return found


def test_a_check_that_blocks_in_a_thread_is_given_up_in_time() -> None:
    release = threading.Event()

    async def look(patient: Patient) -> bool:
        return await in_thread(release.wait)

    try:
        found = one(Examination("disk", look, lambda seen: [], seconds=0.01))
    finally:
        release.set()
    assert (found.what, found.verdict) == ("disk", Verdict.FAIL)
    assert "within 0.01 s" in found.found
    assert found.cure


def test_a_check_with_a_defect_is_a_warning_and_does_not_hide_the_others() -> None:
    async def look(patient: Patient) -> int:
        return await in_thread(lambda: 1 // 0)

    found = one(Examination("sums", look, lambda seen: []))
    assert found.verdict is Verdict.WARN
    assert "ZeroDivisionError" in found.found


def test_plugins_that_cannot_be_used_are_a_finding_and_not_the_end() -> None:
    patient = patient_of([], [])
    patient.catalogue, patient.problem = None, "SR110: two plugins offer the face 'x'"
    found = asyncio.run(examine(patient, checks(), lambda what: None))
    assert [each.what for each in found if each.verdict is Verdict.FAIL] == [
        "configuration of defaults, environment and flags",
        "plugins",
    ]


def test_the_checks_know_every_port_of_servers() -> None:
    (seen,) = asyncio.run(look_at_configurations(patient_of([], [])))
    assert all(f"{port} " in seen.chosen for port in Port if port is not Port.FACE)


def test_ports_are_those_of_the_role_of_the_key(tmp_path: Path) -> None:
    own = issue(tmp_path, "data-1", Role.DATA, new_key_pair())
    configuration = load_settings(None, {}, {"node.own_key": str(own), "cluster.meta": {"meta-1": "127.0.0.1:7700"}})

    async def ports() -> list[str]:
        launcher = Launcher(configuration, Catalogue.load(), MachineClock(), random.Random(0))
        return [what for what, _ in addresses_of(configuration, launcher)]

    assert asyncio.run(ports()) == ["the data server"]
