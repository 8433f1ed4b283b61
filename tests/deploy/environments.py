"""Empty environments of Python, into which a test installs what is released."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.lints.rooms import ROOT

SECONDS = 300.0
"""How long one command may take: an installation waits for a package index."""


class EmptyEnvironment:
    """An environment without any package, below a directory of the test's own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run([sys.executable, "-m", "venv", "--without-pip", str(directory)])
        self.python = directory / "bin/python"

    def install(self, *what: str, files: Path | None = None) -> None:
        """Install these with the libraries that they need, of the versions that main is tested with; those of ours
        from this directory."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        found = ["--find-links", str(files)] if files else []
        self.run([*pip, *found, "--constraint", str(ROOT / "constraints.txt"), *what])

    def packages(self) -> set[str]:
        """Names of all that is installed."""
        lines = "from importlib.metadata import distributions\nfor each in distributions(): print(each.name)"
        return set(self.run([str(self.python), "-c", lines]).split())

    def command(self, *arguments: str) -> list[str]:
        """The command line ``slotreeve`` of this environment with these arguments."""
        return [str(self.directory / "bin/slotreeve"), *arguments]

    def run(self, command: list[str], *, fails: bool = False) -> str:
        """What a command prints. ``fails``: it must not succeed."""
        strange = ("PYTHONPATH", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if name not in strange}
        done = subprocess.run(
            command, env=environment, cwd=ROOT.parent, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        assert (done.returncode != 0) is fails, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr
