"""A Spark session for the whole run, and wheels of plugins, good and bad."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_spark.doctor import examine
from slotreeve_spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party_balancer"

QUICK = {
    # These tests move little data: what the JVM spends on compiling queries and itself is most of their time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

BAD_PLUGINS = """
import os, time
from slotreeve import Draft, Offer, Plan, Slot, SlotTable, hookimpl


class Function:
    def __init__(self, kind, slots):
        self.kind, self.slots = kind, slots

    def slot_of(self, key):
        if self.kind == "raising":
            raise ValueError("this key is not to my taste")
        while self.kind == "hanging":
            time.sleep(0.01)
        if self.kind == "crashing":
            os._exit(7)
        return self.slots if self.kind == "outside" else 0


class Disagreeing:
    def __init__(self, slots):
        pass

    def slot_of(self, key):
        return 0

    def slots_of(self, keys):
        return [1] * len(keys)


class Balancer:
    def __init__(self, kind):
        self.kind = kind

    def balance(self, table, servers, limits):
        if self.kind == "raising":
            raise ValueError("this table is not to my taste")
        while self.kind == "hanging":
            try:
                time.sleep(0.01)
            except BaseException:
                pass
        if self.kind == "crashing":
            os._exit(7)
        draft = Draft(table, servers)
        draft.unfollow(0, draft.followers(0)[0], "nobody needs two copies")
        return draft.plan()


def offer(kind, make):
    return Offer(kind, make, "for tests")


@hookimpl
def slotreeve_slot_functions():
    kinds = ("raising", "hanging", "crashing", "outside", "constant")
    return [
        *(Offer(kind, lambda o, c, kind=kind: Function(kind, c.slots), "for tests") for kind in kinds),
        Offer("disagreeing", lambda o, c: Disagreeing(c.slots), "for tests"),
    ]


@hookimpl
def slotreeve_balancers():
    kinds = ("raising", "hanging", "crashing", "invalid")
    return [Offer(kind, lambda o, c, kind=kind: Balancer(kind), "for tests") for kind in kinds]
"""


def wheel(directory: Path, package: str, files: Mapping[str, str]) -> Path:
    """A wheel as a build would make it, as far as imports and entry points go."""
    path = directory / f"{package}-0.1.0-py3-none-any.whl"
    info = f"{package}-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{package}/{name}", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", f"[slotreeve]\n{package} = {package}\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(scope="session")
def bad_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheels"), "slotreeve_bad_plugins", {"__init__.py": BAD_PLUGINS})


@pytest.fixture(scope="session", autouse=True)
def the_java_of_this_process_ends() -> Iterator[None]:
    """It would end with this process, too; a test that leaves it running would not be noticed then."""
    yield
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)


@pytest.fixture(scope="session")
def example_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of a third party's distribution, built as a third party would build it."""
    directory = tmp_path_factory.mktemp("wheels")
    source = shutil.copytree(EXAMPLE, directory / "source")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = directory.glob("*.whl")
    return built


def must_have_java() -> None:
    bad = [finding for finding in examine() if not finding.good]
    if bad:
        reason = "; ".join(finding.problem for finding in bad)
        if os.environ.get("CI") == "true":
            pytest.fail(f"Spark cannot run here: {reason}")
        pytest.skip(f"Spark cannot run here: {reason}")


@pytest.fixture(scope="session")
def java() -> None:
    must_have_java()


@pytest.fixture(scope="session")
def spark(java: None, bad_wheel: Path, example_wheel: Path) -> Iterator[SparkSession]:
    from slotreeve_spark.shipping import open_wheels, ship

    session = open_session("local[2]", {**QUICK, "spark.driver.memory": "1g"})
    ship(session, open_wheels([bad_wheel, example_wheel]))
    yield session
    session.stop()
