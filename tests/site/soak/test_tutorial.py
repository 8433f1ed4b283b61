"""docs/tutorial.md is true: its blocks are run in one shell, in their order, by the letter but for the default ports.

After each block all that the page shows below it must appear; in any order, since programs in the background print,
too. What differs from run to run (ports, times, ids, names of leaders) is compared as such.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from slotreeve_harness.free_ports import free_offset

from tests.lanes.programs import MARK

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DEFAULT_PORT = re.compile(r"(?<=127\.0\.0\.1:)77\d\d")
VARIES = [
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "TIME"),
    (re.compile(r"(\b\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d(\.\d+)?( UTC)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{16}-\d+\b"), "ID"),
    (re.compile(r"\b(meta|data)-\d\b"), "SERVER"),
    (re.compile(r"\b\d{10,}\b"), "INDEX"),
    (re.compile(r"\btable \d+"), "TABLE"),
    (re.compile(r"\s+"), " "),
]
PATIENCE_SECONDS, STOP_SECONDS, POLL_SECONDS = 40.0, 10.0, 0.5


def comparable(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, name in VARIES:
        line = pattern.sub(name, line)
    return line.strip()


@dataclass(frozen=True)
class Step:
    """A block that is run, or a file that is written, and what appears then."""

    text: str
    file: str
    shown: tuple[str, ...]


def steps() -> list[Step]:
    found: list[Step] = []
    for language, file, text in BLOCK.findall(PAGE):
        if language == "text":
            assert not found[-1].shown, "what appears stands below the block that lets it appear"
            found[-1] = Step(found[-1].text, found[-1].file, tuple(map(comparable, text.splitlines())))
        else:
            assert language == ("python" if file else "sh"), f"a block of the language {language}"
            found.append(Step(text, file, ()))
    return found


class Shell:
    """One bash, as somebody uses it who pastes block after block. It ends when a command fails."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        command = ["bash", "--norc", "--noprofile", "-e", "-m"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.said = ""
        self._blocks = 0

    def run(self, text: str, *shown: str) -> None:
        """Run some lines, and wait until they have ended and until all that is shown has appeared."""
        self._blocks += 1
        begin, end = len(self.said), f"-- end of block {self._blocks} --"
        self._input.write(f"{text}\necho '{end}'\n".encode())
        self._input.flush()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while missing := [end, *shown]:
            for line in self.said[begin:].splitlines():
                if comparable(line) in missing:
                    missing.remove(comparable(line))
            if not missing:
                return
            ready, _, _ = select.select([self._output], [], [], POLL_SECONDS)
            if not ready and self._process.poll() is None and time.monotonic() < deadline:
                continue
            part = os.read(self._output.fileno(), 1 << 16) if ready else b""
            assert part, f"after\n{text}\nthis did not appear: {missing}\nbut this:\n{self.said[begin:]}"
            self.said += part.decode(errors="replace")

    def started(self) -> list[psutil.Process]:
        """All that it has started and that still runs, and what that has started."""
        found = {each.pid: each for each in psutil.process_iter() if self._is_ours(each.pid)}
        for process in [*found.values()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= {each.pid: each for each in process.children(recursive=True)}
        found.pop(self._process.pid, None)
        return [*found.values()]

    def _is_ours(self, pid: int) -> bool:
        try:
            return os.getsid(pid) == self._process.pid
        except ProcessLookupError:
            return False

    def close(self) -> None:
        """End it, and whatever it has started, also where the shell itself has ended."""
        started = self.started()
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(started, STOP_SECONDS)
        for process in alive:
            process.kill()
        self._input.close()
        self._process.kill()
        self._process.wait()
        self._output.close()


@pytest.fixture
def offset() -> int:
    return free_offset(random.Random())


@pytest.fixture
def shell(offset: int, tmp_path: Path) -> Iterator[Shell]:
    """At the top of the clone; the commands are those of this Python."""
    if missing := [program for program in ("bash", "awk", "curl") if shutil.which(program) is None]:
        reason = f"the tutorial needs {' and '.join(missing)}; install the packages"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLOTREEVE", "PY"))}
    own = {**kept, MARK: os.environ[MARK]}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    addresses = {
        "SLOTREEVE_SESSION": f"127.0.0.1:{7730 + offset}",
        "SLOTREEVE_META": f"127.0.0.1:{7710 + offset}",
    }
    found = Shell(ROOT, {**own, **addresses, "PATH": path, "TMPDIR": str(tmp_path), "COLUMNS": "200"})
    try:
        yield found
    finally:
        found.close()


def test_the_tutorial_leads_where_it_says(shell: Shell, offset: int, tmp_path: Path) -> None:
    def moved(text: str) -> str:
        return DEFAULT_PORT.sub(lambda port: str(int(port[0]) + offset), text)

    todo = steps()
    assert len(todo) > 20
    for number, step in enumerate(todo):
        running = shell.started()
        if step.file:
            (folder,) = tmp_path.glob("tmp.*")
            (folder / step.file).write_text(step.text)
            continue
        text = moved(step.text).replace("slotreeve dev &", f"slotreeve dev --port-offset {offset} &")
        if number == 0 and Path(sys.prefix) != ROOT / ".venv":
            text = text.replace("./run setup\n", "")  # it would make another environment than that of this test
        shell.run(text, *step.shown)
        if "/v1/services" in text:
            (console,) = re.findall(r"<(http://127\.0\.0\.1:7740/ui/)>", PAGE)
            assert "com.example.Greeter" in httpx.get(moved(console), follow_redirects=True).raise_for_status().text
    _, alive = psutil.wait_procs(running, STOP_SECONDS)
    assert alive == []
