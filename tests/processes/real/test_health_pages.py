"""The pages of real server processes: a load balancer sees a server come, work and go."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from slotreeve.model.nodes import Role
from slotreeve_harness.free_ports import free_address
from slotreeve_harness.processes import ClusterSize, LocalCluster, ServerProcess
from slotreeve_servers.launch import HTTP_PORT_OFFSET

PATIENCE = 60.0


def page(server: ServerProcess, path: str) -> httpx.Response | None:
    """The answer; None while nothing listens there."""
    host, _, port = server.address.rpartition(":")
    try:
        return httpx.get(f"http://{host}:{int(port) + HTTP_PORT_OFFSET}{path}", timeout=PATIENCE)
    except httpx.TransportError:
        return None


def wait_for(server: ServerProcess, path: str, status: int | None) -> str:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = page(server, path)
        if (answer.status_code if answer is not None else None) == status:
            return answer.text if answer is not None else ""
        time.sleep(0.05)
    raise AssertionError(f"{server.name} did not answer {path} with {status}: {server.tail()}")


def wait_for_ready_metrics(server: ServerProcess) -> None:
    """A data server is ready before there is a table, and takes slots over a moment later."""
    deadline, values = time.monotonic() + PATIENCE, set[float]()
    while values != {1.0}:
        assert time.monotonic() < deadline, f"{server.name} has the checks {values}: {server.tail()}"
        families = text_string_to_metric_families(wait_for(server, "/metrics", 200))
        values = {sample.value for family in families if family.name == "slotreeve_ready" for sample in family.samples}


def test_a_server_tells_when_it_is_ready_when_it_is_cut_off_and_that_it_lives(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, ClusterSize(1, 1, 1), {"http.enabled": True, "cluster.replicas": 1})
    meta, data, session = (cluster.of(role)[0] for role in (Role.META, Role.DATA, Role.SESSION))
    with cluster:
        wait_for(meta, "/leader", 200)
        for server in (meta, data, session):
            assert "ready\n" in wait_for(server, "/readyz?verbose", 200)
            wait_for_ready_metrics(server)
        data.kill()
        assert "[-] leaders: " in wait_for(session, "/readyz", 503)
        assert wait_for(session, "/livez", 200) == "ok\n"
        session.stop()
        wait_for(session, "/livez", None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"http.listen": "0.0.0.0:{port}"}, "0.0.0.0:{port} can be reached from other machines"),
        ({"http.listen": "nowhere"}, "'nowhere' is not host:port"),
        ({"node.advertise": "127.0.0.1:65535"}, "leaves no port for HTTP, which listens 1 above it"),
    ],
    ids=["open to the world", "no address", "no port"],
)
def test_an_address_that_cannot_be_is_refused_in_one_line(
    tmp_path: Path, settings: dict[str, str], message: str
) -> None:
    port = free_address().rpartition(":")[2]
    given = {key: value.format(port=port) for key, value in settings.items()}
    cluster = LocalCluster(tmp_path, ClusterSize(1, 0, 1), {"http.enabled": True})
    session = cluster.of(Role.SESSION)[0]
    session.command += [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    session.start()
    deadline = time.monotonic() + PATIENCE
    while session.is_running and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session.has_failed
    said = session.tail()
    session.stop()
    assert message.format(port=port) in said
    assert "Traceback" not in said
