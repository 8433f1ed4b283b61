"""Everything that the documentation shows is run: Python blocks as programs, ``$ slotreeve`` lines as commands."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import slotreeve.errors
from slotreeve.catalogue import Catalogue
from slotreeve.errors import SlotreeveError
from slotreeve_harness.processes import DevServer
from slotreeve_servers.settings import load_settings

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)\)")


def blocks(language: str) -> Sequence[object]:
    found = []
    for page in PAGES:
        for number, match in enumerate(m for m in BLOCK.finditer(page.read_text()) if m[1] == language):
            found.append(pytest.param(match[2], id=f"{page.name}-{number + 1}"))
    return found


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def environment(dev: DevServer) -> dict[str, str]:
    return {**os.environ, "SLOTREEVE_SESSION": dev.session_address, "SLOTREEVE_META": dev.meta_address}


@pytest.mark.processes
@pytest.mark.parametrize("source", blocks("python"))
def test_a_python_block_runs(source: str, dev: DevServer) -> None:
    source = source.replace("127.0.0.1:7730", dev.session_address)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("block", blocks("console"))
def test_the_commands_of_a_console_block_run(block: str, dev: DevServer) -> None:
    background: list[subprocess.Popen[str]] = []
    try:
        for line in block.splitlines():
            if not line.startswith("$ slotreeve ") or line == "$ slotreeve dev &":
                continue  # what a command prints; the registry that is already running
            command = [sys.executable, "-m", "slotreeve_cli", *shlex.split(line.removeprefix("$ slotreeve "))]
            if command[-1] == "&":
                process = subprocess.Popen(
                    command[:-1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(dev)
                )
                background.append(process)
                assert process.stdout is not None
                first = process.stdout.readline()
                assert process.poll() is None, first + process.stdout.read()
                continue
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=60, env=environment(dev), cwd=ROOT, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    finally:
        for process in background:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_toml_block_is_a_good_configuration_or_project_table(block: str, tmp_path: Path) -> None:
    if "[project" in block or "[build-system]" in block:
        assert tomllib.loads(block)
        return
    file = tmp_path / "cluster.toml"
    file.write_text(block)
    load_settings(file, {}, {}).check_plugins(Catalogue.load())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def errors(root: type[SlotreeveError] = SlotreeveError) -> Iterator[type[SlotreeveError]]:
    for error in root.__subclasses__():
        if error.__module__ == slotreeve.errors.__name__:
            yield error
            yield from errors(error)


def test_the_table_of_errors_is_the_tree_of_errors() -> None:
    rows = re.findall(r"^\| (SR\d+) \| `(\w+)` \| (\d) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((e.code, e.__name__, str(e.exit_code)) for e in errors())
