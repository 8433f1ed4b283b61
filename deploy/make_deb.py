"""Makes the Debian package from the wheels: ``python deploy/make_deb.py dist``.

The package has an environment of its own in ``/opt/slotreeve``, filled here: Debian lacks these versions of the
libraries, and an installation must not need an index of packages. So the package is for one architecture and one
version of Python: run this on the release of Debian that it is for, by that release's version of Python.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from py_compile import PycInvalidationMode

DEPLOY = Path(__file__).resolve().parent
ROOT = DEPLOY.parent
SCRIPTS = ("postinst", "prerm", "postrm")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PLACE = "opt/slotreeve"
TIME = "1580601600"
"""The time of every file, in seconds, where SOURCE_DATE_EPOCH names none: as that of files in wheels of hatchling."""
ENTRY = """#!/opt/slotreeve/bin/python3
import sys

from slotreeve_cli.main import main

sys.exit(main())
"""
ENVIRONMENT = """home = /usr/bin
include-system-site-packages = false
"""


def main(arguments: list[str]) -> int:
    """Read the flags, and make it. Prints the path of the package."""
    parser = argparse.ArgumentParser(description="Make the Debian package from wheels.")
    parser.add_argument("wheels", type=Path, help="directory with the wheels; the package is written there as well")
    parser.add_argument("--extras", default="fast,sql,oidc,migrate", help="of the package, separated by commas")
    parser.add_argument("--revision", default="1", help="of the package of this version")
    parser.add_argument("--maintainer", default="slotreeve <root@localhost>", help="NAME <ADDRESS>")
    given = parser.parse_args(arguments)
    wheels = [path for name in ("slotreeve", "slotreeve_client") for path in given.wheels.glob(f"{name}-*.whl")]
    own = [wheel for wheel in wheels if wheel.name.startswith("slotreeve-")]
    if len(own) != 1 or len(wheels) != 2:
        found = ", ".join(path.name for path in wheels) or "none"
        print(
            f"{given.wheels}: found {found}; expected one wheel of slotreeve and one of slotreeve-client",
            file=sys.stderr,
        )
        return 2
    version = f"{debian(own[0].name.split('-')[1])}-{given.revision}"
    with tempfile.TemporaryDirectory(prefix="slotreeve-deb-") as scratch:
        stage = Path(scratch) / "stage"
        fill_environment(stage, [str(each) for each in wheels if each not in own], own[0], given.extras)
        fill_system(stage)
        print(pack(stage, given.wheels, version, given.maintainer))
    return 0


def debian(version: str) -> str:
    """A version as Debian orders it: 0.2.0~dev0 and 0.2.0~rc1 are less than 0.2.0, and 0.2.0rc1 would be more."""
    return re.sub(r"\.?(a|b|rc|dev)(?=\d)", r"~\1", version)


def fill_environment(stage: Path, others: list[str], own: Path, extras: str) -> None:
    """The environment: as ``python -m venv`` makes it, for the Python of Debian."""
    packages = stage / PLACE / "lib" / PYTHON / "site-packages"
    packages.mkdir(parents=True)
    flags = ["--quiet", "--no-compile", "--only-binary", ":all:", "--target", str(packages)]
    flags += ["--constraint", str(ROOT / "constraints.txt")]
    what = [*others, f"{own}[{extras}]" if extras else str(own)]
    subprocess.run([sys.executable, "-m", "pip", "install", *flags, *what], check=True)  # noqa: S603 - flags of this file
    shutil.rmtree(packages / "bin", ignore_errors=True)
    # Compiled here, and never looked at again: nothing is written below /opt when it runs.
    compileall.compile_dir(
        packages,
        quiet=2,
        stripdir=str(stage),
        prependdir="/",
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        workers=1,
    )
    programs = stage / PLACE / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(f"/usr/bin/{PYTHON}")
    (programs / "python").symlink_to("python3")
    (programs / "slotreeve").write_text(ENTRY, encoding="utf-8")
    (stage / PLACE / "pyvenv.cfg").write_text(ENVIRONMENT, encoding="utf-8")


def fill_system(stage: Path) -> None:
    """The command, the units, the configuration and the documents."""
    for place in ("usr/bin", "usr/lib/systemd/system", "etc/slotreeve", "var/lib/slotreeve", "usr/share/doc/slotreeve"):
        (stage / place).mkdir(parents=True)
    (stage / "usr/bin/slotreeve").symlink_to("/opt/slotreeve/bin/slotreeve")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        shutil.copyfile(unit, stage / "usr/lib/systemd/system" / unit.name)
    shutil.copyfile(DEPLOY / "debian/slotreeve.toml", stage / "etc/slotreeve/slotreeve.toml")
    documents = stage / "usr/share/doc/slotreeve"
    shutil.copyfile(ROOT / "LICENSE", documents / "copyright")
    (documents / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), 9, mtime=0))


def pack(stage: Path, output: Path, version: str, maintainer: str) -> Path:
    """Write the package. Its files belong to root, and only their owner writes them."""
    size = 0
    for path in stage.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent == stage / PLACE / "bin" else 0o644)
            size += path.stat().st_size
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"],  # noqa: S607 - found on PATH
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    about = stage / "DEBIAN"
    about.mkdir(mode=0o755)
    fields = {"version": version, "architecture": architecture, "maintainer": maintainer, "python": PYTHON}
    control = (DEPLOY / "debian/control").read_text(encoding="utf-8")
    (about / "control").write_text(control.format(**fields, kibibytes=size // 1024 + 1), encoding="utf-8")
    shutil.copyfile(DEPLOY / "debian/conffiles", about / "conffiles")
    for name in SCRIPTS:
        shutil.copyfile(DEPLOY / "debian" / name, about / name)
        (about / name).chmod(0o755)
    package = output / f"slotreeve_{version}_{architecture}.deb"
    subprocess.run(  # noqa: S603 - paths of this file
        ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(stage), str(package)],  # noqa: S607
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", TIME)},
    )
    return package


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
