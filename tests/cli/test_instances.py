"""Instances on the command line: published with options, shown to people and to programs."""

from __future__ import annotations

import pytest
import typer
from slotreeve_cli.instances import pairs, provider_line, provider_row, provider_table
from slotreeve_cli.main import command_line
from slotreeve_cli.options import HealthName, Output
from slotreeve_cli.printing import print_rows
from slotreeve_client import Health, Instance, Provider
from slotreeve_protocol.envelope import encode_instance
from typer.testing import CliRunner

INSTANCE = Instance(
    *("fe80::1", 8080, "http", 7, "east", ("blue", "v2"), {"b": "2", "a": "1"}, Health.WARNING, "disk\x1b[31m"), False
)
TYPED = Provider("r-1", "east", (encode_instance(INSTANCE),))
OPAQUE = Provider("r-2", "", (b"10.0.0.1:80", b"\xff"))


def test_programs_get_the_typed_fields_and_people_one_line() -> None:
    assert provider_row(TYPED) == {
        "data": None,
        "zone": "east",
        "register_id": "r-1",
        "instance": {
            "address": "fe80::1",
            "port": 8080,
            "scheme": "http",
            "weight": 7,
            "zone": "east",
            "tags": ("blue", "v2"),
            "metadata": {"b": "2", "a": "1"},
            "health": "warning",
            "health_note": "disk\x1b[31m",
            "enabled": False,
            "id": "[fe80::1]:8080",
        },
        "said": provider_row(TYPED)["instance"],
    }
    expected = "http://[fe80::1]:8080  weight 7  health warning: disk\\x1b[31m  enabled no  tags blue, v2  "
    assert provider_line(TYPED) == expected + "metadata a=1, b=2  (zone east)"


def test_what_was_published_as_bytes_is_shown_as_before() -> None:
    shown = {"data": ["10.0.0.1:80", "\\xff"], "zone": "", "register_id": "r-2"}
    assert provider_row(OPAQUE) == {**shown, "instance": None, "said": None}
    assert provider_table([OPAQUE]) == [shown]
    assert provider_line(OPAQUE) == "10.0.0.1:80, \\xff"


def test_both_kinds_stand_in_one_table() -> None:
    rows = provider_table([OPAQUE, TYPED])
    assert rows[0].keys() == rows[1].keys()
    assert [row["provider"] for row in rows] == [["10.0.0.1:80", "\\xff"], "http://[fe80::1]:8080"]


def test_a_table_shows_what_was_published_and_nothing_of_it_is_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    print_rows(provider_table([TYPED]), Output.TABLE)
    shown = capsys.readouterr().out
    assert "http://[fe80::1]:8080" in shown
    assert "disk\\x1b[31m" in shown
    assert "\x1b" not in shown


def test_the_names_of_health_are_those_of_the_client() -> None:
    assert [name.value for name in HealthName] == [health.value for health in Health]


@pytest.mark.parametrize("values", [["a"], ["=1"], ["a=1", "a=2"]])
def test_metadata_that_is_no_pair_is_wrong_usage(values: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match="expected key=value, each key once"):
        pairs("--meta", values)


def test_metadata_may_have_an_equals_sign_in_the_value() -> None:
    assert pairs("--meta", ["a=b=c", "d="]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["10.0.0.1:80", "--address", "10.0.0.1:80"],
        *(
            ["10.0.0.1:80", *option]
            for option in (["--scheme", "http"], ["--weight", "0"], ["--tag", "a"], ["--id", "a"])
        ),
        *(["10.0.0.1:80", *option] for option in (["--health", "critical"], ["--note", "a"], ["--disabled"])),
        ["10.0.0.1:80", "--meta", "a=b"],
        ["--address", "a:1", "--health", "good"],
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(command_line("publish"), ["publish", "a.B", *arguments])
    assert result.exit_code == 2
    assert "Usage" in result.output
