"""``slotreeve plugins new``: a whole package for a plugin of one's own, from the templates beside this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

MOST_LETTERS = 24
"""Letters of a name, at most: lines of the package that have it stay below 120 columns."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
PACKAGE_PREFIX = "slotreeve_"
RESERVED = {"use"}
"""Keys of a port's table in the configuration."""


class PortName(StrEnum):
    """The ports, as :class:`slotreeve.offers.Port` has them; importing those takes longer than the help may."""

    ELECTION = "election"
    SLOT_FUNCTION = "slot_function"
    ASSIGNER = "assigner"
    BALANCER = "balancer"
    TRANSPORT = "transport"
    FACE = "face"


@dataclass(frozen=True)
class SamplePlugin:
    """What the sample plugin of a port does.

    Attributes:
        summary: its line in ``slotreeve plugins list``.
        built: how its class is called.
    """

    summary: str
    built: str = "(options)"


SAMPLES = {
    PortName.ASSIGNER: SamplePlugin("promotes a follower, else takes the servers that hold the fewest slots"),
    PortName.BALANCER: SamplePlugin("moves slots from servers that have more to servers that have less"),
    PortName.SLOT_FUNCTION: SamplePlugin("BLAKE2b of the key, modulo the number of slots", "(options, context.slots)"),
    PortName.FACE: SamplePlugin("services and their instances as JSON", "(options, context)"),
    PortName.ELECTION: SamplePlugin("another election, with turns", ".build(options, context)"),
    PortName.TRANSPORT: SamplePlugin("another transport, with counts by kind of message", ".build(options, context)"),
}


def new(
    port: Annotated[PortName, typer.Argument(help="The port that the plugin fills.", metavar="PORT")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that is empty, or not there yet.")],
    name: Annotated[
        str, typer.Option(help="Name of the plugin in configurations, in lower_snake; by default that of DIR.")
    ] = "",
) -> None:
    """Write a package with a plugin that works: options, an implementation, tests with the contract of its port. PORT
    is election, slot_function, assigner, balancer, transport or face. Exit code 2 if DIR is not empty, or the name is
    taken."""
    chosen = name or directory.resolve().name.lower().replace("-", "_").removeprefix(PACKAGE_PREFIX)
    check_name(port, chosen)
    try:
        written = _write(directory, package_of(port, chosen))
    except OSError as error:
        raise typer.BadParameter(f"{directory}: {error.strerror}") from None
    typer.echo(f"{directory}: the {in_words(port)} {chosen}, in {written} files; to go on:\n")
    for line in (f"pip install -e '{directory}[dev]'", f"pytest {directory}", f"slotreeve plugins check {chosen}"):
        typer.echo(f"  {line}")


def check_name(port: PortName, name: str) -> None:
    """Refuse what would not work as a name.

    Raises:
        typer.BadParameter: it is not lower_snake, is too long, or is taken by an installed plugin or package.
    """
    from importlib.util import find_spec

    from slotreeve.catalogue import Catalogue
    from slotreeve.offers import Port

    if not NAME.fullmatch(name) or len(name) > MOST_LETTERS or name in RESERVED:
        raise typer.BadParameter(
            f"{name!r} is no good name for a plugin; expected lower_snake with at most {MOST_LETTERS} letters, such as "
            "round_table: --name round_table"
        )
    if name in Catalogue.load().names(Port(port)):
        raise typer.BadParameter(f"there is a {in_words(port)} {name} already (slotreeve plugins list); choose another")
    if find_spec(PACKAGE_PREFIX + name) is not None:
        raise typer.BadParameter(f"there is a package {PACKAGE_PREFIX}{name} already; choose another name")


def in_words(port: PortName) -> str:
    """A port as people say it."""
    return port.replace("_", " ")


def package_of(port: PortName, name: str) -> dict[str, str]:
    """The text of each file of the plugin ``name``, by its path. Pure, but for reading the templates."""
    sample, package = SAMPLES[port], PACKAGE_PREFIX + name
    class_name, protocol = _in_camels(name.removesuffix(f"_{port}")), _in_camels(port)
    words = {
        "name": name,
        "package": package,
        "distribution": package.replace("_", "-"),
        "class_name": class_name,
        "port": str(port),
        "what": in_words(port),
        "protocol": protocol,
        "hook": f"slotreeve_{port}s",
        "summary": sample.summary,
        "build": f"{class_name}{protocol}{sample.built}",
        "use": f'["rest", "{name}"]' if port is PortName.FACE else f'"{name}"',
    }
    words["about"] = _rendered(f"{port}/about", words).strip()
    places = {
        "pyproject.toml": "common/pyproject.toml",
        "README.md": "common/README.md",
        f"{package}/__init__.py": "common/__init__.py",
        f"{package}/options.py": f"{port}/options.py",
        f"{package}/{port}.py": f"{port}/implementation.py",
        f"tests/test_{name}.py": f"{port}/test.py",
    }
    return {path: _rendered(template, words) for path, template in places.items()} | {f"{package}/py.typed": ""}


def _in_camels(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _rendered(template: str, words: Mapping[str, str]) -> str:
    place = files("slotreeve_cli") / "templates" / f"{template}.template"
    return Template(place.read_text(encoding="utf-8")).substitute(words)


def _write(directory: Path, package: Mapping[str, str]) -> int:
    """Write the files; how many they are. Raises typer.BadParameter: the directory is none, or not empty; OSError."""
    if directory.exists() and not directory.is_dir():
        raise typer.BadParameter(f"{directory} is no directory")
    if directory.exists() and any(directory.iterdir()):
        raise typer.BadParameter(f"{directory} is not empty; name a directory that is not there yet")
    for path, text in package.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return len(package)
