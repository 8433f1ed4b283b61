"""The bounds of the product, made small for a run: few clients with few records reach no larger ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType


def bound(name: str) -> tuple[ModuleType, str, int]:
    """The module, the name in it, and the value of a bound such as ``slotreeve_servers.session.push.push.HISTORY``.

    Raises:
        ValueError: there is no such number.
    """
    path, _, constant = name.rpartition(".")
    try:
        module = import_module(path) if path.startswith("slotreeve_") else None
    except ImportError:
        module = None
    if module is None:
        raise ValueError(f"{name}: the product has no module {path!r}")
    value = vars(module).get(constant)
    if not constant.isupper() or not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name}: {path} has no whole number of this name")
    return module, constant, value


@contextmanager
def changed(bounds: Mapping[str, int]) -> Iterator[None]:
    """Set these bounds for all that runs in this process, and put them back at the end.

    A module that has imported a number from another one has a number of its own: ``bounds`` names it once for each of
    the two modules.

    Raises:
        ValueError: there is no such number.
    """
    with ExitStack() as before:
        for name, value in bounds.items():
            module, constant, former = bound(name)
            before.callback(setattr, module, constant, former)
            setattr(module, constant, value)
        yield
