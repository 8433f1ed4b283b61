"""The image, built from its Dockerfile without an engine upon a Debian that stands for the base, and run as an engine
would run it: an account without rights, nothing to write but the volume."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_offset

from tests.deploy.debian_roots import Contained, debian, way_to_packages
from tests.deploy.dockerfiles import Builder, Stage, parsed
from tests.deploy.wheels import make_wheels

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0
# As in the image that the Dockerfile begins with: python, pip, and certificates.
OF_BASE = ("python3", "python3-venv", "python3-pip", "python-is-python3", "ca-certificates")


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return parsed((ROOT / "deploy/image/Dockerfile").read_text(encoding="utf-8"))[1]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, stages: list[Stage]) -> Iterator[Path]:
    scratch = tmp_path_factory.mktemp("image")
    context = scratch / "context"
    (context / "deploy").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy/image", context / "deploy/image")
    for name in (".dockerignore", "constraints.txt"):
        shutil.copyfile(ROOT / name, context / name)
    make_wheels(context / "dist")
    base = debian(scratch / "base.tar", OF_BASE)
    builder = Builder(base, context, scratch, way_to_packages)
    yield builder.build(stages)
    shutil.rmtree(scratch)


def test_a_cluster_of_the_image_runs_without_rights_and_stops_in_order(
    image: Path, stages: list[Stage], tmp_path: Path
) -> None:
    final = stages[-1]
    user, entry = final.last("USER").text, final.last("ENTRYPOINT").words
    check = final.last("HEALTHCHECK").text.partition("CMD ")[2].strip('[]"').split('", "')
    (volume,) = final.last("VOLUME").words
    offset = free_offset(random.Random())
    given = {
        **final.variables(),
        "SLOTREEVE__CLUSTER__META": f'{{"meta-1": "127.0.0.1:{7710 + offset}"}}',
        "SLOTREEVE__NODE__PORT_OFFSET": str(offset),
        "SLOTREEVE__GATEWAY__SESSIONS": f"127.0.0.1:{7730 + offset}",
        "SLOTREEVE__CLUSTER__REPLICAS": "1",
    }
    ports = {"meta": 7711, "data": 7721, "session": 7731, "gateway": 7741}

    def container(role: str, command: list[str]) -> Contained:
        own = tmp_path / role
        if not own.exists():
            own.mkdir()
            own.chmod(0o700)
            shutil.chown(own, *map(int, user.split(":")))
        mine = {**given, "SLOTREEVE__HTTP__LISTEN": f"127.0.0.1:{ports[role] + offset}"}
        return Contained(image, command, user, mine, {own: volume})

    with ExitStack() as stack:
        running = {
            role: stack.enter_context(
                container(role, [*entry, role, "run", "--name", f"{role}-1"]).started(tmp_path / f"{role}.log")
            )
            for role in ports
        }
        deadline = time.monotonic() + PATIENCE
        for role, server in running.items():
            while (done := container(role, [*check, "--ready"]).run()).returncode:
                assert time.monotonic() < deadline, server.said() + done.stdout + done.stderr
            assert container(role, check).run().stdout == "ok\n"
            uids = [line for line in Path(f"/proc/{server.pid}/status").read_text().splitlines() if "Uid" in line]
            assert uids[0].split()[1:] == [user.partition(":")[0]] * 4
        registry = ["--session", f"127.0.0.1:{7730 + offset}"]
        shop = container("session", [*entry, "publish", "shop", "10.0.0.1:80", "--for", "60", *registry])
        with shop.started(tmp_path / "shop.log"):
            while "10.0.0.1:80" not in (seen := container("session", [*entry, "get", "shop", *registry]).run()).stdout:
                assert time.monotonic() < deadline, seen.stdout + seen.stderr + shop.said()
        touch = container("data", ["touch", "/opt/slotreeve/x"]).run()
        assert "Read-only file system" in touch.stderr
        for role in ("gateway", "session", "data", "meta"):
            assert running[role].stop() == 0, running[role].said()
            assert "Traceback" not in running[role].said()
        assert container("meta", check).run().returncode == 4
    assert (tmp_path / "meta/meta-1").is_dir()
    assert (tmp_path / "data/history").is_dir()
