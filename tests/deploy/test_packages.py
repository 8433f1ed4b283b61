"""What is released: each room in one package, and each package complete by itself."""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import cyclonedx.schema
import jsonschema_rs
import pytest
from slotreeve_cli.main import ELSEWHERE

from deploy import make_deb
from deploy.bill_of_materials import FILE, bill_of_materials
from deploy.make_packages import KINDS, PACKAGES, Clone, Package, lay_out, name_of, project_of
from tests.lints.rooms import PACKAGES as ROOMS
from tests.lints.rooms import ROOT

CLONE = Clone.read()
BY_NAME = {package.name: package for package in PACKAGES}
IMPORTED_AS = {
    "google_crc32c": "google-crc32c",
    "zmq": "pyzmq",
    "prometheus_client": "prometheus-client",
    "dns": "dnspython",
    "psycopg": "psycopg",
    "pymysql": "PyMySQL",
    "jwt": "pyjwt",
    "grpc": "grpcio",
    "py4j": "pyspark",
}
"""Names of libraries that are not those of their modules."""
OF_DEVELOPERS = {"atheris"}
"""What only a clone has: without it ``slotreeve_fuzz`` says so."""


def normal(name: str) -> str:
    """The name of a library as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(package: Package) -> set[str]:
    """The top names of everything that the modules of a package import, at their top or inside functions."""
    found = set[str]()
    for room in package.rooms:
        for path in (ROOT / CLONE.rooms[room]).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    found |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names


def extras_of(package: Package) -> set[str]:
    """Libraries that extras of a package, and of those that it needs, bring."""
    every = [package, *(BY_NAME[name] for name in package.needs)]
    extras = [extra for each in every for extra, ours in each.optional.items() if not ours]
    return {name_of(each) for extra in extras for each in CLONE.project["optional-dependencies"][extra]}


def test_every_room_is_in_one_package() -> None:
    assert sorted(room for package in PACKAGES for room in package.rooms) == sorted(ROOMS)
    assert {room: path.rpartition("/")[0] for room, path in CLONE.rooms.items()} == ROOMS


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_imports_only_what_it_needs(package: Package) -> None:
    rooms = {room for name in [package.name, *package.needs] for room in BY_NAME[name].rooms}
    libraries = {*package.libraries, *extras_of(package), *OF_DEVELOPERS}
    others = imported(package) - rooms
    if "slotreeve_cli" in package.rooms:
        others -= {*ELSEWHERE}
    assert {IMPORTED_AS.get(module, module) for module in others} <= libraries


def test_all_that_the_clone_needs_is_needed_by_a_package() -> None:
    assert {each for package in PACKAGES for each in package.libraries} >= {
        name_of(each) for each in CLONE.project["dependencies"]
    }


def test_the_client_needs_four_libraries_and_nothing_that_proves_or_serves() -> None:
    client = BY_NAME["slotreeve-client"]
    assert len(client.libraries) <= 4
    assert not client.needs
    assert not {room for room in client.rooms if room.rpartition("_")[2] in ("servers", "simulator", "conformance")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_laid_out_as_its_project_says(package: Package, tmp_path: Path) -> None:
    lay_out(package, CLONE, tmp_path)
    project = tomllib.loads(project_of(package, CLONE))
    assert project["project"]["version"] == CLONE.version
    for folder in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (tmp_path / folder / "__init__.py").exists()
        assert (tmp_path / folder / "py.typed").exists()
    assert (tmp_path / "README.md").read_text().strip()
    assert not [*tmp_path.rglob("__pycache__")]


def test_what_lies_about_in_the_clone_is_in_no_package(tmp_path: Path) -> None:
    strange = ROOT / "client/slotreeve_client/.env-of-a-test"
    strange.write_text("SECRET=1")
    try:
        lay_out(BY_NAME["slotreeve-client"], CLONE, tmp_path)
    finally:
        strange.unlink()
    found = {path.relative_to(tmp_path) for path in (tmp_path / "client").rglob("*") if path.is_file()}
    assert Path("client/slotreeve_client/client.py") in found
    assert Path("client/slotreeve_client/.env-of-a-test") not in found


def test_only_the_package_for_proofs_brings_a_plugin_of_pytest_and_only_servers_the_command() -> None:
    projects = {package.name: tomllib.loads(project_of(package, CLONE))["project"] for package in PACKAGES}
    plugins = {name for name, project in projects.items() if "pytest11" in project.get("entry-points", {})}
    commands = {name for name, project in projects.items() if "scripts" in project}
    assert (plugins, commands) == ({"slotreeve-proving"}, {"slotreeve"})
    points = [point for project in projects.values() for point in project.get("entry-points", {}).get("slotreeve", {})]
    assert sorted(points) == sorted(CLONE.project["entry-points"]["slotreeve"])


def test_the_command_line_imports_what_is_elsewhere_only_inside_functions() -> None:
    for path in (ROOT / CLONE.rooms["slotreeve_cli"]).rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            modules = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set[str]()
            if isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module)
            assert not {module.partition(".")[0] for module in modules} & {*ELSEWHERE}, f"{path}:{node.lineno}"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_bill_of_materials_names_each_library_in_the_version_that_was_tested(
    package: Package, tmp_path: Path
) -> None:
    lay_out(package, CLONE, tmp_path)
    text = (tmp_path / FILE).read_text()
    found = {normal(each["name"]): each["version"] for each in json.loads(text)["components"]}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {normal(name): version for name, _, version in (line.partition("==") for line in lines)}
    pinned |= dict.fromkeys(package.needs, CLONE.version)
    assert {*map(normal, package.libraries), *package.needs} <= {*found}
    assert {name: pinned[name] for name in found} == found
    again = tmp_path / "again"
    again.mkdir()
    lay_out(package, CLONE, again)
    assert (again / FILE).read_text() == text


def test_a_bill_of_materials_keeps_its_schema() -> None:
    schemas = Path(cyclonedx.schema.__file__).parent / "_res"
    read = {name: json.loads((schemas / f"{name}.SNAPSHOT.schema.json").read_text()) for name in ("spdx", "jsf-0.82")}
    registry = jsonschema_rs.Registry(
        [(f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json", schema) for name, schema in read.items()]
    )
    schema = json.loads((schemas / "bom-1.6.SNAPSHOT.schema.json").read_text())
    good = jsonschema_rs.validator_for(schema, registry=registry)
    (client, *_) = PACKAGES
    bounds = [CLONE.bounds()[each] for each in client.libraries]
    bill = json.loads(bill_of_materials(client.name, CLONE.version, "Apache-2.0", bounds, ["slotreeve"]))
    good.validate(bill)
    assert not good.is_valid(bill | {"components": [{"name": "x"}]})


def test_every_kind_of_file_that_a_room_has_is_released() -> None:
    kinds = {path.suffix for room in CLONE.rooms.values() for path in (ROOT / room).rglob("*") if path.is_file()}
    assert kinds - {".pyc"} <= KINDS


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.2.0", "0.2.0"),
        ("0.2.0.dev0", "0.2.0~dev0"),
        ("0.2.0rc1", "0.2.0~rc1"),
        ("0.2.0b2.dev3", "0.2.0~b2~dev3"),
        ("0.2.0.post1", "0.2.0.post1"),
    ],
)
def test_a_candidate_is_less_than_its_release_to_debian_too(version: str, expected: str) -> None:
    assert make_deb.debian(version) == expected
