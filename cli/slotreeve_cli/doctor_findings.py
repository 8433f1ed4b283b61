"""What ``slotreeve doctor`` makes of what it has seen. Pure: a function for each check, from facts to findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

MEBIBYTE = 1024 * 1024
LITTLE_SPACE, NO_SPACE = 1024 * MEBIBYTE, 64 * MEBIBYTE
"""Free bytes of a data directory below which a warning is due, and below which it fails."""
SLOW_SYNC_MS = 100.0
"""Milliseconds of a durable write from which on the lease of an election is at risk."""
SKEW_SECONDS = 1.0
"""Difference of two wall clocks that is worth a word: the times in logs and tables no longer fit together."""
FEW_FILES, VERY_FEW_FILES = 20_000, 1_024
"""Open files that a process may have. A client's connection takes four."""
LOWEST_PYTHON = (3, 11)
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[[\w,-]+\])?\s*([<>=!~,.\d]*)\s*(;.*)?")
_BOUND = re.compile(r"(>=|<)([\d.]+)")


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Diagnosis:
    """One line of the result.

    Attributes:
        what: what was looked at.
        verdict: how it is.
        found: what was seen, in some words.
        cure: what to do, as a sentence; empty where the verdict is ok.
    """

    what: str
    verdict: Verdict
    found: str
    cure: str = ""


def fine(what: str, found: str) -> Diagnosis:
    """Nothing to do."""
    return Diagnosis(what, Verdict.OK, found)


@dataclass(frozen=True)
class ConfigurationSeen:
    """A configuration: ``problem`` is the error that a server would end with, with its code; ``chosen`` the plugins."""

    name: str
    problem: str = ""
    chosen: str = ""


def of_configurations(seen: Sequence[ConfigurationSeen]) -> list[Diagnosis]:
    """Whether servers would start with each."""
    return [
        Diagnosis(
            f"configuration {each.name}",
            Verdict.FAIL,
            each.problem,
            "Mend the setting that the message names; slotreeve config check tells whether it is good then.",
        )
        if each.problem
        else fine(f"configuration {each.name}", f"valid: {each.chosen}")
        for each in seen
    ]


@dataclass(frozen=True)
class PluginsSeen:
    """The installed plugins: how many offers there are, why which plugins are broken, or why none can be used."""

    offers: int
    broken: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def of_plugins(seen: PluginsSeen) -> list[Diagnosis]:
    """A broken plugin stops a start only where it is chosen."""
    if seen.problem:
        return [Diagnosis("plugins", Verdict.FAIL, seen.problem, "Uninstall one of the two packages with pip.")]
    found = [
        Diagnosis(
            f"plugin {name}", Verdict.WARN, reason, "Install a version of its package that fits, or uninstall it."
        )
        for name, reason in seen.broken.items()
    ]
    return found or [fine("plugins", f"{seen.offers} offers, none is broken")]


@dataclass(frozen=True)
class PortSeen:
    """An address that a server of the configuration listens at.

    Attributes:
        what: the server, and what it listens there for.
        address: ``host:port``.
        problem: why it cannot be listened at; empty if it is free.
        is_elsewhere: it is an address of another machine.
        holder: process id and program that listen there, if that can be seen.
        is_ours: a process of this cluster listens there.
    """

    what: str
    address: str
    problem: str = ""
    is_elsewhere: bool = False
    holder: str = ""
    is_ours: bool = False


def of_ports(seen: Sequence[PortSeen]) -> list[Diagnosis]:
    """Whether each address is free, or a server of this cluster has it already."""
    return [_of_port(f"port {each.address}", each) for each in seen]


def _of_port(what: str, seen: PortSeen) -> Diagnosis:
    if not seen.problem:
        return fine(what, f"free, for {seen.what}")
    if seen.is_elsewhere:
        return fine(what, f"{seen.what} is on another machine")
    holder = seen.holder or "a process that this account cannot see"
    if seen.is_ours:
        return fine(what, f"{seen.what} runs: {holder}")
    if not seen.holder and "in use" not in seen.problem:
        cure = f"Give {seen.what} another address (node.bind, node.advertise, cluster.meta), or the account the right."
        return Diagnosis(what, Verdict.FAIL, f"{seen.what} cannot listen: {seen.problem}", cure)
    cure = f"End {holder}, or give {seen.what} another port (node.port_offset, node.bind, cluster.meta)."
    return Diagnosis(what, Verdict.FAIL, f"{seen.what} cannot listen: {holder} does", cure)


@dataclass(frozen=True)
class SkewSeen:
    """How far the wall clock of a server is ahead of this machine's, and by how much that may be wrong, in seconds."""

    server: str
    seconds: float
    uncertain: float


@dataclass(frozen=True)
class ClockSeen:
    """``counts_suspend``: there is a clock that goes on while the machine is suspended."""

    counts_suspend: bool
    skews: Sequence[SkewSeen] = ()


def of_clock(seen: ClockSeen) -> list[Diagnosis]:
    """No decision depends on wall clocks; leases depend on the monotonic one."""
    found = [fine("clock", "a monotonic clock that counts suspends")]
    if not seen.counts_suspend:
        cure = "Do not suspend or move this machine while a server runs, or use a kernel with CLOCK_BOOTTIME."
        found = [
            Diagnosis("clock", Verdict.WARN, "the monotonic clock stands still while the machine is suspended", cure)
        ]
    for skew in seen.skews:
        what, text = f"clock of {skew.server}", f"{abs(skew.seconds):.3f} s"
        if abs(skew.seconds) - skew.uncertain <= SKEW_SECONDS:
            found.append(fine(what, f"within {text} of this machine's"))
        else:
            where = "ahead of" if skew.seconds > 0 else "behind"
            cure = "Let both machines follow a time server (NTP): times in logs and tables do not fit together."
            found.append(Diagnosis(what, Verdict.WARN, f"{text} {where} this machine's", cure))
    return found


@dataclass(frozen=True)
class DirectorySeen:
    """A directory that servers write to.

    Attributes:
        path: where.
        what: the setting that names it.
        exists, is_directory, is_writable: of itself; where it does not exist ``is_writable`` is of its parent.
        parent_exists: whether it could be made.
        owner, account: who owns it, and who asks.
        free_bytes: of its file system.
        sync_ms: how long a durable write took; None where none was tried.
    """

    path: str
    what: str
    exists: bool = True
    is_directory: bool = True
    is_writable: bool = True
    parent_exists: bool = True
    owner: str = ""
    account: str = ""
    free_bytes: int = 2 * LITTLE_SPACE
    sync_ms: float | None = None


def of_directories(seen: Sequence[DirectorySeen]) -> list[Diagnosis]:
    """Each is there or can be made, can be written, has room, and syncs in time."""
    return [_of_directory(f"directory {each.path}", each) for each in seen] or [
        fine("directories", "the configuration names none")
    ]


def _of_directory(what: str, seen: DirectorySeen) -> Diagnosis:
    if not seen.exists and not seen.parent_exists:
        cure = "Make its parent directory, or correct the setting."
        return Diagnosis(what, Verdict.FAIL, f"its parent does not exist ({seen.what})", cure)
    if not seen.is_directory:
        return Diagnosis(
            what, Verdict.FAIL, f"is no directory ({seen.what})", "Move the file away, or name another path."
        )
    if not seen.is_writable:
        cure = f"Run the server as {seen.owner}, or give the directory to its account: chown {seen.account} {seen.path}"
        return Diagnosis(what, Verdict.FAIL, f"{seen.account} cannot write there; it belongs to {seen.owner}", cure)
    if seen.free_bytes < NO_SPACE:
        cure = "Make room on its file system: without it no server of this configuration can keep a promise."
        return Diagnosis(what, Verdict.FAIL, f"only {seen.free_bytes // MEBIBYTE} MiB are free", cure)
    if seen.free_bytes < LITTLE_SPACE:
        cure = "Make room on its file system soon."
        return Diagnosis(what, Verdict.WARN, f"only {seen.free_bytes // MEBIBYTE} MiB are free", cure)
    if seen.sync_ms is not None and seen.sync_ms > SLOW_SYNC_MS:
        cure = "Use a faster disk, or a longer lease (election.fle.lease_ms): a late write may cost the lead."
        return Diagnosis(what, Verdict.WARN, f"a durable write took {seen.sync_ms:.0f} ms", cure)
    if seen.exists and seen.owner != seen.account:
        cure = (
            f"Start the server as {seen.owner}, too: what {seen.account} writes, {seen.owner} may not be able to read."
        )
        return Diagnosis(what, Verdict.WARN, f"belongs to {seen.owner}, and you are {seen.account}", cure)
    if not seen.exists:
        return fine(what, "not there yet; the first start makes it")
    sync = "" if seen.sync_ms is None else f", a durable write takes {seen.sync_ms:.1f} ms"
    return fine(what, f"writable, {seen.free_bytes // MEBIBYTE:,} MiB free{sync}")


@dataclass(frozen=True)
class StoreSeen:
    """The database of an election: what was found, or ``problem``; both empty where the election has none."""

    election: str
    found: str = ""
    problem: str = ""


def of_stores(seen: Sequence[StoreSeen]) -> list[Diagnosis]:
    """Whether the database of the election answers, and this account may do what it has to."""
    findings = []
    for each in seen:
        what = f"store of the election {each.election}"
        if each.problem:
            cure = f"See that the database runs and can be reached, and that election.{each.election}.dsn is right."
            findings.append(Diagnosis(what, Verdict.FAIL, each.problem, cure))
        else:
            findings.append(fine(what, each.found or "no database is needed"))
    return findings


@dataclass(frozen=True)
class VersionsSeen:
    """Versions: of Python, of installed distributions by name in lower case, and what slotreeve requires.

    ``is_crc_native``: the checksum of keys is computed by the processor, not by Python; None where it is unknown.
    """

    python: tuple[int, ...]
    requirements: Sequence[str]
    installed: Mapping[str, str]
    is_crc_native: bool | None = None


def of_versions(seen: VersionsSeen) -> list[Diagnosis]:
    """Python and the libraries against what slotreeve requires. Extras count where they are installed."""
    shown = ".".join(map(str, seen.python))
    found = [fine("Python", shown)]
    if seen.python < LOWEST_PYTHON:
        cure = f"Install Python {LOWEST_PYTHON[0]}.{LOWEST_PYTHON[1]} or newer, and slotreeve with it."
        found = [Diagnosis("Python", Verdict.FAIL, f"{shown} is too old", cure)]
    wrong = [finding for text in seen.requirements if (finding := _of_requirement(text, seen.installed)) is not None]
    found += wrong or [fine("libraries", "all that slotreeve requires are there, in versions that fit")]
    if seen.is_crc_native is False:
        cure = "Install a wheel of google-crc32c with its C extension: pip install --force-reinstall google-crc32c"
        found.append(Diagnosis("google-crc32c", Verdict.WARN, "computes checksums in Python, which is slow", cure))
    return found


def _of_requirement(text: str, installed: Mapping[str, str]) -> Diagnosis | None:
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None:
        return None
    name, wanted, marker = match[1], match[2], match[3]
    version = installed.get(name.lower())
    cure = f"Install it: pip install '{name}{wanted}'"
    if version is None:
        return None if marker else Diagnosis(name, Verdict.FAIL, "is not installed", cure)
    for sign, bound in _BOUND.findall(wanted):
        if (_numbers(version) < _numbers(bound)) is (sign == ">="):
            verdict = Verdict.WARN if marker else Verdict.FAIL
            return Diagnosis(name, verdict, f"{version} does not fit {name}{wanted}", cure)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3])


@dataclass(frozen=True)
class ServerSeen:
    """A server of the cluster, as it answers.

    Attributes:
        name, address: of the server.
        problem: why it does not answer; empty if it does.
        is_refusal: it has refused the connection, and ``problem`` is its reason.
        versions: oldest and newest protocol version that it speaks.
        differs: which of its slot facts are not those of the configuration, in words.
    """

    name: str
    address: str
    problem: str = ""
    is_refusal: bool = False
    versions: tuple[int, int] = (0, 0)
    differs: str = ""


def of_servers(seen: Sequence[ServerSeen], oldest: int, newest: int) -> list[Diagnosis]:
    """Protocol versions and slot facts against ours, which are ``oldest`` to ``newest``."""
    found = []
    for each in seen:
        what, speaks = f"server {each.name}", f"{each.versions[0]} to {each.versions[1]}"
        if each.is_refusal:
            cure = "Correct the setting that it names, or bring both to one version of slotreeve."
            found.append(Diagnosis(what, Verdict.FAIL, f"{each.address} refuses: {each.problem}", cure))
        elif each.problem:
            cure = f"If it should run by now, look for it on its machine, and for a firewall before {each.address}."
            found.append(Diagnosis(what, Verdict.WARN, f"{each.address} does not answer: {each.problem}", cure))
        elif each.versions[1] < oldest or each.versions[0] > newest:
            cure = f"Bring it and this machine to one version of slotreeve: this one speaks {oldest} to {newest}."
            found.append(Diagnosis(what, Verdict.FAIL, f"speaks protocol {speaks} only", cure))
        elif each.differs:
            cure = "Give every process of the cluster the same cluster.slots, cluster.replicas and slot_function.use."
            found.append(Diagnosis(what, Verdict.FAIL, each.differs, cure))
        else:
            found.append(fine(what, f"answers, protocol {speaks}"))
    return found or [fine("servers", "none is named that could be asked")]


@dataclass(frozen=True)
class FilesSeen:
    """How many open files a process may have: now, and after it has raised its limit as servers do."""

    soft: int
    hard: int


def of_files(seen: FilesSeen) -> list[Diagnosis]:
    """Servers raise the limit to the hard one by themselves."""
    text = f"{seen.hard:,} for each process"
    cure = "Raise the hard limit where the servers are started: LimitNOFILE= of systemd, or ulimit -Hn."
    if seen.hard < VERY_FEW_FILES:
        return [Diagnosis("open files", Verdict.FAIL, text, cure)]
    if seen.hard < FEW_FILES:
        return [
            Diagnosis("open files", Verdict.WARN, f"{text}, enough for {seen.hard // 4:,} clients at a server", cure)
        ]
    return [fine("open files", text)]


@dataclass(frozen=True)
class SparkSeen:
    """Whether Spark is installed, and what would be wrong with its Java."""

    is_installed: bool
    java: str = ""
    problem: str = ""
    remedy: str = ""


def of_spark(seen: SparkSeen) -> list[Diagnosis]:
    """Only ``slotreeve spark`` needs it: a note, never more than a warning."""
    if not seen.is_installed:
        return [fine("Java for Spark", "Spark is not installed; only slotreeve spark needs it")]
    if seen.problem:
        cure = f"{seen.remedy[:1].upper()}{seen.remedy[1:]}."
        return [Diagnosis("Java for Spark", Verdict.WARN, f"{seen.problem}; only slotreeve spark needs it", cure)]
    return [fine("Java for Spark", seen.java)]
