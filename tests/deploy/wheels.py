"""The wheels of this checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make_wheels(directory: Path) -> list[Path]:
    """Build them into ``directory``, by what ``deploy/README.md`` says."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3_000:]
    return sorted(directory.glob("*.whl"))
