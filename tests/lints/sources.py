"""The files of the tree, each read and parsed once, and what a rule finds in them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from tests.lints.rooms import OTHER_FOLDERS, PACKAGES, ROOT, TOP_FOLDERS

Function = ast.FunctionDef | ast.AsyncFunctionDef
RULES_OF_THE_LINTER = re.compile(r"noqa: [A-Z\d, ]+")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
STARTS_TEXT = (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENCODING, tokenize.COMMENT)


class Finding(NamedTuple):
    """Something that breaks a rule: where, what, and what would be right."""

    place: str
    what: str
    cure: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}; {self.cure}"


class Import(NamedTuple):
    """An imported module, the imported name (empty for ``import module``), and the line."""

    module: str
    name: str
    line: int

    @property
    def top(self) -> str:
        """The package that the module belongs to."""
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Source:
    """A Python module. ``place`` is its path from the top of the tree, ``text`` what it holds."""

    place: str
    text: str

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """Every node of the syntax tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.place)

    @cached_property
    def functions(self) -> Sequence[Function]:
        """All functions and methods."""
        return tuple(node for node in self.nodes if isinstance(node, Function))

    @cached_property
    def classes(self) -> Sequence[ast.ClassDef]:
        """All classes."""
        return tuple(node for node in self.nodes if isinstance(node, ast.ClassDef))

    @cached_property
    def imports(self) -> Sequence[Import]:
        """Everything that the module imports, anywhere in it."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[Import]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, "", node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                yield from (Import(module, alias.name, node.lineno) for alias in node.names)

    @cached_property
    def prose(self) -> str:
        """Comments and docstrings."""
        return "\n".join(self._prose())

    def _prose(self) -> Iterator[str]:
        before = tokenize.ENCODING
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and before in STARTS_TEXT):
                yield RULES_OF_THE_LINTER.sub("", token.string)
            before = token.type

    @property
    def package(self) -> str:
        """The shipped package that the module belongs to; empty for tests, examples and the like."""
        return next((part for part in self.place.split("/") if part in PACKAGES), "")

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.place.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return self.place.rpartition("/")[0]

    def at(self, line: int) -> str:
        """The place of a line."""
        return f"{self.place}:{line}"


@cache
def source(path: Path) -> Source:
    """The module in a file, parsed once."""
    return Source(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


@cache
def below(*folders: str) -> Sequence[Source]:
    """The modules below some folders."""
    return tuple(source(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def product() -> Sequence[Source]:
    """What is shipped."""
    return below(*sorted(f"{room}/{package}" for package, room in PACKAGES.items()))


def everything() -> Sequence[Source]:
    """All modules of the tree."""
    return below(*TOP_FOLDERS, *OTHER_FOLDERS)


def of_package(package: str) -> Sequence[Source]:
    """The modules of one package."""
    return below(f"{PACKAGES[package]}/{package}")


@cache
def pages() -> Sequence[tuple[str, str]]:
    """Place and text of each page, without the targets of its links, which test_docs.py follows."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return [
        (str(path.relative_to(ROOT)), LINK_TARGET.sub("]", path.read_text(encoding="utf-8"))) for path in sorted(found)
    ]
