"""Services of providers for property tests."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from slotreeve_client.provider import Provider
from slotreeve_protocol.envelope import encode_instance
from slotreeve_protocol.instance import Health, Instance


class Service:
    """A source whose providers a test changes, and that counts how often they are read."""

    def __init__(self, providers: Sequence[Provider] = ()) -> None:
        self.changes = 0
        self.reads = 0
        self._providers = tuple(providers)

    @property
    def instances(self) -> tuple[Provider, ...]:
        self.reads += 1
        return self._providers

    def become(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)
        self.changes += 1


def provider(register_id: str, instance: Instance) -> Provider:
    return Provider(register_id, instance.zone, (encode_instance(instance),))


INSTANCES = st.builds(
    Instance,
    st.just("a"),
    weight=st.sampled_from([0, 0, 1, 2, 7]),
    zone=st.sampled_from(["", "east", "west"]),
    tags=st.lists(st.sampled_from(["blue", "v2", "canary"]), unique=True).map(tuple),
    health=st.sampled_from(Health),
    enabled=st.booleans(),
)
IDS = st.text("abc", min_size=1, max_size=2)
PROVIDERS = st.dictionaries(IDS, INSTANCES | st.just(None), max_size=7).map(
    lambda service: tuple(
        Provider(key, "east", (b"opaque",)) if instance is None else provider(key, instance)
        for key, instance in sorted(service.items())
    )
)
