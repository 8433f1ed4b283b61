"""Which instance a request to a service goes to, and whether it may go to another one afterwards. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slotreeve_client.choosers import Chooser, usable
from slotreeve_client.provider import Provider
from slotreeve_client.selection import Derived, ProviderSource

MakeChooser = Callable[[ProviderSource], Chooser]
CHOICES = 16
"""How often a chooser is asked for an instance that was not tried before; then the first one that was not, and gets
traffic, is taken."""
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods of HTTP that may be carried out twice (RFC 9110)."""


class OfScheme:
    """The providers of a source that speak a scheme: those whose instance names it, and those that name none.

    Args:
        source: the providers.
        scheme: ``http``, ``https``, ``grpc``.
    """

    def __init__(self, source: ProviderSource, scheme: str) -> None:
        self._source = source
        self._derived = Derived(source, lambda providers: tuple(p for p in providers if speaks(p, scheme)))

    @property
    def changes(self) -> int:
        """Rises with each change of the source."""
        return self._source.changes

    @property
    def instances(self) -> tuple[Provider, ...]:
        """Those providers now."""
        return self._derived.get()


def speaks(provider: Provider, scheme: str) -> bool:
    """Whether a provider can be asked in this scheme: it registered an instance with a port, and the instance names the
    scheme, or none."""
    instance = provider.instance
    return instance is not None and bool(instance.port) and instance.scheme in ("", scheme)


class Route:
    """The instances that requests of one scheme to one service go to.

    Args:
        source: the providers that are wanted.
        scheme: of the requests.
        make_chooser: makes what chooses among them.
    """

    def __init__(self, source: ProviderSource, scheme: str, make_chooser: MakeChooser) -> None:
        self._source = OfScheme(source, scheme)
        self._chooser = make_chooser(self._source)

    def choose(self, tried: Collection[str]) -> Provider | None:
        """A provider whose register id is not among ``tried``; None: there is none."""
        for _ in range(CHOICES):
            provider = self._chooser.choose()
            if provider is None:
                return None
            if provider.register_id not in tried:
                return provider
        left = [provider for provider in usable(self._source.instances) if provider.register_id not in tried]
        return left[0] if left else None
