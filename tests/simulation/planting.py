"""How bugs are planted: each is a small patch of one method, with the signature of what it replaces."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pkgutil import resolve_name
from typing import Any
from unittest.mock import PropertyMock, patch

Patch = AbstractContextManager[Any]


class WrongPatch(Exception):
    """A patch does not fit what it replaces, so that it would only raise where the product calls it."""


def replaced(owner: object | str, name: str, new: object) -> Patch:
    """Within: ``new`` stands in the place of an attribute of a class, a module or an object, or of a module by name.

    Raises:
        WrongPatch: there is no such attribute, or ``new`` has another signature, or is another kind of thing. Names of
            arguments may have an underscore more.
    """
    if isinstance(owner, str):
        owner = resolve_name(owner)
    missing = object()
    is_shared = inspect.isclass(owner) or inspect.ismodule(owner)
    original = inspect.getattr_static(owner, name, missing) if is_shared else getattr(owner, name, missing)
    where = f"{getattr(owner, '__qualname__', None) or getattr(owner, '__name__', repr(owner))}.{name}"
    if original is missing:
        raise WrongPatch(f"{where}: there is no such attribute")
    if (shown := _shape(original)) != (given := _shape(new)):
        raise WrongPatch(f"{where}: the patch is {given}, the original {shown}")
    return patch.object(owner, name, new)


def returning(owner: object, name: str, result: object = None) -> Patch:
    """Within: a function does nothing but return ``result``. It takes what the original takes."""

    def stub(*_given: object, **_named: object) -> object:
        return result

    vars(stub)["__signature__"] = inspect.signature(inspect.getattr_static(owner, name))
    return replaced(owner, name, stub)


def _shape(thing: object) -> str:
    """The kind of a thing and, of a function, what it takes, in a form to compare."""
    if isinstance(thing, property | PropertyMock):
        return "a property"
    if isinstance(thing, staticmethod | classmethod):
        return f"{type(thing).__name__} {_shape(thing.__func__)}"
    if not inspect.isroutine(thing):
        return f"a value of {type(thing).__name__}"
    taken = []
    for argument in inspect.signature(thing).parameters.values():
        default = "" if argument.default is argument.empty else " = ..."
        taken.append(f"{argument.kind.description} {argument.name.lstrip('_')}{default}")
    return f"{'async ' if inspect.iscoroutinefunction(thing) else ''}({', '.join(taken)})"


@dataclasses.dataclass(frozen=True)
class PlantedBug:
    """A bug that can be planted.

    Attributes:
        name: its key in :data:`BUGS`. ``what``: what the product does wrong then.
        scenario: the built-in scenario that finds it soonest. ``first``: the first seed to try.
        make: makes the patch.
        raises: why it counts as found if the product logs an exception; empty if only a broken invariant counts.
    """

    name: str
    what: str
    scenario: str
    first: int
    make: Callable[[], Patch]
    raises: str = ""


BUGS: dict[str, PlantedBug] = {}


def bug(
    what: str, scenario: str = "mixed", first: int = 0, *, raises: str = ""
) -> Callable[[Callable[[], Patch]], Callable[[], Patch]]:
    """Add the bug that the function makes."""

    def add(make: Callable[[], Patch]) -> Callable[[], Patch]:
        name = make.__name__.lstrip("_")
        BUGS[name] = PlantedBug(name, what, scenario, first, make, raises)
        return make

    return add


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Within: the product has this bug, in this process.

    Raises:
        KeyError: there is no such bug in :data:`BUGS`.
    """
    with BUGS[name].make():
        yield


@contextmanager
def both(*patches: Patch) -> Iterator[None]:
    """Several patches as one."""
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield
