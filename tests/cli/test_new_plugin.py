"""``slotreeve plugins new``: names, directories, and packages that load."""

from __future__ import annotations

import ast
import random
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from slotreeve.catalogue import Catalogue
from slotreeve.clock import MachineClock
from slotreeve.errors import PluginError
from slotreeve.offers import Port
from slotreeve.ports import Context
from slotreeve_cli.main import command_line
from slotreeve_cli.new_plugin import MOST_LETTERS, SAMPLES, PortName, package_of
from slotreeve_client.tools import run_async
from slotreeve_transport_memory.transport import MemoryTransport
from typer.testing import CliRunner

NAMES = ["stock", "a", "b2_c3", "x" * MOST_LETTERS]
runner = CliRunner()


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory whose packages can be imported in this test, and are forgotten after it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith("slotreeve_stock"):
            del sys.modules[name]


def test_there_is_a_sample_for_each_port() -> None:
    assert (
        [str(port) for port in PortName]
        == [str(port) for port in Port]
        == [str(port) for port in PortName if port in SAMPLES]
    )


@pytest.mark.parametrize("port", PortName)
@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_complete_and_parses_whatever_the_name(port: PortName, name: str) -> None:
    package = package_of(port, name)
    assert {f"slotreeve_{name}/__init__.py", f"slotreeve_{name}/py.typed", f"tests/test_{name}.py"} < {*package}
    for path, text in package.items():
        assert "$" not in text, path
        assert text == "" or (text.endswith("\n") and not text.endswith("\n\n")), path
        assert not [line for line in text.splitlines() if line != line.rstrip()], path
        if path.endswith(".py"):
            assert ast.get_docstring(ast.parse(text)), path
            assert max(map(len, text.splitlines())) <= 120, path
    points = tomllib.loads(package["pyproject.toml"])["project"]["entry-points"]["slotreeve"]
    assert points == {name: f"slotreeve_{name}"}


@pytest.mark.parametrize("port", PortName)
def test_the_offer_of_a_new_plugin_loads_and_builds_with_its_defaults(port: PortName, importable: Path) -> None:
    result = runner.invoke(command_line("plugins"), ["plugins", "new", port, str(importable), "--name", "stock"])
    assert result.exit_code == 0, result.output
    catalogue = Catalogue.load([EntryPoint("stock", "slotreeve_stock", "slotreeve")])
    assert catalogue.broken == []
    (listed,) = catalogue.listed
    assert (str(listed.port), listed.offer.name) == (port, "stock")
    assert listed.offer.options.model_fields

    async def build() -> None:
        clock = MachineClock()
        transport = MemoryTransport(clock, "meta-1")
        members = {"meta-1": "meta-1:1"}
        context = Context("c", 16, clock, random.Random(1), "meta-1", members=members, transport=transport)
        built = catalogue.build(listed, catalogue.options(listed, {}), context)
        assert isinstance(built, listed.port.protocol)

    if port is PortName.FACE:
        with pytest.raises(PluginError, match="built by a gateway only"):
            run_async(build())
    else:
        run_async(build())


def test_the_name_is_that_of_the_directory_unless_another_is_given(tmp_path: Path) -> None:
    directory = tmp_path / "slotreeve-Round-table"
    result = runner.invoke(command_line("plugins"), ["plugins", "new", "balancer", str(directory)])
    assert result.exit_code == 0
    assert "slotreeve plugins check round_table\n" in result.stdout
    assert (directory / "slotreeve_round_table/balancer.py").exists()


def test_a_directory_that_is_not_empty_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    result = runner.invoke(command_line("plugins"), ["plugins", "new", "face", str(tmp_path), "--name", "stock"])
    assert result.exit_code == 2
    assert "not empty" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = runner.invoke(
        command_line("plugins"), ["plugins", "new", "face", str(tmp_path / "file"), "--name", "stock"]
    )
    assert result.exit_code == 2
    assert "no directory" in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    "name", ["Upper", "two words", "9lives", "a__b", "a_", "ünicode", "../up", "use", "even", "balancer", "x" * 25]
)
def test_a_name_that_would_not_work_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "new"
    result = runner.invoke(command_line("plugins"), ["plugins", "new", "balancer", str(directory), "--name", name])
    assert result.exit_code == 2, result.output
    assert not directory.exists()


def test_a_port_that_there_is_not_is_wrong_usage(tmp_path: Path) -> None:
    result = runner.invoke(command_line("plugins"), ["plugins", "new", "storage", str(tmp_path)])
    assert result.exit_code == 2
    assert "slot_function" in result.output
