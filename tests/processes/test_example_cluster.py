"""The example of docs/operating.md, started as it stands there."""

from __future__ import annotations

import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_harness.processes import ServerProcess, free_address

from tests.processes.test_bad_input import slotreeve

pytestmark = pytest.mark.processes

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"
PATIENCE_SECONDS = 30.0


def example() -> str:
    """The first configuration of the page, at free addresses."""
    found = re.search(r"```toml\n(\[cluster\]\n.*?)```", OPERATING.read_text(), re.DOTALL)
    assert found is not None
    return re.sub(r'"127\.0\.0\.1:\d+"', lambda _old: f'"{free_address()}"', found[1])


def test_the_example_of_the_operators_page_passes_the_check_and_its_three_meta_servers_elect_a_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(example())
    assert slotreeve("config", "check", "-c", "cluster.toml").returncode == 0
    addresses = dict(re.findall(r'^(meta-\d) = "(.*)"$', text := Path("cluster.toml").read_text(), re.MULTILINE))
    assert len(addresses) == 3, text
    with ExitStack() as running:
        for name, address in addresses.items():
            command = [sys.executable, "-m", "slotreeve_cli", "meta", "run", "-c", "cluster.toml", "--name", name]
            server = ServerProcess(Role.META, name, address, [*command, "--until-eof"], tmp_path / f"{name}.log")
            running.callback(server.stop)
            server.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        address = next(iter(addresses.values()))
        while (done := slotreeve("leader", "--meta", address, "--cluster", "east")).returncode != 0:
            assert time.monotonic() < deadline, [log.read_text() for log in tmp_path.glob("*.log")] + [done.stderr]
        assert re.search(r"meta-\d", done.stdout)
    assert sorted(path.name for path in tmp_path.glob("state-*")) == ["state-meta-1", "state-meta-2", "state-meta-3"]
