"""Builds what is released, a wheel and a source archive of each package: ``python -m deploy.make_packages --out dist``.

A clone is one project with every room. It is released as four packages, so that who needs the client alone does not
install servers, and who runs servers does not install what proves them. Each is built from a directory that holds its
own rooms only, at the places where they are in the clone: so a wheel that is made from a source archive is the same.
Bounds of libraries, entry points and the version are those of the clone's ``pyproject.toml`` and of the kernel.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.bill_of_materials import FILE, bill_of_materials

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Package:
    """What is released under one name.

    Attributes:
        name: as it is installed.
        summary: what it is, in one sentence.
        rooms: its import packages.
        needs: packages of ours that it needs, of the same version.
        libraries: names of libraries that it needs.
        optional: extras, each with its packages of ours or, where none is named, the libraries of the clone's extra.
        readme: the file that describes it; empty: the summary alone.
    """

    name: str
    summary: str
    rooms: Sequence[str]
    needs: Sequence[str]
    libraries: Sequence[str]
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)
    readme: str = ""


KINDS = frozenset({".py", ".typed", ".template", ".toml", ".json", ".html", ".css", ".js", ".svg", ".properties"})
"""Endings of what is released: modules and the files that they read."""
PACKAGES = (
    Package(
        "slotreeve-client",
        "The client of the service registry slotreeve, for asyncio and for threads; what plugins import",
        ("slotreeve", "slotreeve_protocol", "slotreeve_client", "slotreeve_transport_zmq"),
        (),
        ("msgspec", "pydantic", "pluggy", "pyzmq"),
        {"fast": (), "httpx": (), "grpc": ()},
        "client/README.md",
    ),
    Package(
        "slotreeve",
        "A sharded service registry with an elected keeper of the slot table and swappable plugins",
        (
            "slotreeve_machines",
            "slotreeve_events",
            "slotreeve_servers",
            "slotreeve_console",
            "slotreeve_gateway",
            "slotreeve_mirror",
            "slotreeve_cli",
            "slotreeve_slotfunc",
            "slotreeve_balancer",
            "slotreeve_election_fle",
            "slotreeve_election_mysql",
            "slotreeve_transport_memory",
            "slotreeve_face_rest",
            "slotreeve_face_prometheus",
            "slotreeve_face_envoy",
            "slotreeve_face_admin",
            "slotreeve_face_consul",
            "slotreeve_face_eureka",
            "slotreeve_face_dns",
            "slotreeve_face_console",
            "slotreeve_harness",
            "slotreeve_demo",
        ),
        ("slotreeve-client",),
        (
            "msgspec",
            "pydantic",
            "pluggy",
            "google-crc32c",
            "xxhash",
            "typer",
            "rich",
            "structlog",
            "starlette",
            "uvicorn",
            "prometheus-client",
            "httptools",
            "dnspython",
            "jinja2",
            "markupsafe",
        ),
        {
            "fast": (),
            "sql": (),
            "oidc": (),
            "migrate": (),
            "columns": (),
            "proving": ("slotreeve-proving",),
            "spark": ("slotreeve-spark",),
        },
        "README.md",
    ),
    Package(
        "slotreeve-proving",
        "Proofs for slotreeve and its plugins: contracts for pytest, the simulator, chaos, measurements, hostile input",
        (
            "slotreeve_conformance",
            "slotreeve_simulator",
            "slotreeve_chaos",
            "slotreeve_bench",
            "slotreeve_fuzz",
            "slotreeve_testing",
        ),
        ("slotreeve", "slotreeve-client"),
        ("msgspec", "pydantic", "pytest", "hypothesis"),
    ),
    Package(
        "slotreeve-spark",
        "The event log of slotreeve as tables, and its plugins compared, on Spark",
        ("slotreeve_spark",),
        ("slotreeve", "slotreeve-client", "slotreeve-proving"),
        ("msgspec", "pyspark", "pandas", "pyarrow", "numpy", "matplotlib"),
    ),
)


@dataclass(frozen=True)
class Clone:
    """What the clone says of itself."""

    folder: Path
    version: str
    project: Mapping[str, Any]
    rooms: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path = ROOT) -> Clone:
        """Read ``pyproject.toml`` and the version of the kernel."""
        tools = tomllib.loads((folder / "pyproject.toml").read_text())
        source = (folder / tools["tool"]["hatch"]["version"]["path"]).read_text()
        found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
        assert found is not None, "the kernel has no __version__"
        rooms = {
            path.rpartition("/")[2]: path for path in tools["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
        }
        return cls(folder, found[1], tools["project"], rooms)

    def bounds(self) -> dict[str, str]:
        """The requirement of each library, by the library's name."""
        extras = self.project["optional-dependencies"].values()
        every = [*self.project["dependencies"], *(each for extra in extras for each in extra)]
        return {name_of(each): each for each in every}


def name_of(requirement: str) -> str:
    """The name in a requirement such as ``httpx>=0.28``, without its extras."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found[0]


def project_of(package: Package, clone: Clone) -> str:
    """The ``pyproject.toml`` of a package."""
    bounds = clone.bounds()
    dependencies = [*_same_version(package.needs, clone), *(bounds[each] for each in package.libraries)]
    extras = {
        extra: _same_version(ours, clone) or clone.project["optional-dependencies"][extra]
        for extra, ours in package.optional.items()
    }
    lines = [
        "[build-system]",
        'requires = ["hatchling>=1.28"]',
        'build-backend = "hatchling.build"',
        "",
        "[project]",
        f"name = {_toml(package.name)}",
        f"version = {_toml(clone.version)}",
        f"description = {_toml(package.summary)}",
        'readme = "README.md"',
        f"requires-python = {_toml(clone.project['requires-python'])}",
        f"license = {_toml(clone.project['license'])}",
        'license-files = ["LICENSE"]',
        f"dependencies = {_toml(dependencies)}",
        "",
        "[project.optional-dependencies]",
        *(f"{extra} = {_toml(needed)}" for extra, needed in extras.items()),
    ]
    tables = {"scripts": clone.project["scripts"]} | {
        f"entry-points.{group}": points for group, points in clone.project["entry-points"].items()
    }
    for table, points in tables.items():
        own = {key: at for key, at in points.items() if at.partition(":")[0].partition(".")[0] in package.rooms}
        if own:
            lines += ["", f"[project.{table}]", *(f"{key} = {_toml(at)}" for key, at in own.items())]
    folders = [clone.rooms[room] for room in package.rooms]
    lines += ["", "[tool.hatch.build.targets.wheel]", f"packages = {_toml(folders)}", f"sbom-files = {_toml([FILE])}"]
    return "\n".join([*lines, ""])


def _same_version(names: Iterable[str], clone: Clone) -> list[str]:
    return [f"{name}=={clone.version}" for name in names]


def _toml(value: object) -> str:
    # A string or an array of strings of JSON is one of TOML.
    return json.dumps(value, ensure_ascii=False)


def _left_out(directory: str, names: list[str]) -> list[str]:
    """What lies about in a clone and belongs to no package."""
    return [
        name
        for name in names
        if name == "__pycache__" or ((Path(directory) / name).is_file() and Path(name).suffix not in KINDS)
    ]


def lay_out(package: Package, clone: Clone, directory: Path) -> None:
    """Write everything that a package is built from into an empty directory."""
    for room in package.rooms:
        folder = clone.rooms[room]
        shutil.copytree(clone.folder / folder, directory / folder, ignore=_left_out)
    (directory / "pyproject.toml").write_text(project_of(package, clone))
    described = (clone.folder / package.readme).read_text() if package.readme else f"{package.summary}.\n"
    (directory / "README.md").write_text(described)
    shutil.copy(clone.folder / "LICENSE", directory)
    bounds = [clone.bounds()[each] for each in package.libraries]
    bill = bill_of_materials(package.name, clone.version, clone.project["license"], bounds, package.needs)
    (directory / FILE).write_text(bill)


def build(out: Path, only: Sequence[str] = ()) -> list[Path]:
    """Build these packages, or all. Returns the files, a source archive and a wheel of each."""
    clone, out = Clone.read(), out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for path in [*out.glob("slotreeve*.whl"), *out.glob("slotreeve*.tar.gz")]:
        path.unlink()  # of another version, perhaps
    for package in PACKAGES:
        if only and package.name not in only:
            continue
        with tempfile.TemporaryDirectory() as directory:
            lay_out(package, clone, Path(directory))
            command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(out)]
            subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    names = {package.name.replace("-", "_") for package in PACKAGES if not only or package.name in only}
    return sorted(path for path in out.iterdir() if path.name.split(f"-{clone.version}")[0] in names)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description="Build what is released: a wheel and a source archive of each package."
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="directory for the files (dist)")
    names = [package.name for package in PACKAGES]
    parser.add_argument("--only", action="append", default=[], choices=names, help="build this one; may be repeated")
    chosen = parser.parse_args(arguments)
    for path in build(chosen.out, chosen.only):
        print(f"{path.stat().st_size / 1000:8.1f} kB  {path.name}")


if __name__ == "__main__":
    main()
