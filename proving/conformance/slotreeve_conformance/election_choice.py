"""From ``pytest --election`` options to back-ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import pytest
from slotreeve.configuration import read_value
from slotreeve.errors import SlotreeveError

from slotreeve_conformance.election_backend import ElectionBackend, InstalledBackend

REALTIME_CONTEST = (5, 6)
"""Number of nodes and rounds on real time, where each change of leader takes seconds."""


@dataclass(frozen=True)
class Choice:
    """An election that the command line names.

    Attributes:
        kind: class of its back-end.
        attributes: attributes of the back-end that the command line sets.
        options: options of the election; they override the back-end's.
    """

    name: str
    kind: type[ElectionBackend]
    attributes: Mapping[str, object]
    options: Mapping[str, object]

    def backend(self) -> ElectionBackend:
        """A new instance, for one scenario."""
        backend = self.kind()
        for attribute, value in self.attributes.items():
            setattr(backend, attribute, value)
        if isinstance(backend, InstalledBackend):
            backend.options = {**backend.options, **self.options}
        return backend


def choices(config: pytest.Config) -> list[Choice]:
    """The elections to test, in the order in which they were named.

    Raises:
        pytest.UsageError: an election is not installed, its options do not validate, or there is no such back-end
        class.
    """
    names: list[str] = config.getoption("election")
    backend: str = config.getoption("election_backend")
    return [_choice(config, name, _backend_class(backend)) for name in names]


def _choice(config: pytest.Config, name: str, kind: type[ElectionBackend]) -> Choice:
    attributes: dict[str, object] = {"name": name}
    options = _options(config.getoption("election_option"), config.getoption("election"), name)
    if kind is InstalledBackend:  # other back-ends may know their options only when they run
        try:
            kind.check(name, options)
        except SlotreeveError as error:
            raise pytest.UsageError(f"--election={name}: {error}") from None
    if config.getoption("election_real_time"):
        attributes["realtime"] = True
        attributes["rivals"], attributes["rounds"] = REALTIME_CONTEST
        attributes["storms"] = 1
    for attribute in ("rivals", "rounds", "storms", "first_storm"):
        given = config.getoption(f"election_{attribute}")
        if given is not None:
            attributes[attribute] = given
    return Choice(name, kind, attributes, options)


def _options(settings: Sequence[str], names: Sequence[str], name: str) -> dict[str, object]:
    """The settings ``key=value``, which are for all elections, and ``name.key=value`` for this one."""
    options: dict[str, object] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise pytest.UsageError(f"--election-option {setting}: expected key=value")
        prefix, dot, rest = key.partition(".")
        if not dot:
            options[key] = read_value(value)
        elif prefix == name:
            options[rest] = read_value(value)
        elif prefix not in names:
            raise pytest.UsageError(f"--election-option {setting}: {prefix!r} is not one of {', '.join(names)}")
    return options


def _backend_class(place: str) -> type[ElectionBackend]:
    module, _, name = place.partition(":")
    try:
        kind: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"--election-backend {place}: {error}; expected module:Class") from None
    if not (isinstance(kind, type) and issubclass(kind, ElectionBackend)):
        raise pytest.UsageError(f"--election-backend {place}: is not an ElectionBackend")
    return kind
