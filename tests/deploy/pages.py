"""The commands of ``deploy/README.md``, which tests run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def commands(title: str) -> list[str]:
    """The lines of the first block of shell commands below this heading; lines that go on are joined."""
    text = (ROOT / "deploy/README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}$.*?^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"deploy/README.md has no commands below {title!r}"
    return [line for line in found[1].replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
