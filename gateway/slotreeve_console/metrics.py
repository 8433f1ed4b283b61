"""A server's counters as Prometheus metrics (text format of the Prometheus client library)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from platform import python_version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from slotreeve import __version__
from slotreeve.model.nodes import Node
from slotreeve_servers.node.counted import COUNTED, TIMED, CounterKind
from slotreeve_servers.node.readiness import Inspected
from slotreeve_servers.node.timings import BOUNDS_SECONDS, Timing

PREFIX = "slotreeve_"
OF_A_PLUGIN = "reported by a plugin"
_LABELS = ("cluster", "role", "server", "zone")


class ServerCollector(Collector):
    """Asks the server at each scrape. Nothing is counted twice, and a server that nobody scrapes pays nothing."""

    def __init__(self, server: Inspected, node: Node, cluster: str) -> None:
        self._server = server
        self._of = (cluster, str(node.role), node.name, node.zone)

    def collect(self) -> Iterator[Metric]:
        """One family for each counter and each timing, ``slotreeve_ready`` and ``slotreeve_build_info``. Names of
        counters end in ``_total`` where the number only rises."""
        for name, value in sorted(self._server.counters().items()):
            known = COUNTED.get(name)
            meaning = known.meaning if known is not None else OF_A_PLUGIN
            kind = CounterMetricFamily if known is not None and known.kind is CounterKind.COUNTER else GaugeMetricFamily
            family = kind(PREFIX + name, meaning, labels=_LABELS)
            family.add_metric(self._of, value)
            yield family
        for name, timing in self._server.timings().items():
            histogram = HistogramMetricFamily(PREFIX + name, TIMED.get(name, OF_A_PLUGIN), labels=_LABELS)
            histogram.add_metric(self._of, list(_buckets(timing)), timing.total_seconds)
            yield histogram
        ready = GaugeMetricFamily(
            f"{PREFIX}ready", "1 while the check of /readyz passes, else 0", labels=(*_LABELS, "check")
        )
        for check in self._server.readiness():
            ready.add_metric((*self._of, check.name), int(check.passes))
        yield ready
        build = GaugeMetricFamily(
            f"{PREFIX}build_info", "1; the labels say which version runs", labels=(*_LABELS, "version", "python")
        )
        build.add_metric((*self._of, __version__, python_version()), 1)
        yield build


def _buckets(timing: Timing) -> Iterator[tuple[str, float]]:
    """How many durations were at most each bound, as Prometheus counts them."""
    names = [*map(floatToGoString, BOUNDS_SECONDS), "+Inf"]
    yield from zip(names, accumulate(timing.counts), strict=True)


def exposition(server: Inspected, node: Node, cluster: str) -> bytes:
    """The text that ``/metrics`` answers with: what the server counts, and what its process uses (``process_...``)."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(server, node, cluster))
    ProcessCollector(registry=registry)
    return generate_latest(registry)
