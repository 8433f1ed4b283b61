"""Which providers of a service a subscriber wants to use, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from slotreeve.errors import ModelError
from slotreeve_protocol.instance import Health, Instance

from slotreeve_client.provider import Provider

T = TypeVar("T")


class ProviderSource(Protocol):
    """Something that has the providers of a service: a subscription, or a selection of it."""

    @property
    def changes(self) -> int:
        """Rises with each change of ``instances``."""

    @property
    def instances(self) -> tuple[Provider, ...]:
        """The providers now."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which providers, and in which order. As it is made by default: those that are enabled, and passing or warning.

    A provider that published bytes of its own has none of these fields, so no filter admits it.

    Attributes:
        worst_health: the worst health that is admitted; ``Health.CRITICAL`` admits all.
        enabled_only: disabled instances are not admitted.
        tags: an instance must have all of them.
        zone: providers in this zone come first; None: the zone does not matter.
        enough: where so many providers of ``zone`` are admitted, no others are. None: the others always follow.

    Raises:
        ModelError: ``enough`` is less than 1, or there is no zone for it; or ``tags`` is a text.
    """

    worst_health: Health = Health.WARNING
    enabled_only: bool = True
    tags: Set[str] = frozenset()
    zone: str | None = None
    enough: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        if isinstance(self.tags, str):
            raise ModelError(f"filter: tags is {self.tags!r}; expected a set of texts, e.g. {{{self.tags!r}}}")
        if self.enough is not None and self.enough < 1:
            raise ModelError(f"filter: enough is {self.enough}; expected 1 or more, or None")
        if self.enough is not None and self.zone is None:
            raise ModelError(f"filter: enough is {self.enough} and zone is None; expected the zone that is enough")

    def admits(self, instance: Instance) -> bool:
        """Whether an instance is one of those wanted, wherever it is."""
        return (
            (instance.enabled or not self.enabled_only)
            and instance.health.rank <= self.worst_health.rank
            and all(tag in instance.tags for tag in self.tags)
        )

    def of(self, providers: Iterable[Provider]) -> tuple[Provider, ...]:
        """The admitted ones of ``providers``: those of the own zone first, apart from that in the given order."""
        admitted = [p for p in providers if (instance := p.instance) is not None and self.admits(instance)]
        if self.zone is None:
            return tuple(admitted)
        near = [p for p in admitted if p.zone == self.zone]
        if self.enough is not None and len(near) >= self.enough:
            return tuple(near)
        return (*near, *[p for p in admitted if p.zone != self.zone])


class Derived(Generic[T]):
    """What a function makes of the providers of a source. It is made again only where they have changed, when somebody
    asks for it. Any thread may ask if any thread may use the source."""

    __slots__ = ("_made", "_make", "_source")

    def __init__(self, source: ProviderSource, make: Callable[[tuple[Provider, ...]], T]) -> None:
        self._source, self._make = source, make
        self._made: tuple[int, T] | None = None

    def get(self) -> T:
        """The newest."""
        changes = self._source.changes  # read before the providers: where they change in between, it is made again
        made = self._made
        if made is None or made[0] != changes:
            made = self._made = changes, self._make(self._source.instances)
        return made[1]


class Selection:
    """The providers of a source that a filter admits. The filter is applied when somebody asks and something has
    changed, so a service that nobody looks at costs nothing.

    Args:
        source: a subscription, or another selection.
        chosen: the filter.
    """

    __slots__ = ("_derived", "_source")

    def __init__(self, source: ProviderSource, chosen: Filter) -> None:
        self._source, self._derived = source, Derived(source, chosen.of)

    @property
    def changes(self) -> int:
        """Rises with each change of the source."""
        return self._source.changes

    @property
    def instances(self) -> tuple[Provider, ...]:
        """The admitted providers now, in the order of the filter."""
        return self._derived.get()
