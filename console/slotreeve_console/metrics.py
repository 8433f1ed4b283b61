"""A server's counters as Prometheus metrics (text format of the Prometheus client library)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from slotreeve.model.nodes import Node
from slotreeve_servers.counted import COUNTED, CounterKind
from slotreeve_servers.node.readiness import Inspected

PREFIX = "slotreeve_"
OF_A_PLUGIN = "reported by a plugin"
_LABELS = ("role", "server", "zone")


class ServerCollector(Collector):
    """Asks the server at each scrape. Nothing is counted twice, and a server that nobody scrapes pays nothing."""

    def __init__(self, server: Inspected, node: Node) -> None:
        self._server = server
        self._of = (str(node.role), node.name, node.zone)

    def collect(self) -> Iterator[Metric]:
        """One family for each counter, and ``slotreeve_ready``. Names end in ``_total`` where the number only rises."""
        for name, value in sorted(self._server.counters().items()):
            known = COUNTED.get(name)
            meaning = known.meaning if known is not None else OF_A_PLUGIN
            kind = CounterMetricFamily if known is not None and known.kind is CounterKind.COUNTER else GaugeMetricFamily
            family = kind(PREFIX + name, meaning, labels=_LABELS)
            family.add_metric(self._of, value)
            yield family
        ready = GaugeMetricFamily(
            f"{PREFIX}ready", "1 while the check of /readyz passes, else 0", labels=(*_LABELS, "check")
        )
        for check in self._server.readiness():
            ready.add_metric((*self._of, check.name), int(check.passes))
        yield ready


def exposition(server: Inspected, node: Node) -> bytes:
    """The text that ``/metrics`` answers with."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(server, node))
    return generate_latest(registry)
