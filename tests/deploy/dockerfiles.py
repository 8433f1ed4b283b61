"""A Dockerfile as instructions, and what they make of a root file system, without a container engine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction, its lines joined. ``line``: where it begins."""

    name: str
    text: str
    line: int

    @property
    def words(self) -> list[str]:
        """The words, of a list in JSON its members."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


@dataclass
class Stage:
    """What stands between one FROM and the next."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        """The instructions of this name."""
        return [each for each in self.instructions if each.name == name]

    def last(self, name: str) -> Instruction:
        """The one that counts where several are allowed and the last one wins."""
        return self.all(name)[-1]

    def variables(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = [word.partition("=") for each in self.all("ENV") for word in shlex.split(each.text)]
        return {name: value for name, _, value in pairs}


def parsed(text: str) -> tuple[dict[str, str], list[Stage]]:
    """The arguments before the first FROM with their defaults, and the stages."""
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for instruction in _instructions(text):
        if instruction.name == "FROM":
            found = re.fullmatch(r"(\S+)(?: AS (\S+))?", instruction.text)
            assert found is not None, instruction
            stages.append(Stage(found[1], found[2] or str(len(stages))))
        elif stages:
            stages[-1].instructions.append(instruction)
        else:
            assert instruction.name == "ARG", instruction
            name, _, value = instruction.text.partition("=")
            arguments[name] = value
    return arguments, stages


def _instructions(text: str) -> Sequence[Instruction]:
    found: list[Instruction] = []
    pending, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        begun = begun if pending else number
        pending += line.strip().removesuffix("\\").rstrip() + " "
        if not line.endswith("\\"):
            name, _, rest = pending.strip().partition(" ")
            found.append(Instruction(name.upper(), rest.strip(), begun))
            pending = ""
    assert not pending, "the last line ends with a backslash"
    return found


def allowed_in_context(patterns: str, path: str) -> bool:
    """Whether a file is sent to the builder by these lines of ``.dockerignore``; the last one that fits decides."""
    sent = True
    for line in patterns.splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        again, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        regular = re.escape(pattern).replace(r"\*", "[^/]*")
        if re.fullmatch(rf"{regular}(/.*)?", path):
            sent = again
    return sent


class Builder:
    """Makes root directories of stages in ``scratch``, from the archive of a base that stands for every FROM."""

    def __init__(self, base: Path, context: Path, scratch: Path, prepare: Callable[[Path], Mapping[str, str]]) -> None:
        """``prepare``: called with each root before its instructions; returns variables for commands of the build."""
        self._base, self._context, self._scratch = base, context, scratch
        self._prepare = prepare
        self._ignored = (context / ".dockerignore").read_text(encoding="utf-8")

    def build(self, stages: Sequence[Stage]) -> Path:
        """Build all; the root of the last one."""
        for stage in stages:
            root = self._scratch / stage.name
            root.mkdir()
            subprocess.run(["tar", "-xf", str(self._base), "-C", str(root)], check=True)
            self._play(stage, root)
        return self._scratch / stages[-1].name

    def _play(self, stage: Stage, root: Path) -> None:
        variables: dict[str, str] = {}
        environment = self._prepare(root)
        for each in stage.instructions:
            if each.name in ("ARG", "ENV"):
                pairs = [word.partition("=") for word in shlex.split(each.text)]
                variables |= {name: value for name, _, value in pairs}
            elif each.name == "COPY":
                self._copy(each, root)
            elif each.name == "RUN":
                command = ["chroot", str(root), "/bin/sh", "-c", each.text]
                path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
                done = subprocess.run(
                    command, env={**path, **environment, **variables}, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"line {each.line}: {done.stdout}{done.stderr}"

    def _copy(self, each: Instruction, root: Path) -> None:
        words = each.words
        origin = self._context
        if words[0].startswith("--from="):
            origin = self._scratch / words.pop(0).removeprefix("--from=")
        *sources, target = words
        for source in sources:
            found = sorted(origin.glob(source.lstrip("/")))
            assert found, f"line {each.line}: there is no {source}"
            for path in found:
                name = str(path.relative_to(origin))
                assert origin != self._context or allowed_in_context(self._ignored, name), f"{name} is not sent"
                place = root / target.lstrip("/") / (path.name if target.endswith("/") else "")
                place.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, place, symlinks=True)
                else:
                    shutil.copyfile(path, place)
