"""Rules on lists outside of the modules: what pyproject.toml, constraints.txt and the pages say of the rooms."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from typing import Any

from tests.lints.rooms import FACES, MEASURED, OTHER_FOLDERS, PACKAGES, PLUGINS, ROOT, TOP_FOLDERS
from tests.lints.sources import Finding, of_package

EXAMPLES = (
    "examples/third_party_balancer",
    "examples/registered_app",
    "examples/calling_by_httpx",
    "examples/calling_by_grpc",
)
"""Examples that mypy checks like rooms."""


def pyproject() -> dict[str, Any]:
    """The table of the project."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def differing(where: str, listed: Collection[str], rooms: Collection[str]) -> Iterator[Finding]:
    """What a list has and the rooms have not, and the other way round."""
    for name in sorted({*listed} - {*rooms}):
        yield Finding(where, f"lists {name}", "there is no such room in tests/lints/rooms.py")
    for name in sorted({*rooms} - {*listed}):
        yield Finding(where, f"lacks {name}", "list every room of tests/lints/rooms.py")
    if len(listed) != len({*listed}):
        yield Finding(where, "lists a room twice", "list it once")


def other_lists(project: dict[str, Any], architecture: str) -> Iterator[Finding]:
    """Lists that are not the list of rooms."""
    tools, build = project["tool"], project["tool"]["hatch"]["build"]
    rooms = [*PACKAGES.values()]
    paths = [f"{room}/{package}" for package, room in PACKAGES.items()]
    points = project["project"]["entry-points"]["slotreeve"]
    yield from differing("pyproject.toml: dev-mode-dirs of hatch", build["dev-mode-dirs"], rooms)
    yield from differing("pyproject.toml: packages of the wheel", build["targets"]["wheel"]["packages"], paths)
    yield from differing("pyproject.toml: mypy_path", tools["mypy"]["mypy_path"].split(":"), [*rooms, *EXAMPLES])
    yield from differing("pyproject.toml: files of mypy", tools["mypy"]["files"], [*TOP_FOLDERS, *OTHER_FOLDERS])
    yield from differing(
        "pyproject.toml: packages that are measured", tools["coverage"]["run"]["source_pkgs"], MEASURED
    )
    yield from differing("pyproject.toml: entry points", [*points.values()], [*PLUGINS, *FACES])
    rows = re.findall(r"^\| (`[^|]+`) \|", architecture, re.MULTILINE)
    named = [name.removesuffix("*").removesuffix("/") for row in rows for name in re.findall(r"`([^`]+/\*?)`", row)]
    yield from differing("docs/architecture.md: table of the rooms", named, [*TOP_FOLDERS, "tests"])


def second_versions(project: dict[str, Any]) -> Iterator[Finding]:
    """A version of the distribution that is written down beside the one of the package."""
    if "version" in project["project"] or "version" not in project["project"].get("dynamic", []):
        cure = "declare it dynamic: its place is kernel/slotreeve/__init__.py"
        yield Finding("pyproject.toml", "has a version of its own", cure)


def incomplete_packages() -> Iterator[Finding]:
    """Packages without the mark that they are typed, folders that are no package."""
    for package, room in PACKAGES.items():
        if not (ROOT / room / package / "py.typed").exists():
            yield Finding(f"{room}/{package}", "has no py.typed", "add the empty file")
        for folder in sorted({each.folder for each in of_package(package)}):
            if not (ROOT / folder / "__init__.py").exists():
                yield Finding(folder, "has no __init__.py", "add it, with a docstring")


def odd_pins(constraints: str) -> Iterator[Finding]:
    """Pins that are more than a name and a version."""
    for number, line in enumerate(constraints.splitlines(), 1):
        if not line.startswith("#") and (line.count("==") != 1 or "/" in line.partition("#")[0]):
            yield Finding(f"constraints.txt:{number}", f"has {line}", "pin a name to a version: name==1.2.3")
