"""``deploy/compose/compose.yml``, as Compose reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "deploy/compose/compose.yml"
SECONDS = re.compile(r"(\d+)s")


@dataclass(frozen=True)
class ComposeService:
    """One service. ``mounts``: what stands for it on this machine, a path or the name of a volume, by its place."""

    name: str
    command: Sequence[str]
    env_files: Sequence[str]
    environment: Mapping[str, str]
    mounts: Mapping[str, str]
    stop_seconds: int
    ports: Sequence[str]
    raw: Mapping[str, Any]

    def variables(self, directory: Path) -> dict[str, str]:
        """What it is started with: the files of variables, and what is stronger."""
        found: dict[str, str] = {}
        for name in self.env_files:
            lines = (directory / name).read_text(encoding="utf-8").splitlines()
            found |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        return found | dict(self.environment)


def compose() -> dict[str, Any]:
    """The whole file."""
    return cast(dict[str, Any], yaml.safe_load(FILE.read_text(encoding="utf-8")))


def services() -> dict[str, ComposeService]:
    """The services by name."""
    found = {}
    for name, raw in compose()["services"].items():
        volumes = [str(volume).split(":") for volume in raw.get("volumes", [])]
        seconds = SECONDS.fullmatch(raw.get("stop_grace_period", "10s"))
        assert seconds is not None, name
        found[name] = ComposeService(
            name,
            raw["command"],
            raw.get("env_file", []),
            raw.get("environment", {}),
            {there: here for here, there, *_ in volumes},
            int(seconds[1]),
            raw.get("ports", []),
            raw,
        )
    return found
