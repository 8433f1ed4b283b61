"""A gateway process with tokens and TLS, on real sockets, as its operators and callers see it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import DevServer, ServerProcess
from slotreeve_servers.node.counted import GATEWAY

pytestmark = pytest.mark.processes
PATIENCE = 30.0
OUT_SECONDS = 10.0
"""Two are promised on a quiet machine; it takes some milliseconds there."""


class SafeGateway:
    """A gateway with tokens and TLS; the pages for its operators are at the port above."""

    def __init__(self, directory: Path, session: str) -> None:
        self.ca = trustme.CA()
        self.certificate, self.key = directory / "cert.pem", directory / "key.pem"
        self.issue_certificate()
        address = free_address()
        host, _, port = address.rpartition(":")
        self.url, self.pages_url = f"https://{address}", f"http://{host}:{int(port) + 1}"
        settings = {
            "gateway.listen": address,
            "gateway.sessions": session,
            "gateway.authentication": "tokens",
            "gateway.tls_certificate": self.certificate,
            "gateway.tls_key": self.key,
            "http.enabled": True,
        }
        command = [sys.executable, "-m", "slotreeve_cli", "gateway", "run", "--until-eof"]
        command += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        self.process = ServerProcess(Role.GATEWAY, "gateway", address, command, directory / "gateway.log")
        trusting = ssl.create_default_context()
        self.ca.configure_trust(trusting)
        self.http = httpx.Client(verify=trusting, timeout=PATIENCE)

    def issue_certificate(self) -> None:
        issued = self.ca.issue_cert("127.0.0.1")
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())

    def asks(self, token: str = "") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.http.get(f"{self.url}/v1/services", headers=headers).status_code

    def page(self, path: str) -> str:
        return httpx.get(self.pages_url + path, timeout=PATIENCE).text

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            time.sleep(0.05)
        raise AssertionError(self.process.tail())


def token_command(dev: DevServer, *arguments: str, exit_code: int = 0) -> str:
    command = [sys.executable, "-m", "slotreeve_cli", "gateway", "token", *arguments]
    environment = {**os.environ, "SLOTREEVE_META": dev.meta_address}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == exit_code, done.stderr
    return (done.stdout or done.stderr).strip()


def test_tokens_are_issued_followed_at_once_and_revoked(dev: DevServer, tmp_path: Path) -> None:
    gateway = SafeGateway(tmp_path, dev.session_address)
    gateway.process.start()
    try:
        gateway.until(lambda: gateway.page("/readyz?verbose") == "[+] registry\n[+] tokens\nready\n")
        assert gateway.asks() == 401
        text = token_command(dev, "issue", "reader", "--right", "read:*", "--note", "dashboards", "--days", "1")
        gateway.until(lambda: gateway.asks(text) == 200)
        [row] = json.loads(token_command(dev, "list", "-o", "json"))
        assert (row["name"], row["rights"], row["has ended"], row["note"]) == (
            "reader",
            ["read:*"],
            False,
            "dashboards",
        )
        secret = text.rpartition(".")[2]
        assert secret not in json.dumps(row)
        assert "a token reader is there already" in token_command(
            dev, "issue", "reader", "--right", "read:*", exit_code=2
        )
        assert gateway.asks(text[:-1] + "x") == 401
        gateway.issue_certificate()
        gateway.until(lambda: "read again" in gateway.process.tail())
        assert gateway.asks(text) == 200
        gateway.process.stop()
        gateway.process.start()
        gateway.until(lambda: gateway.asks(text) == 200)
        token_command(dev, "revoke", "reader")
        gateway.until(lambda: gateway.asks(text) == 401)
        assert token_command(dev, "revoke", "reader", exit_code=3) == "there is no token reader"
        metrics = {family.name for family in text_string_to_metric_families(gateway.page("/metrics"))}
        assert {f"slotreeve_{name}" for name in GATEWAY} <= metrics
    finally:
        gateway.process.stop()
        gateway.http.close()
    assert secret not in gateway.process.tail(10_000)


class Callers:
    """Callers that register one instance after the other with the newest token, until they are told to end."""

    def __init__(self, gateway: SafeGateway, token: str) -> None:
        self.gateway, self.token = gateway, token
        self.registered: list[str] = []
        self.refused: list[int] = []
        self.shown: dict[int, str] = {}
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(3)]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _call(self, caller: int) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            token = self.shown[caller] = self.token
            name, headers = f"i-{caller}-{number}", {"Authorization": f"Bearer {token}"}
            place = f"{self.gateway.url}/v1/services/com.example.Rotated/instances/{name}"
            body = {"address": "10.0.0.1", "port": number, "ttl_seconds": 600}
            status = self.gateway.http.put(place, json=body, headers=headers).status_code
            if status == 200:
                self.registered.append(name)
            else:
                self.refused.append(status)


def test_a_token_is_replaced_under_load_without_a_refusal_and_the_old_one_is_out_soon(
    dev: DevServer, tmp_path: Path
) -> None:
    gateway = SafeGateway(tmp_path, dev.session_address)
    gateway.process.start()
    rights = ("--right", "register:com.example.Rotated", "--right", "read:com.example.Rotated")
    try:
        gateway.until(lambda: gateway.page("/readyz?verbose") == "[+] registry\n[+] tokens\nready\n")
        old = token_command(dev, "issue", "old", *rights)
        gateway.until(lambda: gateway.asks(old) == 200)
        with Callers(gateway, old) as callers:
            new = token_command(dev, "issue", "new", *rights)
            gateway.until(lambda: gateway.asks(new) == 200)
            callers.token = new
            gateway.until(lambda: len(callers.registered) > 50)
            gateway.until(lambda: set(callers.shown.values()) == {new})  # none is on its way with the old one
            token_command(dev, "revoke", "old")
            revoked = time.monotonic()
            gateway.until(lambda: gateway.asks(old) == 401)
            seconds = time.monotonic() - revoked
            print(f"the old token was out after {seconds:.2f} s")
            assert seconds < OUT_SECONDS
            before = len(callers.registered)
            gateway.until(lambda: len(callers.registered) > before + 50)
        assert callers.refused == []
        place = f"{gateway.url}/v1/services/com.example.Rotated/instances"
        answer = gateway.http.get(place, headers={"Authorization": f"Bearer {new}"}).json()
        assert {instance["id"] for instance in answer["instances"]} == set(callers.registered)
    finally:
        gateway.process.stop()
        gateway.http.close()


def test_without_the_registry_nobody_is_let_in_and_the_gateway_says_why(tmp_path: Path) -> None:
    gateway = SafeGateway(tmp_path, free_address())
    gateway.process.start()
    try:
        gateway.until(lambda: gateway.asks() == 503)
        assert gateway.asks("slotreeve.1.x") == 503
        assert "[-] tokens: the tokens are not known yet" in gateway.page("/readyz")
    finally:
        gateway.process.stop()
        gateway.http.close()
