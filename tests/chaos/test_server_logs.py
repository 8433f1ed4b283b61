"""Exceptions in the logs of servers, as the product's own logging and the interpreter write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from slotreeve_harness.server_logs import TRACEBACK, raised

SERVER = """
import asyncio, logging
from slotreeve_cli.logs import configure_logging
from slotreeve_servers.node.settings import LogSettings

def fail():
    raise KeyError("x")

async def serve():
    asyncio.get_running_loop().call_soon(fail)
    logging.getLogger("slotreeve.data").error("the disk is full")
    try:
        fail()
    except KeyError:
        logging.getLogger("slotreeve.data").exception("a handler failed")
    await asyncio.sleep(0)
    raise ValueError("the end")

configure_logging(LogSettings(format="json"), "data-1")
asyncio.run(serve())
"""


def test_what_a_handler_a_timer_and_the_process_raised_is_found(tmp_path: Path) -> None:
    log = tmp_path / "data-1.log"
    with log.open("ab") as output:
        done = subprocess.run([sys.executable, "-c", SERVER], stderr=output, timeout=300, check=False)
    assert done.returncode == 1
    handler, timer, process = raised(log)
    assert handler == "a handler failed: KeyError: 'x'"
    assert timer.startswith("Exception in callback fail()")
    assert timer.endswith("KeyError: 'x'")
    assert process == "ValueError: the end"


NAMED = """
import logging, sys
from slotreeve_cli.logs import configure_logging
from slotreeve_servers.node.settings import LogSettings

configure_logging(LogSettings(format=sys.argv[1]), "session-1")
log = logging.getLogger("slotreeve.session")
log.warning("%s may not read %s", "shop", "a\\n2026-01-01 [error] forged \\x1b[31m\\u2028red")
try:
    {}["lines"]
except KeyError:
    log.exception("a handler failed")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_others_have_named_writes_no_line_of_the_log_and_a_traceback_keeps_its_lines(form: str) -> None:
    command = [sys.executable, "-c", NAMED, form]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stderr
    named, *others = said.splitlines()
    assert "forged" in named
    assert "\\u2028red" in named
    assert "[31m\u2028" not in named
    assert not any("forged" in line for line in others)
    assert "KeyError" in said
    assert (len(others) > 3) is (form == "text")


def test_a_log_without_an_exception_or_of_a_server_that_never_started_has_none(tmp_path: Path) -> None:
    log = tmp_path / "data-1.log"
    assert raised(log) == []
    log.write_text('data-1 listens\n{"event": "the disk is full", "level": "error"}\n')
    assert raised(log) == []


def test_what_is_cut_short_is_reported_as_it_is(tmp_path: Path) -> None:
    record, log = f'{{"event": "a", "exception": "{TRACEBACK}', tmp_path / "data-1.log"
    log.write_text(f"{record}\n{TRACEBACK}:\n  a")
    assert raised(log) == [record, TRACEBACK]
