"""What the demonstration published, what its subscribers saw, and how the two compare. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slotreeve_client import Provider, Publication, Subscription


@dataclass
class LedgerComparison:
    """One subscriber's views against what is published: (service, register id) of each difference."""

    missing: list[tuple[str, str]] = field(default_factory=list)
    stale: list[tuple[str, str]] = field(default_factory=list)
    compared: int = 0

    @property
    def is_equal(self) -> bool:
        """Nothing missing, nothing stale."""
        return not self.missing and not self.stale


def expected_views(publications: Iterable[Publication]) -> dict[str, dict[str, tuple[bytes, ...]]]:
    """What every subscriber should see: data by register id, by service."""
    expected: dict[str, dict[str, tuple[bytes, ...]]] = {}
    for publication in publications:
        service = expected.setdefault(publication.data_info_id, {})
        if publication.data is not None:
            service[publication.register_id] = publication.data
    return expected


def compare(
    expected: dict[str, dict[str, tuple[bytes, ...]]], subscriptions: Iterable[Subscription]
) -> LedgerComparison:
    """A registration is missing where a subscriber does not see it, stale where it sees other data than the newest
    or one that has ended."""
    result = LedgerComparison()
    for subscription in subscriptions:
        _compare_service(result, subscription.data_info_id, expected, subscription.instances)
    return result


def compare_lookups(
    expected: dict[str, dict[str, tuple[bytes, ...]]], seen: dict[str, tuple[Provider, ...]]
) -> LedgerComparison:
    """As :func:`compare`, for what lookups at the slot leaders answered."""
    result = LedgerComparison()
    for service, instances in seen.items():
        _compare_service(result, service, expected, instances)
    return result


def _compare_service(
    result: LedgerComparison,
    service: str,
    expected: dict[str, dict[str, tuple[bytes, ...]]],
    instances: Iterable[Provider],
) -> None:
    wanted = expected.get(service, {})
    seen = {instance.register_id: instance.data for instance in instances}
    result.compared += len(wanted)
    result.missing += [(service, register_id) for register_id in wanted if register_id not in seen]
    result.stale += [(service, register_id) for register_id, data in seen.items() if wanted.get(register_id) != data]


class Watch:
    """Subscribers' callbacks: how late each change was seen, and whether a provider that never ended vanished.

    The first value of every publication starts with the time of its publishing (monotonic, nanoseconds).
    """

    def __init__(self) -> None:
        self.latencies_ms: list[float] = []
        self.vanished: list[tuple[str, str]] = []
        self.callbacks = 0
        self._measured_from_ns: int | None = None
        self._steady: dict[str, set[str]] = {}
        self._newest: dict[str, int] = {}

    def hold(self, publication: Publication) -> None:
        """From now on ``publication`` never ends: if a subscriber saw it and no longer does, it has vanished."""
        self._steady.setdefault(publication.data_info_id, set()).add(publication.register_id)

    def release_all(self) -> None:
        """Registrations may end again."""
        self._steady.clear()

    def measure(self, from_ns: int | None) -> None:
        """Measure how late changes published after ``from_ns`` are seen; None: stop measuring."""
        self._measured_from_ns = from_ns

    def changed(self, subscription: Subscription, now_ns: int) -> None:
        """A callback came."""
        self.callbacks += 1
        instances = subscription.instances
        steady = self._steady.get(subscription.data_info_id)
        if steady:
            seen = {instance.register_id for instance in instances}
            self.vanished += [(subscription.data_info_id, register_id) for register_id in steady - seen]
        if self._measured_from_ns is None:
            return
        for instance in instances:
            sent_ns = int(instance.data[0].partition(b" ")[0])
            key = f"{id(subscription)} {instance.register_id}"
            if sent_ns > self._newest.get(key, self._measured_from_ns):
                self._newest[key] = sent_ns
                self.latencies_ms.append((now_ns - sent_ns) / 1e6)
