"""Real names: every module and public class of a Python installation, read from its sources."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from slotreeve.errors import ConfigError
from slotreeve.model.data_info import DataInfo

_PUBLIC_CLASS = re.compile(rb"^class ([A-Za-z]\w*)\s*[(:\[]", re.MULTILINE)


def source_files() -> list[tuple[Path, Path]]:
    """(root, file) of every Python source of this installation: standard library and installed packages, sorted."""
    roots = dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
    found: dict[Path, Path] = {}
    for root in sorted(roots, key=lambda path: len(path.parts)):
        # A root inside another one (site-packages in the library) comes later and claims its files.
        found.update((file, root) for file in root.rglob("*.py"))
    return sorted((root, file) for file, root in found.items())


def names_in(root: Path, file: Path) -> Iterator[str]:
    """The module's dotted name, and one for each of its public classes; nothing where a part of the path could not
    stand in an import statement."""
    parts = list(file.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts or not all(part.isidentifier() for part in parts):
        return
    module = ".".join(parts)
    yield module
    try:
        source = file.read_bytes()
    except OSError:
        return  # it vanished or may not be read: the module's name is still real
    for match in _PUBLIC_CLASS.finditer(source):
        yield f"{module}.{match[1].decode()}"


def names_from(file: Path) -> list[str]:
    """One name a line; blank lines and those that start with ``#`` are left out.

    Raises:
        ConfigError: it cannot be read, holds no name, or a line can be no service's name (which one, and why).
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as UTF-8 text: {error}") from None
    names = {}
    for number, line in enumerate(lines, 1):
        name = line.strip()
        if name and not name.startswith("#"):
            try:
                names[DataInfo.parse(name)] = name
            except ValueError as error:
                raise ConfigError(f"{file}, line {number}: {error}") from None
    if not names:
        raise ConfigError(f"{file}: holds no name; expected one service name a line")
    return list(names.values())
