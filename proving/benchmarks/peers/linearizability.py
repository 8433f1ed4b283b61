"""Takes a history of concurrent clients from a real etcd or ZooKeeper and checks that it is linearizable.

It shows that the checker of the election suite agrees with systems that are known to be right, and how their histories
look under kills. Three servers run on this machine; one of them, mostly the leader, is killed every two seconds and
started again.

::

    python proving/benchmarks/peers/linearizability.py etcd --program /usr/bin/etcd
    python proving/benchmarks/peers/linearizability.py zookeeper --classpath '/opt/zookeeper/lib/*'      # needs kazoo

Exit code 1: the history is not linearizable.
"""

from __future__ import annotations

import argparse
import base64
import http
import http.client
import importlib
import json
import logging
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from slotreeve.ports import Versioned
from slotreeve_conformance.linearizability import Operation, Outcome, StoreRead, StoreWrite, unlinearizable

SERVERS = 3
CLIENTS = 6
KEYS = ("a", "b", "c")
KILL_EVERY_SECONDS = 2.0
DOWN_SECONDS = 0.7
REQUEST_SECONDS = 1.5
START_SECONDS = 30.0
MOST_LEFT_OPEN = 40


class Unknown(Exception):
    """No answer: it is not known whether the request was carried out."""


class Conflict(Exception):
    """Another version is stored than the expected one."""


class PeerClient(Protocol):
    """One client of the peer."""

    def read(self, key: str) -> Versioned | None:
        """A linearizable read. Raises Unknown."""

    def write(self, key: str, value: bytes, expected: int) -> int:
        """Store the value if the version is the expected one, 0 for a key that is missing. Returns the new version.
        Raises Unknown or Conflict."""


class PeerCluster(Protocol):
    """Three servers of the peer, each a process of its own."""

    def command(self, number: int) -> list[str]:
        """The command of one server."""

    def client(self, number: int) -> PeerClient:
        """A client that talks to one server."""


# --- etcd ------------------------------------------------------------------------------------------------------------


class EtcdClient:
    """Talks to the gateway of one etcd server, in JSON."""

    def __init__(self, port: int) -> None:
        self._port = port

    def read(self, key: str) -> Versioned | None:
        """See :class:`PeerClient`."""
        found = self._post("range", {"key": _base64(key.encode())}).get("kvs", [])
        return Versioned(base64.b64decode(found[0].get("value", "")), int(found[0]["version"]), 0) if found else None

    def write(self, key: str, value: bytes, expected: int) -> int:
        """See :class:`PeerClient`."""
        name = _base64(key.encode())
        answer = self._post(
            "txn",
            {
                "compare": [{"key": name, "target": "VERSION", "version": str(expected), "result": "EQUAL"}],
                "success": [{"requestPut": {"key": name, "value": _base64(value)}}],
            },
        )
        if not answer.get("succeeded"):
            raise Conflict
        return expected + 1

    def _post(self, what: str, body: object) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REQUEST_SECONDS)
        try:
            connection.request("POST", f"/v3/kv/{what}", json.dumps(body))
            answer = connection.getresponse()
            found: dict[str, Any] = json.load(answer)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Unknown(str(error)) from None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise Unknown(str(found))
        return found


class EtcdCluster:
    """Three servers of etcd 3.4 or later."""

    def __init__(self, program: str, directory: Path) -> None:
        self._program, self._directory = program, directory
        self._ports = [(free_port(), free_port()) for _ in range(SERVERS)]

    def command(self, number: int) -> list[str]:
        """See :class:`PeerCluster`."""
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[number])
        members = ",".join(f"s{n}=http://127.0.0.1:{port}" for n, (_, port) in enumerate(self._ports))
        settings = {
            "name": f"s{number}",
            "data-dir": str(self._directory / f"s{number}"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": members,
        }
        return [self._program, *(f"--{key}={value}" for key, value in settings.items())]

    def client(self, number: int) -> PeerClient:
        """See :class:`PeerCluster`."""
        return EtcdClient(self._ports[number][0])


# --- ZooKeeper -------------------------------------------------------------------------------------------------------


class ZooKeeperClient:
    """Talks to one ZooKeeper server. Its versions count from 0; here a new key has version 1."""

    def __init__(self, port: int) -> None:
        self._errors: Any = importlib.import_module("kazoo.exceptions")
        timeouts: Any = importlib.import_module("kazoo.handlers.threading")
        client: Any = importlib.import_module("kazoo.client")
        self._failures = (self._errors.KazooException, timeouts.KazooTimeoutError)
        self._client = client.KazooClient(f"127.0.0.1:{port}", timeout=2.0)
        self._client.start_async()

    def read(self, key: str) -> Versioned | None:
        """See :class:`PeerClient`. A plain read of ZooKeeper may be old, so a sync goes before it."""
        try:
            self._client.sync_async(f"/{key}").get(timeout=REQUEST_SECONDS)
            value, stat = self._client.get_async(f"/{key}").get(timeout=REQUEST_SECONDS)
        except self._errors.NoNodeError:
            return None
        except self._failures as error:
            raise Unknown(str(error)) from None
        return Versioned(value, stat.version + 1, 0)

    def write(self, key: str, value: bytes, expected: int) -> int:
        """See :class:`PeerClient`."""
        try:
            if expected == 0:
                self._client.create_async(f"/{key}", value).get(timeout=REQUEST_SECONDS)
                return 1
            stat = self._client.set_async(f"/{key}", value, expected - 1).get(timeout=REQUEST_SECONDS)
        except (self._errors.BadVersionError, self._errors.NodeExistsError, self._errors.NoNodeError):
            raise Conflict from None
        except self._failures as error:
            raise Unknown(str(error)) from None
        return int(stat.version) + 1


class ZooKeeperCluster:
    """Three servers of ZooKeeper 3.5 or later."""

    def __init__(self, classpath: str, directory: Path) -> None:
        self._classpath, self._directory = classpath, directory
        self._ports = [(free_port(), free_port(), free_port()) for _ in range(SERVERS)]

    def command(self, number: int) -> list[str]:
        """See :class:`PeerCluster`."""
        data = self._directory / f"s{number}"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(number + 1))
        lines = [
            "tickTime=200",
            "initLimit=25",
            "syncLimit=10",
            f"dataDir={data}",
            f"clientPort={self._ports[number][0]}",
            "admin.enableServer=false",
            *(f"server.{n + 1}=127.0.0.1:{peer}:{election}" for n, (_, peer, election) in enumerate(self._ports)),
        ]
        file = self._directory / f"s{number}.cfg"
        file.write_text("\n".join(lines))
        return ["java", "-cp", self._classpath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)]

    def client(self, number: int) -> PeerClient:
        """See :class:`PeerCluster`."""
        return ZooKeeperClient(self._ports[number][0])


# --- the history -----------------------------------------------------------------------------------------------------


class PeerHistory:
    """The operations of all clients, by one monotonic clock."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.unanswered = 0

    def read(self, client: PeerClient, key: str) -> int:
        """Read; the version, 0 where there is no answer."""
        called = time.monotonic()
        try:
            seen = client.read(key)
        except Unknown:
            return 0
        self.operations.append(Operation(key, StoreRead(seen), called, time.monotonic()))
        return 0 if seen is None else seen.version

    def write(self, client: PeerClient, key: str, value: bytes, expected: int) -> None:
        """Write."""
        called = time.monotonic()
        outcome: int | Outcome
        try:
            outcome = client.write(key, value, expected)
        except Conflict:
            outcome = Outcome.CONFLICT
        except Unknown:
            outcome = Outcome.UNKNOWN
            self.unanswered += 1
        self.operations.append(Operation(key, StoreWrite(value, expected, 0, outcome), called, time.monotonic()))


def use(cluster: PeerCluster, history: PeerHistory, number: int, is_over: threading.Event) -> None:
    """One client, until it is over."""
    rng, clients = random.Random(number), [cluster.client(server) for server in range(SERVERS)]
    count = 0
    while not is_over.is_set():
        client, key = rng.choice(clients), rng.choice(KEYS)
        version = history.read(client, key)
        if history.unanswered < MOST_LEFT_OPEN and rng.random() < 0.7:
            count += 1
            history.write(rng.choice(clients), key, b"%d-%d" % (number, count), version)


def take_history(cluster: PeerCluster, seconds: float) -> PeerHistory:
    """Run clients for so long, and kill one server after the other meanwhile."""
    servers = {number: start(cluster, number) for number in range(SERVERS)}
    history, is_over, rng = PeerHistory(), threading.Event(), random.Random(0)
    try:
        wait_until(lambda: all(answers(cluster.client(number)) for number in range(SERVERS)))
        clients = [
            threading.Thread(target=use, args=(cluster, history, number, is_over), daemon=True)
            for number in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(KILL_EVERY_SECONDS)
            victim = rng.randrange(SERVERS)
            servers[victim].send_signal(signal.SIGKILL)
            servers[victim].wait()
            time.sleep(DOWN_SECONDS)
            servers[victim] = start(cluster, victim)
        is_over.set()
        for client in clients:
            client.join()
        wait_until(lambda: answers(cluster.client(0)))
        last = cluster.client(0)
        for key in KEYS:
            history.read(last, key)
    finally:
        is_over.set()
        for server in servers.values():
            server.kill()
            server.wait()
    return history


def start(cluster: PeerCluster, number: int) -> subprocess.Popen[bytes]:
    """Start one server."""
    return subprocess.Popen(cluster.command(number), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def answers(client: PeerClient) -> bool:
    """Whether a read is answered."""
    try:
        client.read("ready")
    except Unknown:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until it is true."""
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"the servers do not answer within {START_SECONDS:g} s")
        time.sleep(0.3)


def free_port() -> int:
    """A port that no process listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def main() -> int:
    """Take a history, check it, print what was found."""
    parser = argparse.ArgumentParser(description="Check a history of a real etcd or ZooKeeper.")
    parser.add_argument("peer", choices=["etcd", "zookeeper"])
    parser.add_argument("--program", default="etcd", help="the program of etcd")
    parser.add_argument("--classpath", default="", help="the jars of ZooKeeper")
    parser.add_argument("--seconds", type=float, default=20.0)
    chosen = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        is_etcd, place = chosen.peer == "etcd", Path(directory)
        cluster = EtcdCluster(chosen.program, place) if is_etcd else ZooKeeperCluster(chosen.classpath, place)
        history = take_history(cluster, chosen.seconds)
    began = time.process_time()
    problem = unlinearizable(history.operations)
    took = time.process_time() - began
    print(f"{chosen.peer}: {len(history.operations)} operations, {history.unanswered} without an answer")
    print(f"checked in {took:.2f} s of processor time: {problem or 'linearizable'}")
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
