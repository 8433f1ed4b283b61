"""Rules that keep the rooms small and legible, read from the syntax trees.

Who may import whom stands in ``test_rooms.py``; docs/architecture.md explains both.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = (
    *("kernel", "protocol", "machines", "events", "plugins", "servers", "client", "conformance", "simulator"),
    *("chaos", "harness", "bench", "demo", "spark", "cli", "console", "gateway", "faces"),
)
"""Folders that hold what is shipped."""
OTHERS = ("benchmarks", "examples", "docs", "tests")
MOST_CALLABLES, MOST_ARGUMENTS, MOST_METHODS = 3, 7, 25
SMELL_LINES = 500
"""A module that nears 400 lines usually has two subjects. The rules on methods and arguments are what counts; this
one only catches a module that nobody has looked at for long."""
CORE_ROLES = ("data", "session", "meta")
EDGES_OF_ELECTIONS = {
    "election_fle": {"election", "connections", "outgoing"},
    "election_mysql": {"election", "sql_election", "sql_table", "connection", "mysql", "postgres"},
}
"""Modules that talk to peers or to a database; all others of an election are its core."""
TESTED_ROOMS = ("kernel", "protocol", "machines", "events", "servers", "client")
COMMANDS = ROOT / "cli"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def sources(*folders: str) -> tuple[Path, ...]:
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def arguments(function: Function) -> list[ast.arg]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [argument for argument in every if argument.arg not in ("self", "cls")]


@cache
def callable_names(path: Path) -> frozenset[str]:
    """``Callable`` and the aliases of this module that stand for one."""
    found = {"Callable"}
    for node in tree(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if re.match(r"(\w+\.)?Callable\[", ast.unparse(node.value)):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(found)


@cache
def callable_aliases() -> frozenset[str]:
    return frozenset().union(*(callable_names(path) for path in sources(*PRODUCT, *OTHERS)))


def takes_a_callable(argument: ast.arg) -> bool:
    if argument.annotation is None:
        return False
    return any(
        (isinstance(node, ast.Name) and node.id in callable_aliases())
        or (isinstance(node, ast.Attribute) and node.attr == "Callable")
        for node in ast.walk(argument.annotation)
    )


@cache
def registered_commands() -> frozenset[str]:
    """Functions of the cli that are given to typer: ``app.command(...)(function)`` and decorated ones."""
    found = set()
    for path in sources("cli"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and is_command(node.func.func):
                found |= {f"{place(path)}:{a.id}" for a in node.args if isinstance(a, ast.Name)}
            if isinstance(node, Function):
                decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
                if any(is_command(decorator) for decorator in decorators):
                    found.add(f"{place(path)}:{node.name}")
    return frozenset(found)


def is_command(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in {"command", "callback"}


def class_methods(path: Path) -> Iterator[tuple[ast.ClassDef, int]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef):
            yield node, sum(isinstance(below, Function) for below in node.body)


def imports(path: Path) -> Iterator[tuple[str, str, int]]:
    """Module, name (empty for ``import module``) and line of everything that ``path`` imports."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name, node.lineno) for alias in node.names)


def cores() -> list[Path]:
    """Modules that must know no connection: all of a role but its shell, the client's core, the elections' cores."""
    found = [
        path
        for role in CORE_ROLES
        for path in sources(f"servers/slotreeve_servers/{role}")
        if path.name not in {"server.py", "__init__.py", "settings.py"}
    ]
    found.append(ROOT / "client/slotreeve_client/core.py")
    for plugin, edges in EDGES_OF_ELECTIONS.items():
        found += [path for path in sources(f"plugins/{plugin}") if path.stem not in {*edges, "__init__"}]
    return found


@pytest.mark.parametrize("path", sources("kernel"), ids=place)
def test_the_kernel_imports_nothing_of_ours(path: Path) -> None:
    foreign = [f"{line}: {module}" for module, _, line in imports(path) if module.startswith("slotreeve_")]
    assert not foreign


@pytest.mark.parametrize("path", cores(), ids=place)
def test_a_core_names_no_connection(path: Path) -> None:
    named = [
        f"{place(path)}:{node.lineno}"
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Name) and node.id == "Connection")
        or (isinstance(node, ast.Attribute) and node.attr == "Connection")
        or (isinstance(node, ast.alias) and node.name == "Connection")
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"Connection\b", node.value))
    ]
    assert not named, f"a core names Connection: {', '.join(named)}"


@pytest.mark.parametrize("path", sources(*PRODUCT, *OTHERS), ids=place)
def test_no_function_takes_more_than_three_callables(path: Path) -> None:
    for function in functions(path):
        given = [argument.arg for argument in arguments(function) if takes_a_callable(argument)]
        assert len(given) <= MOST_CALLABLES, f"{place(path)}:{function.lineno} {function.name} takes {given}"


@pytest.mark.parametrize("path", sources(*PRODUCT, *OTHERS), ids=place)
def test_no_function_takes_more_than_seven_arguments(path: Path) -> None:
    commands = registered_commands() if path.is_relative_to(COMMANDS) else frozenset()
    for function in functions(path):
        count = len(arguments(function))
        if f"{place(path)}:{function.name}" not in commands:
            assert count <= MOST_ARGUMENTS, f"{place(path)}:{function.lineno} {function.name} takes {count}"


@pytest.mark.parametrize("path", sources(*PRODUCT, *OTHERS), ids=place)
def test_no_class_has_more_than_twenty_five_methods(path: Path) -> None:
    for node, count in class_methods(path):
        assert count <= MOST_METHODS, f"{place(path)}:{node.lineno} {node.name} has {count}"


@pytest.mark.parametrize("path", sources(*PRODUCT, *OTHERS), ids=place)
def test_the_formatter_is_never_switched_off(path: Path) -> None:
    marks = [f"# fmt: {word}" for word in ("skip", "off")]
    lines = [n for n, line in enumerate(path.read_text().splitlines(), 1) if any(mark in line for mark in marks)]
    assert not lines, f"{place(path)}, lines {lines}"


@pytest.mark.parametrize("path", sources(*PRODUCT), ids=place)
def test_no_module_is_too_long_to_have_one_subject(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= SMELL_LINES


def test_class_names_are_unique_over_the_product() -> None:
    where = defaultdict(list)
    for path in sources(*PRODUCT):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(f"{place(path)}:{node.lineno}")
    assert {name: places for name, places in where.items() if len(places) > 1} == {}


def module_name(path: Path) -> str:
    """``kernel/slotreeve/model/slots.py`` is ``slotreeve.model.slots``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    first = next(i for i, part in enumerate(parts) if part.startswith("slotreeve"))
    return ".".join(parts[first:])


@cache
def imported_by_tests_of(room: str) -> frozenset[str]:
    found = set()
    for path in sources(f"tests/{room}"):
        for module, name, _ in imports(path):
            found |= {module, f"{module}.{name}" if name else module}
    return frozenset(found)


@cache
def reexported_from(package: str) -> dict[str, str]:
    """Names that ``package``'s ``__init__`` imports from modules below it, with the module each comes from."""
    front = next(path for path in sources(*TESTED_ROOMS) if module_name(path) == f"{package}.__init__")
    return {name: module for module, name, _ in imports(front) if module.startswith(f"{package}.")}


@cache
def imported_modules(room: str) -> frozenset[str]:
    """What the tests of ``room`` import; ``from slotreeve import Draft`` counts for the module that defines it."""
    named = imported_by_tests_of(room)
    packages = {
        module_name(path).removesuffix(".__init__") for path in sources(*TESTED_ROOMS) if path.name == "__init__.py"
    }
    through = {
        reexported_from(package)[name]
        for package, _, name in (whole.rpartition(".") for whole in named)
        if package in packages and name in reexported_from(package)
    }
    return named | through


def only_declares(path: Path) -> bool:
    """No function in it has a body: protocols, tables of settings, messages and re-exports cannot be wrong alone."""

    def has_body(function: Function) -> bool:
        return any(not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)) for line in function.body)

    return not any(has_body(function) for function in functions(path))


@pytest.mark.parametrize(
    ("room", "path"),
    [(room, path) for room in TESTED_ROOMS for path in sources(room) if not only_declares(path)],
    ids=lambda value: value if isinstance(value, str) else place(value),
)
def test_a_test_of_the_room_imports_the_module(room: str, path: Path) -> None:
    if module_name(path) not in imported_modules(room):
        pytest.fail(f"no test in tests/{room} imports {module_name(path)}")


def test_the_rules_see_what_they_forbid(tmp_path: Path) -> None:
    """The helpers count what they should: a rule that cannot fail would be no rule."""
    bad = tmp_path / "bad.py"
    bad.write_text(
        "class Big:\n"
        + "".join(f"    def m{n}(self): ...\n" for n in range(26))
        + "def many(a, b, c, d, e, f, g, h, *, i): ...\n"
        + "def calls(a: Callable[[], None], b: Callable[[], None] | None, c: int): ...\n"
    )
    assert [(node.name, count) for node, count in class_methods(bad)] == [("Big", 26)]
    by_name = {function.name: function for function in functions(bad)}
    assert len(arguments(by_name["many"])) == 9
    assert len(arguments(by_name["m0"])) == 0
    assert sum(takes_a_callable(argument) for argument in arguments(by_name["calls"])) == 2
