"""Writes what is made from the code below ``deploy/``: alert rules and a dashboard from the table of counters, and the
units of systemd. ``python deploy/make_deploy.py``.

With ``--check`` nothing is written, and the exit code is 1 if a file is not what the code says (tests/deploy).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from slotreeve_cli.units import STOP_SECONDS, unit, unit_name
from slotreeve_servers.node.counted import COUNTED, PUSH_AGE, TIMED, CounterKind

DEPLOY = Path(__file__).resolve().parent
PREFIX = "slotreeve_"
LASTS = "5m"
"""A gauge that should be 0 is an alert once it has not been for so long."""
LOOKS_BACK = "10m"
"""A counter that should not rise is an alert for so long after it has risen."""
SEVERE = frozenset(
    {
        "loop_failures",
        "handler_errors",
        "state_set_back",
        "slots_led_unclean",
        "slots_unreadable",
        "slots_served_incomplete",
        "endings_overdue",
        "leases_overdue",
        "election_failures",
        "protected",
        "objective_burning",
    }
)
"""Somebody should look now: registrations may be lost, late or hidden, or there is a defect."""
OF_CALLERS = frozenset(
    {
        "malformed_frames",
        "oversize_frames",
        "refused_hellos",
        "refused_keys",
        "unexpected_messages",
        "clients_refused",
        "clients_late",
        "clients_behind",
        "limits_hit",
        "gateway_refused_tokens",
        "http_refused_connections",
        "http_bad_requests",
        "http_slow_requests",
        "http_slow_readers",
        "http_failed_handshakes",
    }
)
"""What others do wrong: no more than a note, because anybody who reaches a port can cause it."""


class Alert(NamedTuple):
    """One rule.

    Attributes:
        lasts: for how long the expression must hold.
        severity: ``critical``, ``warning`` or ``info``.
        summary: one line, with the labels of the metric.
    """

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str


OF_CLUSTERS = (
    Alert(
        "NoLeader",
        "(sum by (cluster) (slotreeve_leading) or 0 * count by (cluster) (slotreeve_build_info)) < 1",
        "1m",
        "critical",
        "cluster {{ $labels.cluster }}: no meta server leads; the slot table cannot follow deaths. slotreeve status",
    ),
    Alert(
        "SeveralLeaders",
        "sum by (cluster) (slotreeve_leading) > 1",
        "1m",
        "critical",
        "cluster {{ $labels.cluster }}: more than one meta server says that it leads",
    ),
    Alert(
        "ServerNotReady",
        "slotreeve_ready == 0",
        LASTS,
        "warning",
        "{{ $labels.role }} server {{ $labels.server }}: the check {{ $labels.check }} of /readyz fails",
    ),
    Alert(
        "ServerDown",
        'up{job="slotreeve"} == 0',
        "1m",
        "warning",
        "{{ $labels.instance }} does not answer Prometheus; others take over what it held. slotreeve status",
    ),
    Alert(
        "LoopLags",
        "slotreeve_loop_lag_ms > 500",
        LASTS,
        "warning",
        "{{ $labels.role }} server {{ $labels.server }}: its event loop lags by {{ $value }} ms; the machine is busy",
    ),
    Alert(
        "OtherVersions",
        "count by (cluster) (count by (cluster, version) (slotreeve_build_info)) > 1",
        "6h",
        "info",
        "cluster {{ $labels.cluster }}: servers of several versions run for hours",
    ),
)


def metric(counter: str) -> str:
    """The name of a counter's metric."""
    ending = "_total" if COUNTED[counter].kind is CounterKind.COUNTER else ""
    return f"{PREFIX}{counter}{ending}"


def of_counters() -> list[Alert]:
    """A rule for each number that is 0, or does not rise, in a quiet cluster."""
    rules = []
    for counter, counted in COUNTED.items():
        if not counted.quiet:
            continue
        name, severity = "".join(map(str.capitalize, counter.split("_"))), "warning"
        severity = "critical" if counter in SEVERE else "info" if counter in OF_CALLERS else severity
        rises = counted.kind is CounterKind.COUNTER
        expression = f"increase({metric(counter)}[{LOOKS_BACK}]) > 0" if rises else f"{metric(counter)} > 0"
        meaning = counted.meaning.replace("`", "").partition(" ([")[0]
        summary = f"{{{{ $labels.role }}}} server {{{{ $labels.server }}}}: {meaning}"
        rules.append(Alert(name, expression, "0m" if rises else LASTS, severity, summary))
    return rules


def alerts() -> str:
    """The rules as YAML. Strings are written as JSON, which YAML reads."""
    lines = [
        "# Made by deploy/make_deploy.py from the table of counters (docs/counters.md). Scrape all servers and",
        '# gateways in a job named "slotreeve" ([http] enabled = true). A rolling restart raises some of them.',
        "groups:",
        "  - name: slotreeve",
        "    rules:",
    ]
    for rule in [*OF_CLUSTERS, *of_counters()]:
        lines += [
            f"      - alert: Slotreeve{rule.name}",
            f"        expr: {json.dumps(rule.expression)}",
            f"        for: {rule.lasts}",
            f"        labels: {{severity: {rule.severity}}}",
            f"        annotations: {{summary: {json.dumps(rule.summary)}}}",
        ]
    return "\n".join(lines) + "\n"


# --- the dashboard ---------------------------------------------------------------------------------------------------

_OF, _IN_JOB = 'cluster=~"$cluster"', 'job="slotreeve"'


def _rate(counter: str) -> str:
    return f"sum by (server) (rate({metric(counter)}{{{_OF}}}[$__rate_interval]))"


def _sum(counter: str) -> str:
    return f"sum by (server) ({metric(counter)}{{{_OF}}})"


def _quantile(timing: str, share: float) -> str:
    buckets = f"{PREFIX}{timing}_bucket{{{_OF}}}"
    return f"histogram_quantile({share}, sum by (le) (rate({buckets}[$__rate_interval])))"


def panels() -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Title, unit and queries (expression, legend) of each panel, in the order in which an operator reads them."""
    each = "{{server}}"
    quiet = [counter for counter in COUNTED if COUNTED[counter].quiet and counter not in OF_CALLERS]
    rising = [counter for counter in quiet if COUNTED[counter].kind is CounterKind.COUNTER]
    there = [counter for counter in quiet if COUNTED[counter].kind is CounterKind.GAUGE]
    return [
        ("Who leads", "short", [(f"max by (server) (slotreeve_leading{{{_OF}}})", each)]),
        ("Servers that are not ready", "short", [(f"slotreeve_ready{{{_OF}}} == 0", "{{server}}: {{check}}")]),
        (
            "How long changes take to the push",
            "s",
            [(_quantile(PUSH_AGE, share), name) for share, name in ((0.5, "half"), (0.99, "99 of 100"))],
        ),
        ("Pushes a second", "ops", [(_rate("pushes"), each)]),
        ("Registrations sent by clients, a second", "ops", [(_rate("publishes"), each)]),
        ("Clients", "short", [(_sum("clients"), each)]),
        ("Registrations", "short", [(_sum("registrations"), each)]),
        ("Leases", "short", [(_sum("leases"), each)]),
        ("Slots that servers lead", "short", [(_sum("slots_led"), each)]),
        ("Lag of event loops", "ms", [(_sum("loop_lag_ms"), each)]),
        (
            "What should not rise, in ten minutes",
            "short",
            [(f"sum by (server) (increase({metric(c)}{{{_OF}}}[10m])) > 0", f"{{{{server}}}}: {c}") for c in rising],
        ),
        ("What should be 0", "short", [(f"{_sum(c)} > 0", f"{{{{server}}}}: {c}") for c in there]),
        (
            "Stages of the way of a change, 99 of 100",
            "s",
            [(_quantile(timing, 0.99), timing.removesuffix("_seconds")) for timing in TIMED],
        ),
        ("Memory", "bytes", [(f"process_resident_memory_bytes{{{_IN_JOB}}}", "{{instance}}")]),
        ("Processors", "short", [(f"rate(process_cpu_seconds_total{{{_IN_JOB}}}[$__rate_interval])", "{{instance}}")]),
    ]


def dashboard() -> str:
    """The dashboard as Grafana imports it (schema version 39)."""
    source = {"type": "prometheus", "uid": "${source}"}
    shown = []
    for number, (title, of, queries) in enumerate(panels()):
        shown.append(
            {
                "id": number + 1,
                "type": "timeseries",
                "title": title,
                "datasource": source,
                "gridPos": {"x": 12 * (number % 2), "y": 8 * (number // 2), "w": 12, "h": 8},
                "fieldConfig": {"defaults": {"unit": of, "min": 0}, "overrides": []},
                "targets": [
                    {"refId": f"Q{place}", "datasource": source, "expr": expression, "legendFormat": legend}
                    for place, (expression, legend) in enumerate(queries)
                ],
            }
        )
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "cluster",
            "label": "Cluster",
            "type": "query",
            "datasource": source,
            "query": {"query": "label_values(slotreeve_build_info, cluster)", "refId": "clusters"},
            "includeAll": True,
            "multi": True,
            "refresh": 2,
        },
    ]
    made = {
        "title": "slotreeve",
        "uid": "slotreeve",
        "tags": ["slotreeve"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": shown,
    }
    return json.dumps(made, indent=1) + "\n"


def files() -> dict[Path, str]:
    """Everything that is made, by its place."""
    made = {
        DEPLOY / "monitoring" / "alerts.yml": alerts(),
        DEPLOY / "monitoring" / "dashboard.json": dashboard(),
    }
    return made | {DEPLOY / "systemd" / unit_name(role): unit(role) for role in STOP_SECONDS}


def changed(made: Iterable[tuple[Path, str]]) -> list[Path]:
    """The files that are not what the code says."""
    return [path for path, text in made if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str]) -> int:
    """Write, or check."""
    if arguments not in ([], ["--check"]):
        print("usage: python deploy/make_deploy.py [--check]   (write the files, or only look)", file=sys.stderr)
        return 2
    made = files()
    stale = changed(made.items())
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(DEPLOY.parent)} is not what the code says; run python deploy/make_deploy.py")
        return 1 if stale else 0
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


assert COUNTED.keys() >= SEVERE | OF_CALLERS

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
