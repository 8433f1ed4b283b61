"""Results on disk: Parquet tables, the report, and what was asked for; and rows small enough for a terminal."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve.errors import StorageError

from slotreeve_spark.progress import JobProgress, Say, nothing
from slotreeve_spark.report.page import Page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT, PARAMETERS = "report.html", "parameters.json"
LONGEST_TABLE = 2_000
"""Rows of a table for people; a result with more is in Parquet only."""


@dataclass(frozen=True)
class Directory:
    """Where one comparison's results go: a local or shared directory that driver and executors see alike. It is no URI:
    the report is a file for a person's browser.

    Attributes:
        progress: is told of each table that is computed and written.
    """

    path: Path
    progress: JobProgress = field(default_factory=JobProgress)

    @classmethod
    def make(cls, path: Path, option: str = "--out", say: Say = nothing) -> Directory:
        """Create it if it is missing; nothing runs before it can be written. ``option`` is the one that names it;
        ``say`` takes lines about the progress.

        Raises:
            StorageError: it cannot be created or written.
        """
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / ".writable"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise StorageError(
                f"{path}: results cannot be written there: {error.strerror}; choose another {option}"
            ) from None
        return cls(path, JobProgress(say))

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Replace the table ``name`` by ``frame``, and return what is stored: nothing is computed twice.

        Raises:
            StorageError: it cannot be written.
        """
        with self.progress.job(name.replace("_", " "), frame.sparkSession):
            return write_table(str(self.path / name), frame)

    def write_report(self, page: Page) -> Path:
        """The HTML file; returns its path. Raises StorageError."""
        return self._write_text(REPORT, page.as_html())

    def write_parameters(self, parameters: Mapping[str, object]) -> Path:
        """What was asked for, as JSON. Raises StorageError."""
        return self._write_text(PARAMETERS, json.dumps(parameters, indent=1, default=str) + "\n")

    def _write_text(self, name: str, text: str) -> Path:
        path = self.path / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
        return path


def write_table(place: str, frame: DataFrame) -> DataFrame:
    """Replace the table at ``place`` by ``frame``, and return what is stored: nothing is computed twice.

    Raises:
        StorageError: it cannot be written.
    """
    from py4j.protocol import Py4JJavaError

    try:
        frame.write.mode("overwrite").parquet(place)
    except Py4JJavaError as error:
        if (cause := storage_failure(error)) is None:
            raise
        raise StorageError(f"{place}: cannot be written: {cause}") from None
    return frame.sparkSession.read.parquet(place)


def storage_failure(error: BaseException) -> str | None:
    """What the disk said, if an error of Spark's was about that; else None."""
    lines = str(error).splitlines()
    words = ("permission denied", "no space left", "mkdirs failed", "read-only file system", "not a directory")
    return next((line.strip()[:300] for line in lines if any(word in line.lower() for word in words)), None)


def versions(session: SparkSession) -> dict[str, object]:
    """What the results were made with."""
    jvm = session.sparkContext._jvm
    java = jvm.java.lang.System.getProperty("java.version") if jvm is not None else "unknown"
    libraries = {name: importlib.metadata.version(name) for name in ("slotreeve", "pyspark", "pandas", "pyarrow")}
    return {"python": platform.python_version(), "java": java, **libraries, "master": session.sparkContext.master}


def small(frame: DataFrame, columns: Sequence[str] = ()) -> list[dict[str, object]]:
    """The rows of a summary, at most :data:`LONGEST_TABLE`; never for what grows with the input."""
    chosen = frame.select(*columns) if columns else frame
    return [row.asDict(recursive=True) for row in chosen.limit(LONGEST_TABLE).collect()]
