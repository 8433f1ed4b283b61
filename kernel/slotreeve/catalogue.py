"""The catalogue: the installed plugins and their offers, from which the configuration chooses by name.

It does not use pluggy's loader, which skips a second entry point of the same name without a message and stops at the
first distribution that cannot be imported. A broken plugin stops a start only if the configuration chooses it.
"""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy
from pydantic import ValidationError

from slotreeve import hookspecs
from slotreeve.errors import PluginError, SlotreeveError
from slotreeve.offers import API_VERSION, Offer, Options, Port
from slotreeve.ports import Context

ENTRY_POINT_GROUP = "slotreeve"
log = logging.getLogger("slotreeve.catalogue")

_OFFERING_HOOKS: dict[Port, str] = {
    Port.ELECTION: "slotreeve_elections",
    Port.SLOT_FUNCTION: "slotreeve_slot_functions",
    Port.ASSIGNER: "slotreeve_assigners",
    Port.BALANCER: "slotreeve_balancers",
    Port.TRANSPORT: "slotreeve_transports",
    Port.FACE: "slotreeve_faces",
}

LONGEST_SHOWN = 200
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True)
class Listed:
    """An offer and its source (``distribution version``)."""

    port: Port
    offer: Offer
    source: str


@dataclass(frozen=True)
class Broken:
    """A plugin that is installed but cannot be used, and the reason."""

    plugin: str
    source: str
    reason: str


@dataclass
class Catalogue:
    """All installed plugins. Make one with :meth:`load`; importing this module loads nothing."""

    manager: pluggy.PluginManager
    listed: list[Listed] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)

    @classmethod
    def load(cls, found: Iterable[EntryPoint] | None = None) -> Catalogue:
        """Import the entry points of the group ``slotreeve`` of every distribution and collect their offers.

        Raises:
            PluginError: two offers of one port have the same name.
        """
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        catalogue = cls(manager)
        points = entry_points(group=ENTRY_POINT_GROUP) if found is None else found
        for source, point in sorted(_with_sources(points), key=lambda pair: (pair[0], pair[1].name, pair[1].value)):
            catalogue._import(point, source)
        catalogue._refuse_duplicates()
        return catalogue

    def _import(self, point: EntryPoint, source: str) -> None:
        name = f"{source}:{point.name}"
        try:
            plugin = point.load()
            self.manager.register(plugin, name=name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a third party's import may raise anything
            self.broken.append(Broken(point.name, source, f"does not import: {type(error).__name__}: {error}"))
            return
        try:
            self.manager.check_pending()
            offers = self._offers_of(name, source)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
            self.manager.unregister(name=name)
            self.broken.append(Broken(point.name, source, _unknown_hook(error) or f"{type(error).__name__}: {error}"))
            return
        self.listed.extend(offers)

    def _offers_of(self, plugin_name: str, source: str) -> list[Listed]:
        collected: list[Listed] = []
        for port, hook in _OFFERING_HOOKS.items():
            for implementation in getattr(self.manager.hook, hook).get_hookimpls():
                if implementation.plugin_name != plugin_name:
                    continue
                for offer in implementation.function():
                    if not isinstance(offer, Offer):
                        raise PluginError(f"{hook} returned {offer!r}, which is not an Offer")
                    if not isinstance(offer.name, str) or not issubclass(offer.options, Options):
                        raise PluginError(f"{hook} returned {offer!r}; its name must be a text, its options of Options")
                    if not _is_version(offer.api_version):
                        raise PluginError(f"{hook} returned {offer!r}; its api_version must be two whole numbers")
                    collected.append(Listed(port, offer, source))
        return collected

    def _refuse_duplicates(self) -> None:
        seen: dict[tuple[Port, str], str] = {}
        for entry in self.listed:
            key = (entry.port, entry.offer.name)
            if key in seen:
                raise PluginError(
                    f"two plugins offer the {entry.port} {entry.offer.name!r}: one from {seen[key]}, one from "
                    f"{entry.source}; uninstall one of them"
                )
            seen[key] = entry.source

    def names(self, port: Port) -> list[str]:
        """Names of the usable offers of a port, sorted."""
        return sorted(entry.offer.name for entry in self.listed if entry.port is port)

    def find(self, port: Port, name: str, where: str = "") -> Listed:
        """The offer called ``name``.

        ``where`` is the origin of the name (file and key), for the message.

        Raises:
            PluginError: there is no such offer (the message lists what there is and the nearest match), or its API
                version does not fit.
        """
        place = f"{where}: " if where else ""
        for entry in self.listed:
            if entry.port is port and entry.offer.name == name:
                major, minor = entry.offer.api_version
                if major != API_VERSION[0] or minor > API_VERSION[1]:
                    raise PluginError(
                        f"{place}the {port} {name!r} from {entry.source} was written for plugin API {major}.{minor}; "
                        f"this is {API_VERSION[0]}.{API_VERSION[1]}"
                    )
                return entry
        available = self.names(port)
        message = f"{place}there is no {port} {name!r}; available: {', '.join(available) or 'none'}"
        if nearest := difflib.get_close_matches(name, available, n=1):
            message += f"; did you mean {nearest[0]!r}?"
        for broken in self.broken:
            message += f"; plugin {broken.plugin!r} of {broken.source} is broken: {broken.reason}"
        raise PluginError(message)

    def options(
        self, entry: Listed, table: Mapping[str, object], where: Callable[[str], str] = lambda key: key
    ) -> Options:
        """Validate a plugin's table of settings. ``where`` returns a key with its origin, for the message.

        Raises:
            PluginError: keys are unknown or values do not validate; the message names all of them.
        """
        try:
            return entry.offer.options.model_validate(dict(table))
        except ValidationError as error:
            problems = explain_validation(error, entry.offer.options, where)
            raise PluginError(f"options of the {entry.port} {entry.offer.name!r}: {problems}") from None
        except Exception as error:  # the check of a third party may raise anything; its text may hold a secret
            raise PluginError(
                f"options of the {entry.port} {entry.offer.name!r} from {entry.source}: their check raised "
                f"{type(error).__name__}; it should raise ValueError"
            ) from error

    def build(self, entry: Listed, options: Options, context: Context) -> object:
        """Build the implementation and check it against the port's Protocol.

        Raises:
            PluginError: ``build`` raised an error that is no SlotreeveError, or the implementation lacks a method.
            SlotreeveError: raised by ``build``.
        """
        try:
            built = entry.offer.build(options, context)
        except SlotreeveError:
            raise
        except Exception as error:
            raise PluginError(
                f"the {entry.port} {entry.offer.name!r} from {entry.source} failed to build: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(built, entry.port.protocol):
            lacking = [n for n in _members(entry.port.protocol) if not hasattr(built, n)]
            raise PluginError(
                f"the {entry.port} {entry.offer.name!r} from {entry.source} built a {type(built).__name__}, which "
                f"lacks {', '.join(lacking)} of {entry.port.protocol.__name__}"
            )
        return built

    def notify(self, hook: str, **arguments: object) -> None:
        """Call an observing hook of every plugin. An exception in one is logged; the others are called nevertheless."""
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            try:
                implementation.function(*(arguments[name] for name in implementation.argnames))
            except Exception:
                log.exception("hook %s of plugin %s failed", hook, implementation.plugin_name)


# Loading takes 20 ms and blocks the event loop, so a process that makes many clients does it once.
_installed = functools.cache(Catalogue.load)


def build_plugin(
    port: Port, name: str, context: Context, options: Mapping[str, object] | None = None, where: str = ""
) -> object:
    """Build the installed plugin ``name`` of ``port``, for a program that has no configuration. ``where`` is the origin
    of the name, for the message.

    Raises:
        PluginError: there is no such plugin, its options do not validate, or it cannot be built.
    """
    catalogue = _installed()
    entry = catalogue.find(port, name, where)
    return catalogue.build(entry, catalogue.options(entry, options or {}), context)


def explain_validation(error: ValidationError, model: type[Any], where: Callable[[str], str]) -> str:
    """A pydantic error as one line: each wrong key with its origin, what is wrong, and what would be right."""
    parts = []
    for problem in error.errors(include_url=False):
        path = ".".join(str(step) for step in problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = _fields_at(model, problem["loc"][:-1])
            text = f"unknown key {problem['loc'][-1]!r}"
            nearest = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
            text += f"; did you mean {nearest[0]!r}?" if nearest else f"; known: {', '.join(known)}"
        else:
            given = problem["input"]
            # The message may end up in a log, so it repeats no secret, and no table, which may hold one.
            shown = isinstance(given, str | int | float | bool) and not _is_secret(model, problem["loc"])
            is_table = isinstance(given, str) and given[:1] in ("{", "[")
            text = f"{problem['msg']} (got {shortened(given)})" if shown and not is_table else problem["msg"]
        parts.append(f"{where(path)}: {text}")
    return "; ".join(parts)


def shortened(value: object) -> str:
    """A value for a message."""
    shown = repr(value)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}..."


def _is_version(given: object) -> bool:
    return isinstance(given, tuple) and [type(number) for number in given] == [int, int]


def _is_secret(model: type[Any], path: Sequence[int | str]) -> bool:
    for step in path[:-1]:
        info = getattr(model, "model_fields", {}).get(str(step))
        model = info.annotation if info is not None else object
    info = getattr(model, "model_fields", {}).get(str(path[-1])) if path else None
    return info is not None and "Secret" in str(info.annotation)


def _fields_at(model: type[Any], path: Iterable[int | str]) -> list[str]:
    for step in path:
        info = getattr(model, "model_fields", {}).get(str(step))
        if info is None or not hasattr(info.annotation, "model_fields"):
            return []
        model = info.annotation
    return sorted(getattr(model, "model_fields", {}))


def _with_sources(points: Iterable[EntryPoint]) -> list[tuple[str, EntryPoint]]:
    """The entry points with their distribution and its version. Each use of ``name`` and ``version`` reads the file of
    metadata anew, so they are used once for each distribution."""
    known: dict[int, str] = {}
    found = []
    for point in points:
        dist = point.dist
        if dist is None:
            found.append(("unknown distribution", point))
            continue
        if id(dist) not in known:
            known[id(dist)] = f"{dist.name} {dist.version}"
        found.append((known[id(dist)], point))
    return found


def _unknown_hook(error: BaseException) -> str | None:
    """The message for an error of ``check_pending``; None for any other error."""
    text = str(error)
    if not isinstance(error, pluggy.PluginValidationError) or "unknown hook" not in text:
        return None
    name = text.split("'")[1]
    known = [n for n in dir(hookspecs) if n.startswith("slotreeve_")]
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"implements the unknown hook {name!r}; " + (
        f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
    )


def _members(protocol: type) -> list[str]:
    return sorted(n for n in dir(protocol) if not n.startswith("_"))
