"""The cluster of the Kubernetes manifests, without Kubernetes: each pod's command, variables and files as a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.manifests import PodOfManifest, files_of, made_by_the_page, operator, pods, rendered
from tests.deploy.without_engine import Container, EngineStandIn

pytestmark = pytest.mark.processes
PROBE = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"


def container(pod: PodOfManifest, sources: dict[tuple[str, str], Path], directory: Path) -> Container:
    writable = directory / "volumes" / pod.name
    writable.mkdir(parents=True, exist_ok=True)
    # A pod has addresses of its own; these share a network, so each listens at that of its name instead of at all.
    own = {name: value.replace("0.0.0.0:", f"{pod.name}.{pod.role}:") for name, value in pod.variables.items()}
    return Container(pod.name, pod.arguments, own, pod.mounts(sources, writable))


@pytest.fixture(params=["base", "small"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[EngineStandIn, dict[str, Container]]]:
    objects = rendered(request.param)
    sources = {}
    for each in [*objects, *made_by_the_page(tmp_path)]:
        if each["kind"] in ("ConfigMap", "Secret"):
            place = tmp_path / each["kind"] / each["metadata"]["name"]
            place.mkdir(parents=True)
            for name, content in files_of(each).items():
                (place / name).write_bytes(content)
                (place / name).chmod(0o440)
            sources[each["kind"], each["metadata"]["name"]] = place
    every = [*pods(objects), PodOfManifest("operator", "operator", operator()["spec"])]
    hosts = [[f"{one.name}.{one.role}.slotreeve.svc", f"{one.name}.{one.role}", one.name] for one in every]
    (tmp_path / "engine").mkdir()
    with ExitStack() as stack:
        engine = stack.enter_context(EngineStandIn(hosts, tmp_path / "engine"))
        yield engine, {pod.name: container(pod, sources, tmp_path) for pod in every}


def test_its_pods_are_ready_by_their_probes_carry_a_publish_and_hand_over(
    cluster: tuple[EngineStandIn, dict[str, Container]],
) -> None:
    engine, every = cluster
    tools = every.pop("operator")
    for name in ("meta-0", "data-0", "session-0", "gateway-0"):
        checked = engine.run(every[name], "slotreeve", "config", "check")
        assert checked.returncode == 0, checked.stderr
    servers = {name: engine.start(one) for name, one in every.items()}

    def is_ready(name: str) -> None:
        """As a kubelet finds out: by the address of the pod, from outside of it."""
        role = name.partition("-")[0]
        port = {"meta": 7711, "data": 7721, "session": 7731, "gateway": 7741}[role]
        for page, says in (("readyz", "ready"), ("livez", "ok")):
            engine.until(tools, "python", "-c", PROBE, f"http://{name}.{role}:{port}/{page}", says=says)

    for name in every:
        is_ready(name)
    engine.until(tools, "slotreeve", "status", says="is well")
    watching = engine.start(Container("watching", ["subscribe", "shop", "--for", "90"], tools.variables, tools.mounts))
    engine.start(
        Container("selling", ["publish", "shop", "10.0.0.1:8080", "--for", "90"], tools.variables, tools.mounts)
    )
    watching.wait_until_it_says("10.0.0.1:8080")

    servers["data-1"].ask_to_stop()
    assert servers["data-1"].wait() == 0, servers["data-1"].said()[-2_000:]
    servers["data-1"] = engine.start(every["data-1"], name="data-1-again")
    is_ready("data-1")
    assert "10.0.0.1:8080" in engine.run(tools, "slotreeve", "get", "shop").stdout
    assert not [name for name, one in servers.items() if "Traceback" in one.said()]
