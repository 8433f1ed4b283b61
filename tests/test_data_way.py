"""docs/data-way.md names real functions, each step leads to the next, and no reader has to go back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/data-way.md").read_text()
WAYS = ("A publish", "A slot moves", "The death of a session server", "A vote")
MOST_FILES_OF_A_PUBLISH = 12


@dataclass(frozen=True)
class Step:
    """One numbered step: its process (the bold heading above it), its file, its functions, the words of its text."""

    process: str
    file: str
    functions: tuple[str, ...]
    text: str


@cache
def steps(way: str) -> Sequence[Step]:
    section = PAGE.split(f"## {way}\n")[1].split("\n## ")[0]
    found: list[Step] = []
    process = ""
    for block in re.split(r"\n(?=\d+\. |\*\*|\n)", section):
        if block.startswith("**"):
            process = block.strip("*\n ")
        elif match := re.match(r"\d+\. `([\w/]+\.py)`: (.*)", block.strip(), re.DOTALL):
            functions = tuple(re.findall(r"`((?:[A-Z]\w+\.)?[a-z_]\w*)`", match[2]))
            found.append(Step(process, match[1], functions, match[2]))
    return found


@cache
def definitions(file: str) -> dict[str, str]:
    """Every function of a file by qualified name, with its source."""
    source = (ROOT / file).read_text()

    def walk(nodes: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                yield from walk(node.body, f"{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name, ast.get_source_segment(source, node) or ""

    return dict(walk(ast.parse(source).body, ""))


def named(step: Step) -> tuple[str, ...]:
    """The functions of a step without the settings and words that look like one."""
    known = definitions(step.file)
    return tuple(name for name in step.functions if name in known or name[0].isupper())


@pytest.mark.parametrize("way", WAYS)
def test_every_step_names_functions_that_exist(way: str) -> None:
    assert len(steps(way)) >= 4
    for step in steps(way):
        known = definitions(step.file)
        assert named(step), f"{step.file}: no function is named"
        for name in named(step):
            assert name in known, f"{step.file} has no {name}"


@pytest.mark.parametrize("way", WAYS)
def test_within_a_process_no_step_goes_back_to_a_file_that_was_left(way: str) -> None:
    for process in dict.fromkeys(step.process for step in steps(way)):
        files = [step.file for step in steps(way) if step.process == process]
        assert len(files) == len(set(files)), f"{process}: {files}"


@pytest.mark.parametrize("way", WAYS)
def test_each_step_is_reached_from_an_earlier_one_or_by_a_message_that_an_earlier_one_names(way: str) -> None:
    way_steps = steps(way)
    for position, step in enumerate(way_steps[1:], start=1):
        earlier = [one for one in way_steps[:position] if one.process == step.process]
        sources = [definitions(one.file)[name] for one in earlier for name in named(one)]
        own = [name.rpartition(".")[2] for name in named(step)]
        called = any(re.search(rf"\b{re.escape(name)}\b", source) for name in own for source in sources)
        if not earlier:  # another process: a message that the text names reaches it, or the network tells it
            messages = set(re.findall(r"`([A-Z]\w+)`", step.text))
            sent = {word for one in way_steps[:position] for word in re.findall(r"`([A-Z]\w+)`", one.text)}
            called = bool(messages & sent) or not messages
        assert called, f"{way}: nothing before it leads to {step.file} {own}"


def test_a_publish_leads_through_few_files() -> None:
    files = list(dict.fromkeys(step.file for step in steps("A publish")))
    assert files[0] == "client/slotreeve_client/client.py"
    assert files[-1] == "client/slotreeve_client/subscription.py"
    assert len(files) <= MOST_FILES_OF_A_PUBLISH, files
