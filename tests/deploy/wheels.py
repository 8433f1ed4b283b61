"""The wheels of this checkout."""

from __future__ import annotations

from pathlib import Path

from deploy.make_packages import build

ROOT = Path(__file__).resolve().parents[2]


def make_wheels(directory: Path) -> list[Path]:
    """Build those that servers need into ``directory``, as ``./run dist`` does."""
    return [path for path in build(directory, ["slotreeve-client", "slotreeve"]) if path.suffix == ".whl"]
