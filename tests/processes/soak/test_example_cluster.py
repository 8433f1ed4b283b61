"""The example of docs/operating.md, started as it stands there, and the steps for meta servers that are lost."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from slotreeve.model.nodes import Role
from slotreeve_cli.main import app
from slotreeve_election_fle.left_directory import SKIPPED_EPOCHS
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ServerProcess
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.processes

OPERATING = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.1


def example() -> str:
    """The first configuration of the page, at free addresses."""
    found = re.search(r"```toml\n(\[cluster\]\n.*?)```", OPERATING, re.DOTALL)
    assert found is not None
    return re.sub(r'"127\.0\.0\.1:\d+"', lambda _old: f'"{free_address()}"', found[1])


def commands(section: str) -> list[str]:
    """The commands in the blocks of a section of the page, in order."""
    (text,) = re.findall(rf"^## {section}\n(.*?)^## ", OPERATING, re.DOTALL | re.MULTILINE)
    blocks: list[str] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def slotreeve(*arguments: str, answer: str = "") -> Result:
    """Run a command; in this process, since a new one for each would take most of the time."""
    return CliRunner().invoke(app, arguments, input=answer)


class Metas:
    """The meta servers of the example; they read ``cluster.toml`` in the present directory when they start."""

    def __init__(self, addresses: dict[str, str], logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses, self._logs = addresses, logs
        self._running: dict[str, ServerProcess] = {}
        monkeypatch.setenv("SLOTREEVE_META", " ".join(addresses.values()))
        monkeypatch.setenv("SLOTREEVE_CLUSTER", "east")

    def start(self, name: str, command: str = "slotreeve meta run -c cluster.toml --name {name}") -> None:
        _, *arguments = shlex.split(command.format(name=name))
        line = [sys.executable, "-m", "slotreeve_cli", *arguments, "--until-eof"]
        server = ServerProcess(Role.META, name, self.addresses[name], line, self._logs / f"{name}.log")
        self._running[name] = server
        server.start()

    def stop(self, *names: str) -> None:
        stopped = [self._running.pop(name) for name in names or list(self._running)]
        for server in stopped:
            server.signal_stop()
        for server in stopped:
            server.stop()

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < deadline, [log.read_text()[-2000:] for log in self._logs.glob("*.log")]
            time.sleep(POLL_SECONDS)

    def leader(self) -> tuple[str, int]:
        """Name and term, once there is one."""
        self.until(lambda: slotreeve("leader").exit_code == 0)
        found = json.loads(slotreeve("leader", "-o", "json").stdout)
        (row,) = found if isinstance(found, list) else [found]
        return row["leader"], row["term"]

    def follow(self, address: str) -> None:
        """Wait until all follow one leader, meta-3 at this address."""

        def together() -> bool:
            done = slotreeve("election", "members", "list", "-o", "json")
            if done.exit_code != 0:
                return False
            rows = {row["member"]: row for row in json.loads(done.stdout)}
            leaders = {row["leader"] for row in rows.values()}
            return len(leaders) == 1 and rows["meta-3"]["address"] == address

        self.until(together)


@pytest.fixture
def metas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metas]:
    """The example's, none of them started."""
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(example())
    addresses = dict(re.findall(r'^(meta-\d) = "(.*)"$', Path("cluster.toml").read_text(), re.MULTILINE))
    assert len(addresses) == 3
    found = Metas(addresses, tmp_path, monkeypatch)
    with ExitStack() as at_the_end:
        at_the_end.callback(found.stop)
        yield found


def test_the_example_of_the_operators_page_elects_and_survives_lost_and_dead_meta_servers_by_its_steps(
    metas: Metas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slotreeve("config", "check", "-c", "cluster.toml").exit_code == 0
    for name in metas.addresses:
        metas.start(name)
    first, term = metas.leader()
    assert first in metas.addresses
    states = sorted(path.name for path in tmp_path.glob("state-*"))
    assert states == ["state-meta-1", "state-meta-2", "state-meta-3"]
    assert slotreeve("provide", "put", "limits.rate", "100").exit_code == 0
    metas.follow(metas.addresses["meta-3"])

    # A lost majority
    look, force, *copies = commands("A lost majority")
    metas.stop()
    for lost in states[1:]:
        shutil.rmtree(lost)
    assert "state-meta-1" in slotreeve(*shlex.split(look)[1:]).stdout
    forced = slotreeve(*shlex.split(force)[1:], answer="y\n")
    assert forced.exit_code == 0, forced.output
    for copy in copies:
        subprocess.run(shlex.split(copy), check=True, timeout=PATIENCE_SECONDS)
    for name in metas.addresses:
        metas.start(name)
    assert metas.leader()[1] > term + SKIPPED_EPOCHS
    assert "100" in slotreeve("provide", "get", "limits.rate").stdout

    # Replacing a meta server
    (moved,) = commands("Replacing a meta server")
    metas.stop("meta-3")
    shutil.rmtree("state-meta-3")
    old, metas.addresses["meta-3"] = metas.addresses["meta-3"], free_address()
    content = Path("cluster.toml").read_text().replace(old, metas.addresses["meta-3"])
    machine = tmp_path / "new machine"
    machine.mkdir()
    (machine / "cluster.toml").write_text(content)
    with monkeypatch.context() as there:
        there.chdir(machine)
        metas.start("meta-3", moved)
    metas.follow(metas.addresses["meta-3"])

    Path("cluster.toml").write_text(content)
    metas.stop()
    metas.start("meta-1")
    metas.start("meta-2")
    with monkeypatch.context() as there:
        there.chdir(machine)
        metas.start("meta-3")
    metas.follow(metas.addresses["meta-3"])
    assert "100" in slotreeve("provide", "get", "limits.rate").stdout
