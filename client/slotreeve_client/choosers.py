"""Which provider to call next. Pure.

A chooser has a source: a subscription, or a selection of it (:class:`~slotreeve_client.selection.Selection`). It
chooses among the providers whose weight is not 0; where all have 0, among all of them. A provider that published bytes
of its own has the default weight. The time of a choice grows with the logarithm of the number of providers; only the
first one after a change of the source looks at all of them. Any thread may choose if any thread may use the source.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Protocol

from slotreeve.errors import ModelError
from slotreeve_protocol.instance import DEFAULT_WEIGHT

from slotreeve_client.provider import Provider
from slotreeve_client.selection import Derived, ProviderSource


class Chooser(Protocol):
    """Chooses one provider after the other."""

    def choose(self) -> Provider | None:
        """The provider to call; None where the source has none. That is an ordinary state of a service, not an error:
        the caller decides whether to wait, to fail or to ask elsewhere."""


def weight_of(provider: Provider) -> int:
    """The weight of a provider."""
    instance = provider.instance
    return DEFAULT_WEIGHT if instance is None else instance.weight


def usable(providers: Sequence[Provider]) -> Sequence[Provider]:
    """Those that get traffic: whose weight is not 0, or all where it is 0 for all."""
    return [provider for provider in providers if weight_of(provider)] or providers


class _Weighed:
    """Providers and the running sum of their weights; equal weights where all are 0."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = providers
        self._sums = list(accumulate(map(weight_of, providers)))
        if providers and not self._sums[-1]:
            self._sums = list(range(1, len(providers) + 1))

    def pick(self, rng: random.Random) -> Provider | None:
        """One of them at random, in proportion to the weights."""
        if not self._providers:
            return None
        return self._providers[bisect_right(self._sums, rng.randrange(self._sums[-1]))]


class WeightedRandom:
    """Each provider as often as its weight says, in random order.

    Args:
        source: the providers.
        rng: chance; with a seed, the choices can be repeated.
    """

    def __init__(self, source: ProviderSource, rng: random.Random) -> None:
        self._weighed, self._rng = Derived(source, _Weighed), rng

    def choose(self) -> Provider | None:
        """See :class:`Chooser`."""
        return self._weighed.get().pick(self._rng)


class ZoneFirst:
    """Providers of the own zone only, as often as their weights say; where fewer than ``enough`` of them get traffic,
    those of all zones.

    Args:
        source: the providers.
        rng: chance; with a seed, the choices can be repeated.
        zone: the own zone.
        enough: so many providers of the own zone suffice.

    Raises:
        ModelError: ``enough`` is less than 1.
    """

    def __init__(self, source: ProviderSource, rng: random.Random, zone: str, enough: int = 1) -> None:
        if enough < 1:
            raise ModelError(f"enough is {enough}; expected 1 or more")
        self._zone, self._enough, self._rng = zone, enough, rng
        self._weighed = Derived(source, self._weigh)

    def _weigh(self, providers: Sequence[Provider]) -> _Weighed:
        everywhere = usable(providers)
        near = [provider for provider in everywhere if provider.zone == self._zone]
        return _Weighed(near if len(near) >= self._enough else everywhere)

    def choose(self) -> Provider | None:
        """See :class:`Chooser`."""
        return self._weighed.get().pick(self._rng)


class RoundRobin:
    """Each provider once, then each again, in the order of their register ids; weights other than 0 do not matter.

    It begins anywhere, so that not all clients begin with the same one, and where the providers change it goes on
    behind the one that it chose last.

    Args:
        source: the providers.
        rng: chance, for the beginning.
    """

    def __init__(self, source: ProviderSource, rng: random.Random) -> None:
        self._ordered, self._rng = Derived(source, _ordered), rng
        self._last: str | None = None

    def choose(self) -> Provider | None:
        """See :class:`Chooser`."""
        providers = self._ordered.get()
        if not providers:
            return None
        if self._last is None:
            chosen = providers[self._rng.randrange(len(providers))]
        else:
            behind = bisect_right(providers, self._last, key=attrgetter("register_id"))
            chosen = providers[behind % len(providers)]
        self._last = chosen.register_id
        return chosen


def _ordered(providers: Sequence[Provider]) -> Sequence[Provider]:
    return sorted(usable(providers), key=attrgetter("register_id"))
