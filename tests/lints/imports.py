"""Rules on who imports whom, and on what is handed in instead of imported."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tests.lints.rooms import (
    EDGE_MODULES,
    EDGES,
    FOUNDATION,
    HANDED_IN,
    KERNEL_LIBRARIES,
    MAY_IMPORT,
    MAY_USE_EDGES,
    ONLY_IN,
    PACKAGES,
    PLUGINS,
    ROOT,
    RUNS_FOR_PEOPLE,
)
from tests.lints.sources import Finding, Import, Source, below, source

CORE_ROLES = ("data", "session", "meta")
SHELLS = {"server.py", "__init__.py", "settings.py"}
EDGES_OF_ELECTIONS = {
    "election_fle": {"election", "connections", "outgoing"},
    "election_mysql": {"election", "sql_election", "sql_table", "connection", "mysql", "postgres"},
}
"""Modules that talk to peers or to a database; all others of an election are its core."""
FRONT_DOOR = {*FOUNDATION, "__future__", "collections", "typing", "pydantic"}
"""What the front door of a plugin may import: it is imported before anybody has chosen the plugin."""
THREADS = {"threads.py", "callback_thread.py"}


def cores() -> list[Source]:
    """Modules that must know no connection: all of a role but its shell, the client's core, the elections' cores."""
    found = [
        each for role in CORE_ROLES for each in below(f"servers/slotreeve_servers/{role}") if each.name not in SHELLS
    ]
    found.append(source(ROOT / "client/slotreeve_client/core.py"))
    for plugin, edges in EDGES_OF_ELECTIONS.items():
        skipped = {f"{edge}.py" for edge in (*edges, "__init__")}
        found += [each for each in below(f"plugins/{plugin}") if each.name not in skipped]
    return found


def named_connections(sources: Iterable[Source]) -> Iterator[Finding]:
    """Places that name ``Connection``."""
    for each in sources:
        for node in each.nodes:
            if (
                (isinstance(node, ast.Name) and node.id == "Connection")
                or (isinstance(node, ast.Attribute) and node.attr == "Connection")
                or (isinstance(node, ast.alias) and node.name == "Connection")
                or (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and re.match(r"Connection\b", node.value)
                )
            ):
                yield Finding(each.at(node.lineno), "a core names Connection", "let its shell hold connections")


def foreign_rooms(sources: Iterable[Source]) -> Iterator[Finding]:
    """Imports from rooms that a room does not stand on, and of libraries that belong to another room."""
    for each in sources:
        for module in each.imports:
            if module.module.startswith("."):
                yield Finding(each.at(module.line), "a relative import hides the room", "import by the whole name")
            if module.top in PACKAGES and module.top not in {each.package, *MAY_IMPORT[each.package]}:
                cure = f"{each.package} may import {', '.join(sorted(MAY_IMPORT[each.package])) or 'nothing of ours'}"
                yield Finding(each.at(module.line), f"imports {module.module}", cure)
            if module.top in ONLY_IN and each.package not in ONLY_IN[module.top]:
                cure = f"only these may: {', '.join(sorted(ONLY_IN[module.top])) or 'tests'}"
                yield Finding(each.at(module.line), f"imports {module.module}", cure)
            if module.top in {*PACKAGES.values()} or module.top in {"plugins", "proving"}:
                yield Finding(each.at(module.line), f"imports the folder {module.top}", "import the package in it")


def foreign_libraries(sources: Iterable[Source]) -> Iterator[Finding]:
    """Imports of the kernel beyond three libraries."""
    for each in sources:
        for module in each.imports:
            if module.top not in sys.stdlib_module_names | KERNEL_LIBRARIES | {"slotreeve"}:
                cure = f"the kernel stands on {', '.join(sorted(KERNEL_LIBRARIES))} alone"
                yield Finding(each.at(module.line), f"imports {module.module}", cure)


def other_roles(sources: Iterable[Source]) -> Iterator[Finding]:
    """Imports of one role's modules by another, or by what they share."""
    for each in sources:
        role = (*each.folder.split("/"), "", "")[2]
        for module in each.imports:
            parts = module.module.split(".")
            if role not in {*CORE_ROLES, "node"} or parts[0] != "slotreeve_servers" or len(parts) == 1:
                continue
            if parts[1] not in {role, "node", "settings"}:
                yield Finding(each.at(module.line), f"imports {module.module}", "the roles share node/ only")


def heavy_front_doors(plugins: Collection[str] = tuple(PLUGINS)) -> Iterator[Finding]:
    """Imports at the top of a plugin's front door that cost something before anybody chose the plugin."""
    for package in plugins:
        room = ROOT / PACKAGES[package]
        door = source(room / package / "__init__.py")
        top_level = {node.lineno for node in door.tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
        for module in door.imports:
            if module.line not in top_level:
                continue
            if module.top not in {package, *FRONT_DOOR}:
                cure = "import it in the function that builds the plugin"
                yield Finding(door.at(module.line), f"imports {module.module} before anybody chose the plugin", cure)
            if module.top == package:
                yield from _libraries_of(
                    door, module, source(room / Path(*module.module.split(".")).with_suffix(".py"))
                )


def _libraries_of(door: Source, through: Import, module: Source) -> Iterator[Finding]:
    if used := {each.top for each in module.imports} & ONLY_IN.keys():
        what = f"imports {through.module}, which imports {', '.join(sorted(used))}"
        yield Finding(door.at(through.line), what, "import it in the function that builds the plugin")


def taken_by_itself(sources: Iterable[Source]) -> Iterator[Finding]:
    """Calls of clocks and chance, imports of sockets and threads, by modules that are given them."""
    for each in sources:
        if each.place in EDGES or each.package in RUNS_FOR_PEOPLE:
            continue
        for node in each.nodes:
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.attr in HANDED_IN.get(node.value.id, set())
            ):
                what = f"uses {node.value.id}.{node.attr}"
                yield Finding(each.at(node.lineno), what, "let clock and rng be handed in")
        if each.package not in MAY_USE_EDGES and each.name not in THREADS:
            for module in each.imports:
                if module.top in EDGE_MODULES:
                    cure = "let transport and storage be handed in"
                    yield Finding(each.at(module.line), f"imports {module.module}", cure)
