"""The Dockerfile, by hadolint."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faces.programs import program

pytestmark = pytest.mark.processes
FILE = Path(__file__).resolve().parents[3] / "deploy/image/Dockerfile"


def hadolint(text: str) -> str:
    command = [program("hadolint"), "--no-color", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode == 0) == (not done.stdout), done.stderr
    return done.stdout


def test_hadolint_has_nothing_to_say() -> None:
    assert hadolint(FILE.read_text(encoding="utf-8")) == ""


def test_hadolint_would_say_it() -> None:
    text = FILE.read_text(encoding="utf-8").replace("USER 10730:10730", "USER root").replace("slim-bookworm", "")
    assert "DL3002" in hadolint(text)
