"""What is released, in environments that hold nothing else."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotreeve_harness.free_ports import free_offset

from deploy.make_packages import build
from tests.deploy.environments import SECONDS, EmptyEnvironment
from tests.lints.rooms import ROOT

pytestmark = pytest.mark.processes
MOST_BYTES = 400_000
"""Of the client's wheel."""
USE_THE_CLIENT = """
import sys
from slotreeve_client import ClientOptions, connect_blocking

with connect_blocking(f"127.0.0.1:{7730 + int(sys.argv[1])}", options=ClientOptions(connect_seconds=60)) as client:
    client.publish("com.example.Greeter", "10.0.0.1:8080").acknowledged(timeout_seconds=60)
    print([bytes(each.data[0]).decode() for each in client.get("com.example.Greeter")])
"""
FIND_THE_PLUGIN = """
from slotreeve.catalogue import Catalogue

catalogue = Catalogue.load()
assert not catalogue.broken, catalogue.broken
print(sorted(each.offer.name for each in catalogue.listed))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every wheel and source archive."""
    directory = tmp_path_factory.mktemp("dist")
    assert len(build(directory)) == 8
    return directory


@pytest.fixture(scope="module")
def client(files: Path, tmp_path_factory: pytest.TempPathFactory) -> EmptyEnvironment:
    """An environment with the client."""
    environment = EmptyEnvironment(tmp_path_factory.mktemp("client"))
    environment.install("slotreeve-client", files=files)
    return environment


@pytest.fixture(scope="module")
def servers(files: Path, tmp_path_factory: pytest.TempPathFactory) -> EmptyEnvironment:
    """An environment with servers and the command line."""
    environment = EmptyEnvironment(tmp_path_factory.mktemp("servers"))
    environment.install("slotreeve", files=files)
    return environment


@pytest.fixture
def registry(servers: EmptyEnvironment) -> Iterator[int]:
    """A registry of the installed servers; what is added to its ports."""
    offset = free_offset(random.Random())
    command = servers.command("dev", "--port-offset", str(offset), "--until-eof")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            yield offset
        finally:
            process.communicate(timeout=SECONDS)
    assert process.returncode == 0


def test_the_client_alone_is_small_and_brings_nothing_that_serves_or_proves(
    files: Path, client: EmptyEnvironment
) -> None:
    (wheel,) = files.glob("slotreeve_client-*.whl")
    assert wheel.stat().st_size <= MOST_BYTES
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {
        "slotreeve",
        "slotreeve_client",
        "slotreeve_protocol",
        "slotreeve_transport_zmq",
    }
    assert not {"slotreeve", "pytest", "starlette", "typer", "pyspark"} & client.packages()
    assert not (client.directory / "bin/slotreeve").exists()


def test_the_client_alone_talks_to_servers_that_were_installed_beside_it(
    client: EmptyEnvironment, registry: int
) -> None:
    assert client.run([str(client.python), "-c", USE_THE_CLIENT, str(registry)]) == "['10.0.0.1:8080']\n"


def test_a_plugin_of_others_stands_on_the_wheel_of_the_client_alone(
    client: EmptyEnvironment, files: Path, tmp_path: Path
) -> None:
    build = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run([sys.executable, *build], cwd=ROOT / "examples/third_party_balancer", check=True)
    (wheel,) = tmp_path.glob("*.whl")
    client.install(str(wheel), files=files)
    assert "slotreeve" not in client.packages()
    assert "round_table" in client.run([str(client.python), "-c", FIND_THE_PLUGIN])


def test_servers_alone_say_which_extra_brings_what_they_lack(servers: EmptyEnvironment) -> None:
    assert not {"pytest", "pyspark", "slotreeve-proving"} & servers.packages()
    assert "pip install 'slotreeve[proving]'" in servers.run(servers.command("sim", "run"), fails=True)
    assert "pip install 'slotreeve[spark]'" in servers.run(servers.command("spark", "doctor"), fails=True)
    assert servers.run(servers.command("plugins", "list")).count("slotreeve") > 10


def test_every_command_has_a_help_without_what_is_not_installed(servers: EmptyEnvironment) -> None:
    shown = servers.run(servers.command("--help"))
    for command in ("dev", "cluster", "sim", "spark", "bench", "config"):
        assert command in shown
        assert "Usage" in servers.run(servers.command(command, "--help"))


def test_a_wheel_that_is_made_from_a_source_archive_is_the_same(files: Path, tmp_path: Path) -> None:
    for archive in sorted(files.glob("*.tar.gz")):
        unpacked = tmp_path / archive.name
        unpacked.mkdir()
        subprocess.run(["tar", "-xzf", str(archive), "--strip-components=1"], cwd=unpacked, check=True)
        made = tmp_path / "made"
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)],
            cwd=unpacked,
            check=True,
        )
    wheels = sorted(files.glob("*.whl"))
    assert [path.name for path in wheels] == sorted(path.name for path in made.iterdir())
    for wheel in wheels:
        assert (made / wheel.name).read_bytes() == wheel.read_bytes()
