"""The rooms of the tree, and what each may import: the one list that all other lists are checked against.

docs/architecture.md explains it. A folder below ``plugins/`` is a room without being named here.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FOUNDATION = {"slotreeve", "slotreeve_protocol", "slotreeve_machines"}
REGISTRY = {*FOUNDATION, "slotreeve_events", "slotreeve_servers", "slotreeve_client"}

MAY_IMPORT: dict[str, set[str]] = {
    "slotreeve": set(),
    "slotreeve_protocol": {"slotreeve"},
    "slotreeve_machines": {"slotreeve", "slotreeve_protocol"},
    "slotreeve_events": {"slotreeve", "slotreeve_protocol"},
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
    "slotreeve_harness": {*REGISTRY},
    # The stores of the election suite are the tables of the lock election: it copies them, and sets them back.
    "slotreeve_chaos": {*REGISTRY, "slotreeve_harness", "slotreeve_conformance", "slotreeve_election_mysql"},
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
    # A simulated cluster, and a gateway on real sockets; it tells where DNS listens.
    "slotreeve_testing": {
        *REGISTRY,
        "slotreeve_gateway",
        "slotreeve_conformance",
        "slotreeve_simulator",
        "slotreeve_harness",
        "slotreeve_transport_memory",
        "slotreeve_face_dns",
    },
    # It decodes what each of them reads of others.
    "slotreeve_fuzz": {
        *REGISTRY,
        "slotreeve_gateway",
        "slotreeve_election_fle",
        "slotreeve_face_consul",
        "slotreeve_face_dns",
        "slotreeve_face_eureka",
    },
    "slotreeve_console": {"slotreeve", "slotreeve_servers"},
    # It reads what others say of an instance as the faces do: an application that moves takes its lease over.
    "slotreeve_mirror": {
        "slotreeve",
        "slotreeve_protocol",
        "slotreeve_client",
        "slotreeve_face_consul",
        "slotreeve_face_eureka",
    },
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
        "slotreeve_mirror",
    },
}
"""What each package may import of ours. Its room is the folder in which it is."""


def _folder_of(package: str) -> str:
    (front,) = [*ROOT.glob(f"*/{package}/__init__.py"), *ROOT.glob(f"proving/*/{package}/__init__.py")]
    return str(front.parents[1].relative_to(ROOT))


_BELOW_PLUGINS = {path.name: f"plugins/{path.parent.name}" for path in sorted(ROOT.glob("plugins/*/slotreeve_*"))}
FACES = {package: folder for package, folder in _BELOW_PLUGINS.items() if package.startswith("slotreeve_face_")}
PLUGINS = {package: folder for package, folder in _BELOW_PLUGINS.items() if package not in FACES}
PACKAGES = {package: _folder_of(package) for package in MAY_IMPORT} | PLUGINS | FACES
"""The folder of each package."""
MAY_IMPORT |= dict.fromkeys(PLUGINS, FOUNDATION) | {
    # What operators read and order is computed in the client, for the command line and for faces; what happened is told
    # by the events.
    face: {*FOUNDATION, "slotreeve_events", "slotreeve_client", "slotreeve_gateway"}
    for face in FACES
}

TOP_FOLDERS = tuple(dict.fromkeys(room.partition("/")[0] for room in PACKAGES.values()))
"""Folders at the top of the tree that hold what is shipped."""
OTHER_FOLDERS = ("examples", "deploy", "docs", "tests")
MOST_FOLDERS = 14
"""At the top of the tree: a newcomer reads their names at one glance. Thirteen, and ``deploy``."""

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
    "trustme": set[str](),
    "dns": {"slotreeve_face_dns"},
    "jinja2": {"slotreeve_face_console"},
    "markupsafe": {"slotreeve_face_console"},
    "prometheus_client": {"slotreeve_console"},
    "pyspark": {"slotreeve_spark"},
    "py4j": {"slotreeve_spark"},
    "pyarrow": {"slotreeve_spark"},
    "matplotlib": {"slotreeve_spark"},
    "pandas": {"slotreeve_spark"},
    "numpy": {"slotreeve_spark", "slotreeve_slotfunc"},
    "numba": {"slotreeve_slotfunc"},
    "hypothesis": {"slotreeve_conformance"},
    # Modules of the client that only who wants them imports.
    "httpx": {"slotreeve_client", "slotreeve_mirror"},
    "grpc": {"slotreeve_client"},
    "pytest": {"slotreeve_conformance", "slotreeve_testing"},
}
"""Packages that may import a library."""
HANDED_IN = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"},
    "random": {"random", "choice", "shuffle", "randrange", "randint", "sample", "uniform", "getrandbits"},
    "datetime": {"now", "utcnow", "today"},
}
"""Functions that a module may not call: it is given a clock and a generator of random numbers."""
EDGES = {
    # The clock itself; the disk itself; sockets and the driver's thread, which are edges.
    "kernel/slotreeve/clock.py",
    "kernel/slotreeve_machines/storage.py",
    "kernel/slotreeve_machines/beside.py",
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
    "slotreeve_fuzz",
    "slotreeve_testing",
    "slotreeve_cli",
}
MAY_USE_EDGES = {"slotreeve_transport_zmq", "slotreeve_election_mysql", "slotreeve_console", *RUNS_FOR_PEOPLE}
MEASURED = {*REGISTRY, *PLUGINS}
"""Packages whose branches ``./run coverage`` measures."""
