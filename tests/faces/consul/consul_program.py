"""Programs with a client of Consul for Python: py-consul or python-consul2, which are both the package ``consul``. As a
script: see ``ClientScript``."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import consul  # type: ignore[import-untyped]
import requests

PATIENCE = 40.0
RETRY_SECONDS = 0.05
TTL = "6s"
Failures = (consul.ConsulException, requests.RequestException)


def client(address: str) -> Any:
    host, _, port = address.rpartition(":")
    return consul.Consul(host=host, port=int(port))


class Balanced:
    """What programs do that know several addresses: the next one, where one does not answer."""

    def __init__(self, *addresses: str) -> None:
        self._clients = [client(one) for one in addresses]

    def call(self, what: Callable[[Any], Any]) -> Any:
        for number, one in enumerate(list(self._clients)):
            try:
                return what(one)
            except Failures:
                if number == len(self._clients) - 1:
                    raise
                self._clients.append(self._clients.pop(0))
        raise AssertionError


class Provider:
    """A program that registers, passes its check, and registers again where it is unknown."""

    def __init__(self, balanced: Balanced, name: str, service_id: str) -> None:
        self._balanced, self._name, self.service_id = balanced, name, service_id
        self.registrations = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.work)

    def _register(self, one: Any) -> None:
        check = consul.Check.ttl(TTL) | {"DeregisterCriticalServiceAfter": "90m"}
        one.agent.service.register(
            self._name, self.service_id, "10.0.0.1", 8080, tags=["blue"], check=check, meta={"version": "1.2"}
        )
        self.registrations += 1
        print("registered", flush=True)

    def work(self) -> None:
        """Until the end of the ``with`` block."""
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                if self._balanced.call(lambda one: one.agent.check.ttl_pass(f"service:{self.service_id}")):
                    pause = 1.0
                else:
                    self._balanced.call(self._register)
                    pause = 0.0
            except Failures as error:
                print(error, file=sys.stderr)
                pause = RETRY_SECONDS

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE)


class Follower:
    """A program that follows a service by blocking queries, and remembers what it saw and when."""

    def __init__(self, balanced: Balanced, name: str) -> None:
        self._balanced, self._name = balanced, name
        self.seen: list[tuple[float, int, tuple[str, ...]]] = []
        self._stopping = False
        self._thread = threading.Thread(target=self.work, daemon=True)

    def work(self) -> None:
        """Until the end of the ``with`` block."""
        index: str | None = None
        while not self._stopping:
            query = {"index": index, "wait": "5s", "passing": True}
            try:
                index, entries = self._balanced.call(lambda one, query=query: one.health.service(self._name, **query))  # type: ignore[misc]
            except Failures as error:
                print(error, file=sys.stderr)
                time.sleep(RETRY_SECONDS)
                continue
            assert index is not None
            ids = tuple(entry["Service"]["ID"] for entry in entries)
            if ids != self.now or not self.seen:
                print("sees", json.dumps(sorted(ids)), flush=True)
            self.seen.append((time.monotonic(), int(index), ids))

    @property
    def now(self) -> tuple[str, ...]:
        return self.seen[-1][2] if self.seen else ()

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping = True
        self._thread.join(PATIENCE)

    def check(self) -> None:
        indexes = [index for _, index, _ in self.seen]
        assert indexes == sorted(indexes), "an index fell"


def main(kind: str, addresses: str, service: str, service_id: str = "") -> None:
    """As ``ClientScript`` says."""
    print("with", consul.__file__, flush=True)
    balanced = Balanced(*addresses.split(","))
    (Provider(balanced, service, service_id) if kind == "provide" else Follower(balanced, service)).work()


if __name__ == "__main__":
    main(*sys.argv[1:])
