"""Six incidents on real processes, each diagnosed by the ways that docs/incidents.md describes: with commands, and in
the console."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from slotreeve_chaos.sql_servers import PostgresServer
from slotreeve_client import ClientOptions
from slotreeve_client.threads import BlockingClient, connect_blocking
from slotreeve_client.tools import run_async
from slotreeve_harness.processes import ClusterSize, LocalCluster

from tests.cli.real.registry_commands import command, ready

pytestmark = pytest.mark.processes
SERVICE = "com.example.Greeter"
PATIENCE_SECONDS = 60.0


def told(cluster: LocalCluster, *arguments: str, until: Callable[[str], bool]) -> str:
    """What a command says, once it says what is looked for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        done = command(cluster, *arguments)
        if until(done.stdout):
            return done.stdout
        if time.monotonic() > deadline:
            pytest.fail(f"slotreeve {' '.join(arguments)} says:\n{done.stdout}{done.stderr}")


def shown(cluster: LocalCluster, path: str, until: Callable[[str], bool]) -> str:
    """What a page of the console says, once it says what is looked for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with urlopen(f"http://{cluster.gateway_addresses[0]}/ui/{path}", timeout=30) as answer:
            page = answer.read().decode()
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
        if until(text):
            return text
        if time.monotonic() > deadline:
            pytest.fail(f"/ui/{path} says:\n{text}")
        time.sleep(0.5)


@contextmanager
def client(cluster: LocalCluster, session: str = "") -> Iterator[BlockingClient]:
    addresses = [cluster.servers[session].address] if session else cluster.session_addresses
    with connect_blocking(*addresses, options=ClientOptions(cluster=cluster.name)) as connected:
        yield connected


@contextmanager
def providing(cluster: LocalCluster, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that publishes."""
    arguments = ["publish", SERVICE, address, "--cluster", cluster.name]
    sessions = [part for session in cluster.session_addresses for part in ("--session", session)]
    process = subprocess.Popen(
        [sys.executable, "-m", "slotreeve_cli", *arguments, *sessions], stdout=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def frozen(cluster: LocalCluster, name: str) -> Iterator[None]:
    os.kill(cluster.servers[name].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(cluster.servers[name].pid, signal.SIGCONT)


def test_a_subscriber_lags(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 2, 1, gateway=1)) as cluster:
        run_async(ready(cluster))
        with client(cluster) as provider, client(cluster) as subscriber:
            subscriber.subscribe(SERVICE, lambda providers: time.sleep(4))
            publication = provider.publish(SERVICE, "0")
            until = time.monotonic() + PATIENCE_SECONDS
            number = 0
            while time.monotonic() < until:
                number += 1
                publication.republish(str(number))
                time.sleep(0.2)
                if "run their callbacks late" in command(cluster, "status").stdout:
                    break
            (late,) = [
                one["client"]
                for one in json.loads(command(cluster, "clients", "-o", "json").stdout)
                if one["late_s"] > 1
            ]
            rows = json.loads(command(cluster, "subscribers", SERVICE, "-o", "json").stdout)
            assert [(row["client"], row["state"]) for row in rows if row["state"] != "current"] == [(late, "late")]

            def says(*texts: str) -> Callable[[str], bool]:
                """The publisher goes on, so that the subscriber stays late."""

                def is_said(text: str) -> bool:
                    publication.republish(str(time.monotonic()))
                    return all(each in text for each in texts)

                return is_said

            shown(cluster, "", says("1 client of session-1 run their callbacks late", f"Client {late} at 127.0.0.1:"))
            shown(cluster, f"services/{SERVICE}", says(f"{late} 127.0.0.1:", "late by "))


def test_a_data_server_flaps(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 3, 1, gateway=1)) as cluster:
        run_async(ready(cluster))
        for _ in range(2):
            cluster.servers["data-2"].kill()
            told(cluster, "status", until=lambda text: "data-2 left" in text)
            cluster.servers["data-2"].start()
            run_async(ready(cluster))
        kinds = ("events", "--since", "10m", "--kind", "node_left", "--kind", "node_joined")
        left, joined = "data server data-2 left: connection lost", "data server data-2 joined"
        told(cluster, *kinds, until=lambda text: text.count(left) == 2 and text.count(joined) == 3)
        slots = [
            line.split()[0] for line in command(cluster, "slots", "-o", "tsv").stdout.splitlines() if "data-2" in line
        ]
        assert "data-2" in told(cluster, "why", "slot", slots[0], until=bool)

        query = "history?kind=node_left&kind=node_joined"
        shown(cluster, query, lambda text: text.count(left) == 2 and text.count(joined) == 3)
        shown(cluster, f"slots/moves.json?slot={slots[0]}", lambda text: "data-2" in text)
        shown(cluster, "servers", lambda text: "Drain…" in text)
        shown(cluster, "act?act=drain&server=data-2", lambda text: "Draining data-2 moves" in text)


def test_a_storm_of_elections(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(3, 1, 1, gateway=1)) as cluster:
        run_async(ready(cluster))
        for _ in range(3):
            assert command(cluster, "election", "resign").returncode == 0
            told(cluster, "leader", until=lambda text: "meta-" in text)
        said = told(cluster, "why", "leader", "--since", "10m", "-n", "100", until=lambda text: "in term 4" in text)
        assert "resigned" in said

        shown(cluster, "election", lambda text: "Changes of leadership" in text and text.count("resigned") > 1)
        shown(cluster, "history?kind=leader", lambda text: "leads in term 4" in text and "resigned" in text)


def test_a_service_loses_half_its_instances(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, ClusterSize(1, 2, 2, gateway=1)) as cluster:
        run_async(ready(cluster))
        with client(cluster) as stays, providing(cluster, "10.0.0.2:80") as goes:
            stays.publish(SERVICE, "10.0.0.1:80").acknowledged(30)
            told(cluster, "get", SERVICE, until=lambda text: "10.0.0.1:80" in text and "10.0.0.2:80" in text)
            time.sleep(1)
            both = datetime.now(UTC).isoformat()
            goes.kill()
            told(cluster, "why", SERVICE, until=lambda text: "10.0.0.2:80" in text and "ended" in text)
            said = told(cluster, "diff", both, "now", SERVICE, until=lambda text: "went" in text)
            assert ("10.0.0.2:80" in said, "10.0.0.1:80" in said) == (True, False)
            assert "its client was lost" in command(cluster, "why", "10.0.0.2:80").stdout

            shown(cluster, "", lambda text: f"{SERVICE} 1 instance ended at" in text and "its client was lost" in text)
            ended = re.compile(r"10\.0\.0\.2:80 \([^)]*\) ended: its client was lost")
            shown(cluster, f"services/{SERVICE}", lambda text: bool(ended.search(text)))
            shown(cluster, f"services/{SERVICE}?at={quote(both)}", lambda text: text.count("10.0.0.2:80") > 1)


def test_a_slot_waits(tmp_path: Path) -> None:
    settings = {"meta.lease_seconds": 30, "data.session_grace_seconds": 60}
    with LocalCluster(tmp_path, ClusterSize(1, 3, 2, gateway=1), settings) as cluster:
        run_async(ready(cluster))
        with frozen(cluster, "session-2"):
            cluster.servers["data-1"].kill()
            said = told(
                cluster, "events", "--kind", "slots_wait", until=lambda text: "for the records of session-2@" in text
            )
            slot = said.splitlines()[0].rpartition(": ")[2].partition(",")[0].rstrip(".")
            assert "session-2@" in told(cluster, "why", "slot", slot, until=lambda text: "session-2@" in text)
            told(cluster, "status", until=lambda text: "copying" in text)

            waits = "for the records of session-2@"
            shown(cluster, "", lambda text: "is not well: copying" in text and waits in text)
            shown(cluster, "history?kind=slots_wait", lambda text: waits in text)
            shown(cluster, f"slots/moves.json?slot={slot}", lambda text: waits in text)
        told(cluster, "events", "--kind", "slots_wait", until=lambda text: "no slot waits for session-2@" in text)


def test_the_database_behind_the_election_stops(tmp_path: Path) -> None:
    with PostgresServer() as database:
        settings = {"election.use": "postgres", "election.postgres.dsn": database.dsn()}
        with LocalCluster(tmp_path, ClusterSize(2, 1, 1, gateway=1), settings) as cluster:
            run_async(ready(cluster))
            database.stop()
            said = told(cluster, "status", until=lambda text: text.count("knows no leader: ") == 2)
            assert "No meta server leads" in said
            told(cluster, "why", "leader", until=lambda text: "knows no leader" in text)

            cause = re.search(r"meta-1 knows no leader: (.{20})", said)
            assert cause is not None

            def is_told(text: str) -> bool:
                return "No meta server leads" in text and f"meta-1 knows no leader: {cause[1]}" in text

            for page in ("", "election"):
                assert re.search(r"since \d\d:\d\d:\d\d UTC", shown(cluster, page, is_told)), page
            shown(cluster, "history?kind=leader", lambda text: "meta-1 knows no leader" in text)
