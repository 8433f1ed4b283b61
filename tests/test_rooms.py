"""Who may import whom, read from the syntax trees; docs/architecture.md explains it.

``test_house_rules.py`` has the other rules of the house.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = {
    "slotreeve": "kernel",
    "slotreeve_protocol": "protocol",
    "slotreeve_machines": "machines",
    "slotreeve_events": "events",
    "slotreeve_servers": "servers",
    "slotreeve_client": "client",
    "slotreeve_console": "console",
    "slotreeve_gateway": "gateway",
    "slotreeve_conformance": "conformance",
    "slotreeve_simulator": "simulator",
    "slotreeve_harness": "harness",
    "slotreeve_chaos": "chaos",
    "slotreeve_spark": "spark",
    "slotreeve_bench": "bench",
    "slotreeve_demo": "demo",
    "slotreeve_cli": "cli",
} | {
    path.name: f"{path.parent.parent.name}/{path.parent.name}"
    for where in ("plugins", "faces")
    for path in ROOT.glob(f"{where}/*/slotreeve_*")
}
PLUGINS = {name for name, room in PACKAGES.items() if room.startswith("plugins/")}
FACES = {name for name, room in PACKAGES.items() if room.startswith("faces/")}

FOUNDATION = {"slotreeve", "slotreeve_protocol", "slotreeve_machines"}
REGISTRY = {*FOUNDATION, "slotreeve_events", "slotreeve_servers", "slotreeve_client"}
MAY_IMPORT: dict[str, set[str]] = {
    "slotreeve": set(),
    "slotreeve_protocol": {"slotreeve"},
    "slotreeve_machines": {"slotreeve", "slotreeve_protocol"},
    "slotreeve_events": {"slotreeve"},
    "slotreeve_servers": {*FOUNDATION, "slotreeve_events"},
    "slotreeve_client": {"slotreeve", "slotreeve_protocol"},
    # Elections are tested on the network that the memory transport talks over.
    "slotreeve_conformance": {*FOUNDATION, "slotreeve_transport_memory"},
    # The simulated cluster is made of the network that the memory transport talks over, and its meta servers may elect
    # by the lock election, put together with a simulated table.
    "slotreeve_simulator": {
        "slotreeve_gateway",
        *REGISTRY,
        "slotreeve_conformance",
        "slotreeve_transport_memory",
        "slotreeve_election_mysql",
    },
    # The stores of the election suite are the tables of the lock election: it copies them, and sets them back.
    "slotreeve_harness": {*REGISTRY, "slotreeve_conformance", "slotreeve_election_mysql"},
    "slotreeve_chaos": {*REGISTRY, "slotreeve_harness"},
    # The comparison of elections simulates them; the lock election is put together with a simulated table.
    "slotreeve_spark": {
        *REGISTRY,
        "slotreeve_conformance",
        "slotreeve_simulator",
        "slotreeve_election_mysql",
    },
    # Its light subscribers take large pushes from the transport without decoding them.
    "slotreeve_bench": {*REGISTRY, "slotreeve_harness", "slotreeve_transport_zmq"},
    "slotreeve_demo": {*REGISTRY, "slotreeve_harness"},
    "slotreeve_console": {"slotreeve", "slotreeve_servers"},
    # A face sees the registry through the gateway that it belongs to.
    "slotreeve_gateway": {*REGISTRY, "slotreeve_console"},
    "slotreeve_cli": {
        *REGISTRY,
        "slotreeve_console",
        "slotreeve_gateway",
        "slotreeve_simulator",
        "slotreeve_harness",
        "slotreeve_chaos",
        "slotreeve_spark",
        "slotreeve_bench",
        "slotreeve_demo",
    },
} | dict.fromkeys(PLUGINS, FOUNDATION)
for face in FACES:
    MAY_IMPORT[face] = {*FOUNDATION, "slotreeve_gateway"}

KERNEL_LIBRARIES = {"pluggy", "pydantic", "msgspec"}
ONLY_IN = {
    "zmq": {"slotreeve_transport_zmq"},
    "psycopg": {"slotreeve_election_mysql"},
    "pymysql": {"slotreeve_election_mysql"},
    "google_crc32c": {"slotreeve_slotfunc"},
    "xxhash": {"slotreeve_servers"},
    "typer": {"slotreeve_cli"},
    "rich": {"slotreeve_cli"},
    "structlog": {"slotreeve_cli"},
    "starlette": {"slotreeve_console", "slotreeve_gateway", *FACES},
    "uvicorn": {"slotreeve_console"},
    "trustme": set(),
    "dns": {"slotreeve_face_dns"},
    "prometheus_client": {"slotreeve_console"},
    "pyspark": {"slotreeve_spark"},
    "py4j": {"slotreeve_spark"},
    "pyarrow": {"slotreeve_spark"},
    "matplotlib": {"slotreeve_spark"},
    "pandas": {"slotreeve_spark"},
    "numpy": {"slotreeve_spark", "slotreeve_slotfunc"},
    "numba": {"slotreeve_slotfunc"},
    "hypothesis": {"slotreeve_conformance"},
    "pytest": {"slotreeve_conformance"},
}
HANDED_IN = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"},
    "random": {"random", "choice", "shuffle", "randrange", "randint", "sample", "uniform", "getrandbits"},
    "datetime": {"now", "utcnow", "today"},
}
EDGES = {
    # The clock itself; the disk itself; sockets and the driver's thread, which are edges.
    "kernel/slotreeve/clock.py",
    "machines/slotreeve_machines/storage.py",
    "machines/slotreeve_machines/beside.py",
}
EDGE_MODULES = {"socket", "threading", "subprocess", "selectors"}
RUNS_FOR_PEOPLE = {
    "slotreeve_conformance",
    "slotreeve_simulator",
    "slotreeve_harness",
    "slotreeve_chaos",
    "slotreeve_spark",
    "slotreeve_bench",
    "slotreeve_demo",
    "slotreeve_cli",
}
MAY_USE_EDGES = {"slotreeve_transport_zmq", "slotreeve_election_mysql", "slotreeve_console", *RUNS_FOR_PEOPLE}


def modules(package: str) -> Iterator[Path]:
    return (ROOT / PACKAGES[package] / package).rglob("*.py")


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Absolute module names that ``path`` imports anywhere in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the room"
            yield node.module or "", node.lineno


ALL_MODULES = [(package, path) for package in sorted(PACKAGES) for path in sorted(modules(package))]
IDS = [str(path.relative_to(ROOT)) for _, path in ALL_MODULES]


def test_there_are_rooms_to_look_at() -> None:
    assert {"slotreeve", "slotreeve_balancer", "slotreeve_election_fle", "slotreeve_slotfunc"} <= PACKAGES.keys()
    assert len(ALL_MODULES) > 60


@pytest.mark.parametrize(("package", "path"), ALL_MODULES, ids=IDS)
def test_a_module_imports_only_from_the_rooms_it_stands_on(package: str, path: Path) -> None:
    for module, line in imported(path):
        top = module.partition(".")[0]
        if top in PACKAGES and top != package:
            assert top in MAY_IMPORT[package], f"{path}:{line} imports {module}"
        if top in ONLY_IN:
            assert package in ONLY_IN[top], f"{path}:{line} imports {module}"


@pytest.mark.parametrize("path", sorted(modules("slotreeve")), ids=lambda path: path.name)
def test_the_kernel_stands_on_three_libraries_only(path: Path) -> None:
    import sys

    for module, line in imported(path):
        top = module.partition(".")[0]
        assert top in sys.stdlib_module_names | KERNEL_LIBRARIES | {"slotreeve"}, f"{path}:{line} imports {module}"


def test_meta_data_and_session_servers_do_not_know_each_other() -> None:
    roles = {"meta", "data", "session"}
    for path in modules("slotreeve_servers"):
        role = path.parent.name
        for module, line in imported(path):
            parts = module.split(".")
            if role in roles | {"node"} and parts[0] == "slotreeve_servers" and len(parts) > 1:
                assert parts[1] in {role, "node", "settings"}, f"{path}:{line} imports {module}"


@pytest.mark.parametrize("package", sorted(PLUGINS))
def test_a_plugins_front_door_imports_the_kernel_only(package: str) -> None:
    path = ROOT / PACKAGES[package] / package / "__init__.py"
    tree = ast.parse(path.read_text())
    top_level = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {(n.module or "") if isinstance(n, ast.ImportFrom) else n.names[0].name for n in top_level}
    foreign = {n.partition(".")[0] for n in names} - FOUNDATION - {"__future__", "collections", "typing", "pydantic"}
    assert foreign <= {package}, f"{path} imports {foreign} before anybody chose the plugin"
    own = {n for n in names if n.partition(".")[0] == package}
    for name in own:
        below = ROOT / PACKAGES[package] / Path(*name.split(".")).with_suffix(".py")
        assert not {m.partition(".")[0] for m, _ in imported(below)} & ONLY_IN.keys(), f"{path} imports {name}"


@pytest.mark.parametrize(("package", "path"), ALL_MODULES, ids=IDS)
def test_time_chance_sockets_and_threads_are_handed_in(package: str, path: Path) -> None:
    if str(path.relative_to(ROOT)) in EDGES or package in RUNS_FOR_PEOPLE:
        return
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            forbidden = HANDED_IN.get(node.value.id, set())
            assert node.attr not in forbidden, f"{path}:{node.lineno} uses {node.value.id}.{node.attr}"
    if package not in MAY_USE_EDGES and path.name not in {"threads.py", "callback_thread.py"}:
        for module, line in imported(path):
            assert module.partition(".")[0] not in EDGE_MODULES, f"{path}:{line} imports {module}"


def test_nobody_imports_a_folder_name() -> None:
    for _, path in ALL_MODULES:
        for module, line in imported(path):
            assert module.partition(".")[0] not in {"kernel", "plugins", "servers", "spark"}, f"{path}:{line}"


def test_every_package_is_regular_typed_and_shipped() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hatch = project["tool"]["hatch"]["build"]
    assert sorted(hatch["targets"]["wheel"]["packages"]) == sorted(f"{r}/{p}" for p, r in PACKAGES.items())
    assert sorted(hatch["dev-mode-dirs"]) == sorted(PACKAGES.values())
    for package, room in PACKAGES.items():
        assert (ROOT / room / package / "py.typed").exists(), package
        for folder in {path.parent for path in modules(package)}:
            assert (folder / "__init__.py").exists(), folder


def test_every_plugin_in_the_tree_is_an_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["entry-points"]["slotreeve"].values()) == PLUGINS | FACES


def test_pins_are_names_and_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or line.count("==") == 1, line
        assert "/" not in line.partition("#")[0], line
