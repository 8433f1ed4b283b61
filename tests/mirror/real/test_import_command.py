"""``slotreeve import`` and ``slotreeve compare`` as people run them, between two registries of processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_offset
from slotreeve_servers.launch import ROLE_PORTS

pytestmark = pytest.mark.processes
PATIENCE = 60.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "slotreeve_cli", *arguments]


@contextmanager
def registry(faces: str) -> Iterator[int]:
    """A registry of one process; what is added to its ports."""
    offset = free_offset(random.Random())
    words = command("dev", "--port-offset", str(offset), "--until-eof", "--set", f"face.use={faces}")
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: answers(offset), "the registry answers")
            yield offset
        finally:
            process.communicate(timeout=PATIENCE)


def url(offset: int, path: str) -> str:
    return f"http://127.0.0.1:{ROLE_PORTS[Role.GATEWAY] + offset}{path}"


def answers(offset: int) -> bool:
    try:
        return httpx.get(url(offset, "/v1/agent/self"), timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def until(check: object, what: str) -> float:
    assert callable(check)
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < PATIENCE, what
        time.sleep(0.02)
    return time.monotonic() - began


def put(offset: int, path: str, body: object = None) -> None:
    httpx.put(url(offset, path), json=body, timeout=PATIENCE).raise_for_status()


def run(offset: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    session = f"127.0.0.1:{ROLE_PORTS[Role.SESSION] + offset}"
    given = {**os.environ, "SLOTREEVE_SESSION": session}
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, env=given, timeout=PATIENCE)


def test_two_registries_differ_are_made_equal_and_differences_have_names() -> None:
    with registry("consul") as there, registry("consul") as here:
        source = ("--from", "consul", url(there, ""))
        shop = {"Name": "shop", "Address": "10.0.0.9", "Port": 80, "Check": {"TTL": "60s", "Status": "passing"}}
        for number in (1, 2):
            put(there, "/v1/agent/service/register", {**shop, "ID": f"shop-{number}", "Address": f"10.0.0.{number}"})
        put(here, "/v1/agent/service/register", {**shop, "Name": "cart", "ID": "cart-1"})

        before = run(here, "compare", *source, "-o", "json")
        assert before.returncode == 1, before.stderr
        assert {(row["instance"], row["differs"]) for row in json.loads(before.stdout)} == {
            ("cart-1", "only here"),
            ("shop-1", "only there"),
            ("shop-2", "only there"),
        }
        session = f"127.0.0.1:{ROLE_PORTS[Role.SESSION] + here}"
        words = command("import", *source, "--follow", "--session", session, "--only", "shop")
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as following:
            try:
                until(lambda: not run(here, "compare", *source, "--only", "shop").returncode, "they are equal")
                put(there, "/v1/agent/service/deregister/shop-1")
                until(lambda: "10.0.0.1:80" not in run(here, "get", "shop").stdout, "it is gone here, too")
                assert run(here, "compare", *source, "--only", "shop").stdout == "nothing differs\n"
            finally:
                following.terminate()
                said = following.communicate(timeout=PATIENCE)[1]
        assert "2 registered, 0 ended" in said
        assert "0 registered, 1 ended" in said
        assert "10.0.0.2:80" in run(here, "get", "shop").stdout, "what it has imported outlives it"


def test_an_address_where_nobody_listens_is_told_and_is_no_success() -> None:
    done = run(0, "import", "--from", "eureka", "http://127.0.0.1:9/eureka")
    assert done.returncode == 4
    assert "http://127.0.0.1:9/eureka/apps does not answer" in done.stderr
