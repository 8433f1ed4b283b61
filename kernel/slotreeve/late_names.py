"""Names of a package whose modules are imported only once somebody asks for one of them (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def late_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package: each of these names comes from the module that stands beside it.

    A program that only imports a package does not wait for what it may never use: pydantic and pluggy take longer
    to import than the whole client.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get
