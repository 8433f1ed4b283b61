"""The walks of CONTRIBUTING.md, done in a copy of the tree: its blocks are applied, its commands are run.

A block's first line names a file. ``diff`` changes an existing one: what stands before must occur in it exactly once.
Any other language is a new file. ``sh`` is run, with the copy's packages before the installed ones.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALK = re.compile(r"<!-- walk: (.+?) -->\n(.*?)(?=<!-- walk: |<!-- end of walks -->)", re.DOTALL)
BLOCK = re.compile(r"^( *)```(\w+)(?: (\S+))?\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "var", "dist")
WALKS = WALK.findall(PAGE)


@dataclass(frozen=True)
class Block:
    """One fenced block of the page."""

    language: str
    file: str
    text: str


def blocks(text: str) -> list[Block]:
    return [Block(m[2], m[3] or "", textwrap.dedent(m[4])) for m in BLOCK.finditer(text)]


def change(before: str, diff: str) -> str:
    """``before`` with the lines of ``diff`` in place of those that it marks with ``-`` or leaves unmarked."""
    lines = [line or " " for line in diff.splitlines()]
    old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    assert before.count(old) == 1, f"these lines occur {before.count(old)} times:\n{old}"
    return before.replace(old, new)


def apply(block: Block, tree: Path) -> None:
    path = tree / block.file
    if block.language == "diff":
        path.write_text(change(path.read_text(encoding="utf-8"), block.text), encoding="utf-8")
    else:
        assert not path.exists(), f"{block.file} is there already"
        path.write_text(block.text, encoding="utf-8")


def run(line: str, tree: Path) -> None:
    program, *arguments = shlex.split(line)
    module = {"pytest": "pytest", "slotreeve": "slotreeve_cli", "ruff": "ruff"}.get(program)
    command = [sys.executable, *(["-m", module] if module else []), *arguments]
    folders = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["dev-mode-dirs"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLOTREEVE", "PYTEST"))}
    environment["PYTHONPATH"] = os.pathsep.join(str(tree / folder) for folder in folders)
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_there_are_the_five_walks_that_the_page_promises() -> None:
    assert len(WALKS) == 5
    assert all({"sh", "diff"} <= {block.language for block in blocks(text)} for _, text in WALKS)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in WALKS])
def test_a_walk_leads_where_it_says(text: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    for block in blocks(text):
        if block.language == "sh":
            for line in block.text.splitlines():
                run(line, tree)
        else:
            apply(block, tree)
    changed = [block.file for block in blocks(text) if block.file.endswith(".py")]
    run(shlex.join(["ruff", "check", *changed]), tree)
    run(shlex.join(["ruff", "format", "--check", *changed]), tree)
    run("python docs/make_pages.py --check", tree)


def test_a_change_needs_its_place_exactly_once() -> None:
    assert change("a\nb\nc\n", " a\n-b\n+B\n") == "a\nB\nc\n"
    with pytest.raises(AssertionError, match="occur 2 times"):
        change("a\na\n", " a\n+b\n")
    with pytest.raises(AssertionError, match="occur 0 times"):
        change("a\n", "-b\n")
