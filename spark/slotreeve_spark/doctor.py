"""Whether this machine can run Spark jobs, and what to do where it cannot."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slotreeve.errors import ConfigError

LOWEST_JAVA = 17
HIGHEST_JAVA = 25
JAVA_PATIENCE_SECONDS = 20
WANTED = {
    "pyspark": ((4, 1), (5,)),
    "pandas": ((2, 2), (3,)),
    "pyarrow": ((18,), (1_000,)),
    "matplotlib": ((3, 9), (1_000,)),
}
"""By distribution: the lowest version that works, and the lowest above it that is not tested."""


@dataclass(frozen=True)
class Finding:
    """What was found of one thing.

    Attributes:
        what: the thing: ``java``, ``pyspark``, ...
        found: its version or place; empty where there is none.
        problem: why it does not do; empty where it does.
        remedy: what to do about the problem.
    """

    what: str
    found: str
    problem: str = ""
    remedy: str = ""

    @property
    def good(self) -> bool:
        """Whether it will do."""
        return not self.problem


def examine() -> list[Finding]:
    """Java, pyspark, pandas, pyarrow and matplotlib as this process would use them."""
    return [java(), *(library(name) for name in WANTED)]


def must_be_fit() -> None:
    """Raises ConfigError if anything that Spark needs is missing or unsuitable; names all of it."""
    bad = [finding for finding in examine() if not finding.good]
    if bad:
        raise ConfigError("; ".join(f"{finding.problem}: {finding.remedy}" for finding in bad))


def library(name: str, version_of: Callable[[str], str] = importlib.metadata.version) -> Finding:
    """An installed distribution, against the versions that work."""
    lowest, above = WANTED[name]
    wanted = f"{name}>={'.'.join(map(str, lowest))}" + (f",<{above[0]}" if above[0] < 1_000 else "")
    remedy = f"install the extra: pip install 'slotreeve[spark]' (it needs {wanted})"
    try:
        version = version_of(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "", f"{name} is not installed", remedy)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if not lowest <= numbers < above:
        return Finding(name, version, f"{name} {version} does not fit", remedy)
    return Finding(name, version)


def java() -> Finding:
    """The Java that Spark would start: ``JAVA_HOME``'s, else the first on the path."""
    remedy = (
        f"install OpenJDK {LOWEST_JAVA} or {LOWEST_JAVA + 4} (Debian: apt-get install openjdk-17-jre-headless) or set "
        "JAVA_HOME to one; ./run spark-demo does it"
    )
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None:
        return Finding("java", "", "there is no Java: JAVA_HOME is not set and java is not on the path", remedy)
    try:
        output = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=JAVA_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer"
        place = f"{program} (from JAVA_HOME)" if home else program
        return Finding("java", place, f"{place} cannot be run: {reason}", remedy)
    return judge_java(program, output.stderr or output.stdout, remedy)


def judge_java(program: str, output: str, remedy: str = "") -> Finding:
    """The output of ``java -version`` against what Spark needs."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?[^"]*"', output)
    if match is None:
        return Finding("java", program, f"{program} does not tell its version", remedy)
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    found = f"{match[0].removeprefix('version ').strip(chr(34))} ({program})"
    if not LOWEST_JAVA <= major <= HIGHEST_JAVA:
        return Finding("java", found, f"Java {major} does not run Spark 4, which needs {LOWEST_JAVA} or newer", remedy)
    return Finding("java", found)
