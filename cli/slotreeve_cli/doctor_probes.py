"""What ``slotreeve doctor`` sees on this machine: a function for each check. What may block runs in a thread."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from slotreeve_cli.doctor_findings import (
    ConfigurationSeen,
    DirectorySeen,
    FilesSeen,
    PluginsSeen,
    SparkSeen,
    StoreSeen,
    VersionsSeen,
)
from slotreeve_cli.doctor_patient import Patient, in_thread

SYNCS = 3


async def look_at_configurations(patient: Patient) -> list[ConfigurationSeen]:
    """Each as ``slotreeve config check`` does. Those that are good stand in ``patient.good`` afterwards."""
    from slotreeve.errors import SlotreeveError

    from slotreeve_cli.config import build_all

    seen = []
    for case in patient.cases:
        if case.configuration is None or patient.catalogue is None:
            seen.append(ConfigurationSeen(case.name, case.problem or "the plugins cannot be used"))
            continue
        try:
            await build_all(case.configuration, patient.catalogue, online=False)
            checked = case.configuration.check_plugins(patient.catalogue)
        except SlotreeveError as error:
            seen.append(ConfigurationSeen(case.name, f"{error.code}: {error}"))
            continue
        chosen = ", ".join(f"{port} {case.configuration.choice(port).use}" for port in checked)
        seen.append(ConfigurationSeen(case.name, chosen=chosen))
        patient.good.append(case)
    return seen


async def look_at_plugins(patient: Patient) -> PluginsSeen:
    """Those that are installed."""
    if patient.catalogue is None:
        return PluginsSeen(0, problem=patient.problem)
    broken = {f"{each.plugin} of {each.source}": each.reason for each in patient.catalogue.broken}
    return PluginsSeen(len(patient.catalogue.listed), broken)


async def look_at_directories(patient: Patient) -> list[DirectorySeen]:
    """Those of elections and of the event log, each once."""
    from slotreeve.offers import Port

    wanted: dict[str, str] = {}
    for configuration, _ in patient.launchers():
        assert patient.catalogue is not None
        settings = configuration.settings
        template = getattr(configuration.check_plugins(patient.catalogue)[Port.ELECTION], "data_dir", "")
        metas, name = settings.cluster.meta, settings.node.name
        for meta in [name] if name in metas else metas:
            if template:
                wanted[template.replace("{node}", meta)] = f"election.{settings.election.use}.data_dir"
        if settings.events.path:
            wanted[settings.events.path] = "events.path"
    return [await in_thread(partial(_directory, path, what)) for path, what in wanted.items()]


def _directory(name: str, what: str) -> DirectorySeen:
    path = Path(name)
    there = path if path.exists() else path.absolute().parent
    if not there.exists():
        return DirectorySeen(name, what, exists=False, parent_exists=False)
    status, room = there.stat(), os.statvfs(there)
    is_writable = os.access(there, os.W_OK | os.X_OK)
    is_directory = there.is_dir()
    return DirectorySeen(
        name,
        what,
        exists=path.exists(),
        is_directory=is_directory,
        is_writable=is_writable,
        owner=_account(status.st_uid),
        account=_account(os.geteuid()),
        free_bytes=room.f_bavail * room.f_frsize,
        sync_ms=_sync_ms(there) if is_writable and is_directory else None,
    )


def _account(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _sync_ms(directory: Path) -> float | None:
    """Milliseconds of a durable write, the slowest of some, to a file without a name; None where there can be none."""
    flag = getattr(os, "O_TMPFILE", None)
    try:
        file = None if flag is None else os.open(directory, flag | os.O_WRONLY, 0o600)
    except OSError:
        return None
    if file is None:
        return None
    try:
        slowest = 0.0
        for _ in range(SYNCS):
            began = time.monotonic()
            os.write(file, bytes(4096))
            os.fsync(file)
            slowest = max(slowest, time.monotonic() - began)
        return 1000 * slowest
    except OSError:
        return None
    finally:
        os.close(file)


async def look_at_stores(patient: Patient) -> list[StoreSeen]:
    """The databases of elections that have one. Elections with a directory are looked at with the directories."""
    from slotreeve.errors import SlotreeveError
    from slotreeve_servers.meta.swap.back_end import TriesOut

    seen: dict[str, StoreSeen] = {}
    for configuration, launcher in patient.launchers():
        use, metas = configuration.settings.election.use, configuration.settings.cluster.meta
        if use in seen:
            continue
        name = configuration.settings.node.name
        election = launcher.election(name if name in metas else "")
        if hasattr(election, "left_directory") or not isinstance(election, TriesOut):
            seen[use] = StoreSeen(use)
            continue
        try:
            seen[use] = StoreSeen(use, await election.try_out())
        except SlotreeveError as error:
            seen[use] = StoreSeen(use, problem=f"{error.code}: {error}")
    return [*seen.values()]


async def look_at_versions(patient: Patient) -> VersionsSeen:
    """Of Python and of every installed distribution that slotreeve requires."""
    from importlib.metadata import PackageNotFoundError, distributions, requires
    from importlib.util import find_spec

    installed = {each.name.lower().replace("_", "-"): each.version for each in distributions() if each.name}
    try:
        is_native: bool | None = find_spec("google_crc32c._crc32c") is not None
    except ImportError:
        is_native = None
    required = list[str]()
    for package in ("slotreeve", "slotreeve-client"):
        with suppress(PackageNotFoundError):  # in a clone there is one for both
            required += requires(package) or []
    return VersionsSeen(sys.version_info[:3], required, installed, is_native)


async def look_at_files(patient: Patient) -> FilesSeen:
    """The limits of this process, which a server that is started here has, too."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FilesSeen(*(2**31 if each == resource.RLIM_INFINITY else each for each in (soft, hard)))


async def look_at_spark(patient: Patient) -> SparkSeen:
    """The Java that Spark would start."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None or find_spec("slotreeve_spark") is None:
        return SparkSeen(is_installed=False)
    from slotreeve_spark.doctor import java

    found = await in_thread(java)
    return SparkSeen(True, found.found, found.problem, found.remedy)
