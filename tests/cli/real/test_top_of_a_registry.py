"""``slotreeve top`` on a terminal, and without one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from slotreeve_harness.processes import DevServer

pytestmark = pytest.mark.processes
SECONDS = 30.0


@pytest.fixture(scope="module")
def dev() -> Iterator[DevServer]:
    with DevServer() as server:
        yield server


def command(dev: DevServer, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "slotreeve_cli", "top", "--meta", dev.meta_address, *arguments]


class OnTerminal:
    """The command on a pseudo terminal."""

    def __init__(self, words: list[str]) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(self.ours)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140", "LINES": "40"}
        self.process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""

    def until(self, text: str) -> None:
        """Read until ``text`` was shown."""
        deadline = time.monotonic() + SECONDS
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.ours], [], [], 0.5)[0]:
                self.shown += os.read(self.ours, 65_536).decode(errors="replace")


@contextmanager
def on_terminal(words: list[str]) -> Iterator[OnTerminal]:
    terminal = OnTerminal(words)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.ours)


@pytest.mark.parametrize("how", ["q", "ctrl-c"])
def test_on_a_terminal_it_ends_by_a_key_or_by_ctrl_c_and_leaves_the_terminal_as_it_was(
    dev: DevServer, how: str
) -> None:
    with on_terminal(command(dev, "--interval", "0.3")) as terminal:
        terminal.until("meta-1 leads in term")
        terminal.until("q ends")
        if how == "q":
            os.write(terminal.ours, b"xq")
        else:
            terminal.process.send_signal(signal.SIGINT)
        terminal.until("\x1b[?1049l")
        assert terminal.process.wait(SECONDS) == 0
        assert termios.tcgetattr(terminal.ours) == terminal.before


def test_without_a_terminal_it_prints_as_many_tables_as_it_is_told_to(dev: DevServer) -> None:
    done = subprocess.run(
        command(dev, "--interval", "0.2", "-n", "3"), capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.count("meta-1 leads in term") == 3
    assert "\x1b" not in done.stdout


def test_as_json_it_is_a_line_after_each_interval(dev: DevServer) -> None:
    done = subprocess.run(
        command(dev, "--interval", "0.2", "-n", "2", "-o", "json"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["leader"] for line in lines] == ["meta-1", "meta-1"]
    assert all(line["totals"]["publishes"] == 0 for line in lines)
    assert [server["role"] for server in lines[0]["servers"]] == ["meta", "data", "session"]


def test_ctrl_c_without_a_terminal_is_a_good_end_too(dev: DevServer) -> None:
    with subprocess.Popen(command(dev, "--interval", "0.2"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "leads in term" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(SECONDS) == 0


def test_where_nobody_answers_the_exit_code_says_so() -> None:
    words = [sys.executable, "-m", "slotreeve_cli", "top", "--meta", "127.0.0.1:1", "-n", "1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("slotreeve: error SR202: ")
