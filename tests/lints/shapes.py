"""Rules that keep functions, classes and modules small and legible."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePath

from tests.lanes.lanes import Lane, lane_of, marks
from tests.lints.sources import Finding, Function, Source

MOST_CALLABLES, MOST_ARGUMENTS = 3, 7
MOST_METHODS = 30
"""Methods of a class. One that nears 25 usually has two subjects; this bound only catches a class that nobody has
looked at for long."""
MOST_LINES = 500
"""Lines of a module. One that nears 400 usually has two subjects, too."""
PLANTING = "tests/simulation/planting.py"
SWITCHES = [f"# fmt: {word}" for word in ("skip", "off")]


def arguments(function: Function) -> list[ast.arg]:
    """All arguments but ``self`` and ``cls``."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [argument for argument in every if argument.arg not in ("self", "cls")]


def methods(node: ast.ClassDef) -> int:
    """How many methods a class defines."""
    return sum(isinstance(below, Function) for below in node.body)


def callable_names(source: Source) -> Iterator[str]:
    """Names of a module that stand for a ``Callable``."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if re.match(r"(\w+\.)?Callable\[", ast.unparse(node.value)):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def takes_a_callable(argument: ast.arg, names: Collection[str]) -> bool:
    """Whether the annotation of an argument has a ``Callable`` in it, or one of its other names."""
    return argument.annotation is not None and any(
        (isinstance(node, ast.Name) and node.id in names) or (isinstance(node, ast.Attribute) and node.attr in names)
        for node in ast.walk(argument.annotation)
    )


def commands(source: Source) -> Iterator[str]:
    """Functions that are given to typer: ``app.command(...)(function)`` and decorated ones."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and _is_command(node.func.func):
            yield from (given.id for given in node.args if isinstance(given, ast.Name))
        if isinstance(node, Function):
            decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            if any(_is_command(decorator) for decorator in decorators):
                yield node.name


def _is_command(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in {"command", "callback"}


def too_many_callables(sources: Iterable[Source]) -> Iterator[Finding]:
    """Functions with more than MOST_CALLABLES arguments that are called."""
    sources = list(sources)
    names = {"Callable"}.union(*(callable_names(source) for source in sources))
    for source in sources:
        for function in source.functions:
            given = [argument.arg for argument in arguments(function) if takes_a_callable(argument, names)]
            if len(given) > MOST_CALLABLES:
                what = f"{function.name} takes {len(given)} callables: {', '.join(given)}"
                yield Finding(source.at(function.lineno), what, "hand in one object that has them as methods")


def too_many_arguments(sources: Iterable[Source]) -> Iterator[Finding]:
    """Functions with more than MOST_ARGUMENTS arguments; a command of the cli has one for each option."""
    for source in sources:
        allowed = set(commands(source)) if source.package == "slotreeve_cli" else set()
        for function in source.functions:
            count = len(arguments(function))
            if count > MOST_ARGUMENTS and function.name not in allowed:
                what = f"{function.name} takes {count} arguments"
                yield Finding(source.at(function.lineno), what, "those that travel together are one record")


def too_many_methods(sources: Iterable[Source]) -> Iterator[Finding]:
    """Classes with more than MOST_METHODS methods."""
    for source in sources:
        for node in source.classes:
            if methods(node) > MOST_METHODS:
                what = f"{node.name} has {methods(node)} methods"
                yield Finding(source.at(node.lineno), what, "find its second subject, and give it a class of its own")


def too_long(sources: Iterable[Source]) -> Iterator[Finding]:
    """Modules with more than MOST_LINES lines."""
    for source in sources:
        if (lines := len(source.text.splitlines())) > MOST_LINES:
            yield Finding(source.place, f"{lines} lines", "find its second subject, and give it a module of its own")


def unformatted(sources: Iterable[Source]) -> Iterator[Finding]:
    """Lines that switch the formatter off."""
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            if any(switch in line for switch in SWITCHES):
                yield Finding(source.at(number), "the formatter is switched off", "let it format the line")


def unchecked_patches(sources: Iterable[Source]) -> Iterator[Finding]:
    """Patches of the product whose signature is not compared with that of the original."""
    for source in sources:
        for node in source.nodes:
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "object"
                and isinstance(node.value, ast.Name)
                and node.value.id == "patch"
                and source.place != PLANTING
            ):
                cure = f"use replaced of {PLANTING}, which compares signatures"
                yield Finding(source.at(node.lineno), "patch.object takes any signature", cure)


def tests_of_programs_in_check(sources: Iterable[Source]) -> Iterator[Finding]:
    """Tests that say that they start programs, and whose path says that they do not."""
    for source in sources:
        if lane_of(PurePath(source.place)) is Lane.CHECK and (found := marks(source.tree)):
            cure = "it belongs below a folder real/ or soak/ beside it (tests/lanes/lanes.py)"
            yield Finding(source.place, f"has the mark {', '.join(sorted(found))} in the lane check", cure)


def same_class_names(sources: Iterable[Source]) -> Iterator[Finding]:
    """Classes of one name."""
    where = defaultdict(list)
    for source in sources:
        for node in source.classes:
            where[node.name].append(source.at(node.lineno))
    for name, places in where.items():
        if len(places) > 1:
            yield Finding(places[1], f"{name} is the name of another class, too ({places[0]})", "say how they differ")
