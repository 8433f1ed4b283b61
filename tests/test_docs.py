"""The documentation is true: what it shows is run, what it lists is what the code has, and references lead somewhere.

Python blocks run as programs, ``$ slotreeve`` lines as commands. Reference pages are compared with the code.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import slotreeve.errors
import typer.core
import typer.main
from slotreeve import hookspecs
from slotreeve.catalogue import Catalogue
from slotreeve.errors import SlotreeveError
from slotreeve_cli.main import app, command_line
from slotreeve_client.administration import counters
from slotreeve_conformance.virtual_time import run
from slotreeve_servers.node.counted import GATEWAY
from slotreeve_servers.settings import load_settings
from slotreeve_simulator.simulated_cluster import SimulatedCluster
from slotreeve_transport_memory.transport import MemoryTransport
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)\)")


def blocks(language: str) -> Sequence[object]:
    found = []
    for page in PAGES:
        for number, match in enumerate(m for m in BLOCK.finditer(page.read_text()) if m[1] == language):
            found.append(pytest.param(match[2], id=f"{page.name}-{number + 1}"))
    return found


@pytest.mark.parametrize("block", blocks("toml"))
def test_a_toml_block_is_a_good_configuration_or_project_table(block: str, tmp_path: Path) -> None:
    if "[project" in block or "[build-system]" in block:
        assert tomllib.loads(block)
        return
    file = tmp_path / "cluster.toml"
    file.write_text(block)
    done = CliRunner().invoke(command_line("config"), ["config", "check", "-c", str(file)])
    assert done.exit_code == 0, f"{done.exception}"


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


@pytest.mark.parametrize("script", ["make_pages.py", "draw_rooms.py"])
def test_what_is_made_from_the_code_is_what_the_script_makes_now(script: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def names_in_first_column(page: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / page).read_text(), re.MULTILINE))


def test_every_setting_stands_in_the_page_of_settings() -> None:
    listed = names_in_first_column("settings.md")
    configuration = load_settings(None, {}, {})
    for section, table in configuration.settings.model_dump().items():
        assert {f"{section}.{key}" for key in table} <= listed
    for entry in Catalogue.load().listed:
        prefix = f"{entry.port}.{entry.offer.name}"
        assert {f"{prefix}.{key}" for key in entry.offer.options.model_fields} <= listed


def test_every_hook_and_every_offer_stands_in_the_page_of_plugins() -> None:
    page = (ROOT / "docs/plugins.md").read_text()
    assert [hook for hook in vars(hookspecs) if hook.startswith("slotreeve_") and f"`{hook}`" not in page] == []
    listed = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE))
    assert {(str(entry.port), entry.offer.name) for entry in Catalogue.load().listed} <= listed


def commands(command: object, path: str = "slotreeve") -> Iterator[str]:
    if isinstance(command, typer.core.TyperGroup):
        for name, below in command.commands.items():
            yield from commands(below, f"{path} {name}")
    else:
        yield path


def test_every_command_has_a_part_in_the_page_of_commands() -> None:
    parts = re.findall(r"^## `(slotreeve [^`]+)`$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)
    assert sorted(parts) == sorted(commands(typer.main.get_command(app)))


def test_the_page_of_counters_lists_what_servers_count() -> None:
    """Asks every server of a simulated cluster, so that whatever a server reports is found. What a gateway reports is
    checked in tests/gateway."""
    reported: set[str] = set()

    async def ask(rng: random.Random) -> None:
        async with SimulatedCluster(rng) as cluster:
            transport = MemoryTransport(cluster.process_clock("operator"), "operator", cluster.network)
            for name in cluster.servers:
                reported.update(await counters(transport, "slotreeve", cluster.address(name)))
            await transport.close()

    run(ask, seed=1)
    assert names_in_first_column("counters.md") == reported | GATEWAY.keys()


def test_every_invariant_has_one_row() -> None:
    rows = re.findall(r'^\| <a id="i(\d+)"></a>I(\d+) \|', (ROOT / "docs/invariants.md").read_text(), re.MULTILINE)
    assert all(anchor == number for anchor, number in rows)
    numbers = [int(number) for number, _ in rows]
    assert len(numbers) == len(set(numbers))
    assert {*range(1, 21), 23} <= {*numbers}


def test_a_term_is_explained_once() -> None:
    page = (ROOT / "docs/words.md").read_text().replace("| term | meaning |", "")
    terms = re.findall(r"^\| (\w[^|]*?) \| [^|]+ \|", page, re.MULTILINE)
    assert len(terms) > 50
    assert sorted(terms) == sorted(set(terms))
