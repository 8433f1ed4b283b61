"""Alert rules, by Prometheus' own tool, on what servers of a simulated cluster report over minutes of virtual time."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from slotreeve_conformance.virtual_time import run
from slotreeve_console.metrics import exposition
from slotreeve_simulator.simulated_cluster import SimulatedCluster

from tests.faces.programs import program

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/monitoring/alerts.yml"
MINUTES, STRIKE_AT = 30, 15
Series = dict[str, list[str]]


def promtool(*arguments: str) -> str:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_takes_the_rules_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    found = re.search(r"(\d+) rules found", promtool("check", "rules", str(RULES)))
    assert found is not None
    assert int(found[1]) == RULES.read_text(encoding="utf-8").count("- alert: ")
    dashboard = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m").replace("$cluster", ".*")}
        for number, query in enumerate(queries)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", str(file))


def scraped(strike: Callable[[SimulatedCluster], Awaitable[None]]) -> Series:
    """What Prometheus would have after some minutes, with a scrape each minute: values by series."""

    async def main(rng: random.Random) -> Series:
        series: Series = defaultdict(list)
        async with SimulatedCluster(rng, meta=3, data=3, session=2) as cluster:
            await cluster.ready()
            client = cluster.client()
            seen = client.subscribe("com.example.Shop")
            client.publish("com.example.Shop", b"x")
            await cluster.until(lambda: seen.count == 1, "it is seen")
            for minute in range(MINUTES):
                if minute == STRIKE_AT:
                    await strike(cluster)
                scrape(cluster, series, minute)
                await asyncio.sleep(60)
        return series

    return run(main, seed=3)


def scrape(cluster: SimulatedCluster, series: Series, minute: int) -> None:
    live: set[str] = set()
    for name in cluster.names:
        server: Any = cluster.servers.get(name)
        up = f'up{{job="slotreeve",instance="{name}"}}'
        series[up].append("1" if server is not None else "0")
        live.add(up)
        if server is None:
            continue
        text = exposition(server, server._environment.node, "slotreeve").decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not sample.name.startswith("slotreeve_") or sample.name.endswith(("_bucket", "_created")):
                    continue
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                key = f"{sample.name}{{{labels}}}"
                live.add(key)
                series[key] += ["_"] * (minute - len(series[key])) + [f"{sample.value:g}"]
    for key, values in series.items():
        if key not in live:
            values.append("_")


def alerts_at_the_end(series: Series, directory: Path) -> set[str]:
    """The names of the alerts that fire, by promtool: the expectation that none does is not met by those."""
    inputs = [{"series": key, "values": " ".join(values)} for key, values in sorted(series.items())]
    names = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    tests = [{"eval_time": f"{MINUTES - 1}m", "alertname": name, "exp_alerts": []} for name in names]
    file = directory / "test.yml"
    case = {"interval": "1m", "input_series": inputs, "alert_rule_test": tests}
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [case]}), encoding="utf-8")
    command = [program("promtool"), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    output = done.stdout + done.stderr
    firing = set(re.findall(r"alertname: ?(\w+)", output)) | set(re.findall(r'alertname="(\w+)"', output))
    assert (done.returncode == 0) == (not firing), output
    return firing


async def nothing(cluster: SimulatedCluster) -> None:
    """A quiet cluster."""


async def a_data_server_dies(cluster: SimulatedCluster) -> None:
    cluster.kill("data-1")


async def most_meta_servers_die(cluster: SimulatedCluster) -> None:
    for name in ("meta-1", "meta-2"):
        cluster.kill(name)


async def all_meta_servers_die(cluster: SimulatedCluster) -> None:
    for name in ("meta-1", "meta-2", "meta-3"):
        cluster.kill(name)


def test_a_quiet_cluster_raises_no_alert(tmp_path: Path) -> None:
    assert alerts_at_the_end(scraped(nothing), tmp_path) == set()


def test_a_dead_data_server_is_an_alert(tmp_path: Path) -> None:
    firing = alerts_at_the_end(scraped(a_data_server_dies), tmp_path)
    assert "SlotreeveServerDown" in firing
    assert "SlotreeveNoLeader" not in firing


def test_a_cluster_whose_meta_servers_are_all_gone_is_an_alert(tmp_path: Path) -> None:
    assert {"SlotreeveNoLeader", "SlotreeveServerDown"} <= alerts_at_the_end(scraped(all_meta_servers_die), tmp_path)


def test_a_cluster_without_a_leader_is_an_alert(tmp_path: Path) -> None:
    firing = alerts_at_the_end(scraped(most_meta_servers_die), tmp_path)
    assert {"SlotreeveNoLeader", "SlotreeveServerDown", "SlotreeveServerNotReady"} <= firing
