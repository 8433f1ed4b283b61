"""The Debian package: built, installed into a small Debian, its servers run by what their units say, upgraded while
they run, removed and purged."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import slotreeve
from slotreeve_harness.free_ports import free_offset

from tests.deploy.debian_roots import Contained, debian, unpack
from tests.deploy.wheels import make_wheels

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# What dpkg and adduser write about themselves, and what the account is that stays.
NOT_OURS = (
    *("var/lib/dpkg/", "var/log/", "var/cache/", "etc/passwd", "etc/group", "etc/shadow", "etc/gshadow"),
    *("etc/subuid", "etc/subgid", "etc/.pwd.lock", "run/"),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("package")
    make_wheels(directory)
    command = [sys.executable, str(ROOT / "deploy/make_deb.py"), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3_000:]
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return debian(tmp_path_factory.mktemp("debian") / "base.tar", [PYTHON, "adduser"])


@pytest.fixture
def root(base: Path, tmp_path: Path) -> Iterator[Path]:
    found = unpack(base, tmp_path / "root")
    yield found
    shutil.rmtree(found)


def files(root: Path) -> set[str]:
    found = {str(path.relative_to(root)) for path in root.rglob("*")}
    return {name for name in found if not name.startswith(NOT_OURS)}


def dpkg(root: Path, *arguments: str) -> str:
    command = ["chroot", str(root), "dpkg", *arguments]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def install(root: Path, package: Path) -> str:
    shutil.copyfile(package, root / "package.deb")
    try:
        return dpkg(root, "--install", "/package.deb")
    finally:
        (root / "package.deb").unlink()


def newer(package: Path, directory: Path) -> Path:
    """The same package with a higher version."""
    place, made = directory / "newer", directory / "newer.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(place)], check=True)
    control = place / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^(Version: \S+)$", r"\1.1", control.read_text()))
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(place), str(made)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(place)
    return made


def command_of_unit(root: Path, role: str, name: str) -> list[str]:
    text = (root / f"usr/lib/systemd/system/slotreeve-{role}@.service").read_text()
    (found,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    return shlex.split(found.replace("%i", name))


def test_it_is_installed_runs_is_upgraded_beneath_its_servers_and_leaves_nothing(
    package: Path, root: Path, tmp_path: Path
) -> None:
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    before = files(root)
    install(root, package)
    version = Contained(root, ["slotreeve", "--version"], "nobody", {"PATH": "/usr/bin:/bin"}, {}).run()
    assert version.stdout == f"slotreeve {slotreeve.__version__}\n"
    account = next(line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("slotreeve:"))
    uid, gid = account.split(":")[2:4]
    configuration = root / "etc/slotreeve"
    assert (configuration.stat().st_uid, configuration.stat().st_gid) == (0, int(gid))
    assert configuration.stat().st_mode & 0o777 == 0o750

    offset = free_offset(random.Random())
    given = {
        "PATH": "/usr/bin:/bin",
        "SLOTREEVE__CLUSTER__META": f'{{"meta-1": "127.0.0.1:{7710 + offset}"}}',
        "SLOTREEVE__NODE__PORT_OFFSET": str(offset),
        "SLOTREEVE__GATEWAY__SESSIONS": f"127.0.0.1:{7730 + offset}",
        "SLOTREEVE__CLUSTER__REPLICAS": "1",
    }

    def contained(name: str, command: list[str]) -> Contained:
        state = root / "var/lib/slotreeve" / name
        state.mkdir(exist_ok=True, mode=0o700)
        shutil.chown(state, int(uid), int(gid))
        # As the unit: this account and group, its directory, nothing else to write.
        inside = ["env", f"--chdir=/var/lib/slotreeve/{name}", *command]
        return Contained(root, inside, f"{uid}:{gid}", given, {state: f"/var/lib/slotreeve/{name}"})

    registry = ["--session", f"127.0.0.1:{7730 + offset}"]
    with ExitStack() as stack:
        running = {}
        for role in ("meta", "data", "session", "gateway"):
            server = contained(f"{role}-1", command_of_unit(root, role, f"{role}-1"))
            running[role] = stack.enter_context(server.started(tmp_path / f"{role}.log"))
        deadline = time.monotonic() + PATIENCE
        for role, server in running.items():
            asked = ["slotreeve", "health", "--ready", "--role", role, "-c", "/etc/slotreeve/slotreeve.toml"]
            while (done := contained(f"{role}-1", asked).run()).returncode:
                assert time.monotonic() < deadline, server.said() + done.stdout + done.stderr

        edited = configuration / "slotreeve.toml"
        edited.write_text(edited.read_text() + "# edited\n")
        said = install(root, newer(package, tmp_path))
        assert "Restart one after the other" in said
        assert edited.read_text().endswith("# edited\n")
        shop = contained("session-1", ["slotreeve", "publish", "shop", "10.0.0.1:80", "--for", "60", *registry])
        with shop.started(tmp_path / "shop.log"):
            get = ["slotreeve", "get", "shop", *registry]
            while "10.0.0.1:80" not in (seen := contained("session-1", get).run()).stdout:
                assert time.monotonic() < deadline + PATIENCE, seen.stdout + seen.stderr
        for role in ("gateway", "session", "data", "meta"):
            assert running[role].stop() == 0, running[role].said()
            assert "Traceback" not in running[role].said()
    assert (root / "var/lib/slotreeve/meta-1/state-meta-1").is_dir()

    dpkg(root, "--remove", "slotreeve")
    assert not (root / "opt/slotreeve").exists()
    assert edited.exists()
    assert (root / "var/lib/slotreeve/meta-1").is_dir()
    (wanted / "slotreeve-data@data-1.service").symlink_to("/usr/lib/systemd/system/slotreeve-data@.service")
    dpkg(root, "--purge", "slotreeve")
    assert files(root) - before == set()
    dpkg(root, "--purge", "slotreeve")


def test_each_script_of_the_package_may_run_again(package: Path, root: Path) -> None:
    install(root, package)
    for script, argument in (("postinst", "configure"), ("postinst", "abort-upgrade"), ("prerm", "upgrade")):
        place = f"/var/lib/dpkg/info/slotreeve.{script}"
        for _ in range(2):
            done = subprocess.run(
                ["chroot", str(root), place, argument, ""], capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0, done.stderr
        wrong = subprocess.run(["chroot", str(root), place, "no-such-argument"], capture_output=True, check=False)
        assert wrong.returncode == 1
