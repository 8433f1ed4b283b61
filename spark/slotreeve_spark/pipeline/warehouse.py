"""The tables of the pipeline, in a directory that Spark reaches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from slotreeve.errors import ConfigError

from slotreeve_spark.location import Files, Location
from slotreeve_spark.pipeline.manifests import Manifest, decode, in_force
from slotreeve_spark.report.results import Directory, write_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN = "run"
"""Column by whose value the rewritten files of one compaction lie apart; readers do not see it."""


@dataclass(frozen=True)
class Warehouse:
    """A directory of tables: ``raw``, ``cleaned``, ``quarantine``, ``marts/...``, ``compacted/...`` (what replaces
    small files of a table), and the ``checkpoints``."""

    location: Location

    @classmethod
    def open(cls, given: str | Path) -> Warehouse:
        """One to write to. A local directory is created if it is missing: nothing runs before it can be written.
        :meth:`make` does the same elsewhere.

        Raises:
            ConfigError: that is no path.
            StorageError: it cannot be written.
        """
        location = Location.of(given).plain()
        if location.local is not None:
            Directory.make(location.local, "--warehouse")
        return cls(location)

    @classmethod
    def existing(cls, given: str | Path) -> Warehouse:
        """One to read from. Raises ConfigError if there is none; :meth:`must_exist` does so elsewhere."""
        location = Location.of(given).plain()
        if location.local is not None and not location.local.is_dir():
            raise _no_warehouse(location)
        return cls(location)

    def make(self, session: SparkSession) -> None:
        """Create the directory. Raises ConfigError, StorageError: it cannot be reached or written."""
        Files(session).make(self.location)

    def must_exist(self, session: SparkSession) -> None:
        """Raises ConfigError: there is no such warehouse; StorageError: it cannot be reached."""
        if not Files(session).exists(self.location):
            raise _no_warehouse(self.location)

    def place(self, name: str) -> str:
        """Where a table is, as Spark is told."""
        return self.location.child(name).uri

    def has(self, session: SparkSession, name: str) -> bool:
        """Whether there is such a table. Raises ConfigError, StorageError: the warehouse is not there, not reached."""
        if Files(session).exists(self.location.child(name)):
            return True
        self.must_exist(session)
        return False

    def table(self, session: SparkSession, name: str, columns: str) -> DataFrame:
        """A table as it is stored, each row once, compacted or not; empty where nothing has been stored yet.

        Raises:
            ConfigError, StorageError: the warehouse is not there, or not reached.
        """
        if not self.has(session, name):
            return session.createDataFrame([], columns)
        whole = session.read.schema(columns).parquet(self.place(name))
        parts = self.manifests(session, name)
        if not parts:
            return whole
        root = self.compacted(name)
        compacted = (
            session.read.schema(columns)
            .option("basePath", root.uri)
            .parquet(*(root.child(part.directory).uri for part in parts))
            .drop(RUN)
        )
        replaced = {file for part in parts for file in part.files}
        rest = [file for file in self.files(whole, name) if file not in replaced]
        if not rest:
            return compacted
        return compacted.unionByName(self.read_files(session, name, columns, rest), allowMissingColumns=True)

    def read_files(self, session: SparkSession, name: str, columns: str, files: list[str]) -> DataFrame:
        """Some files of a table, named as :meth:`files` does."""
        place = self.place(name)
        return session.read.schema(columns).option("basePath", place).parquet(*(f"{place}/{file}" for file in files))

    def files(self, whole: DataFrame, name: str) -> list[str]:
        """The files of a table that was read as a whole, below its place: those that the streaming query committed."""
        mark = f"/{name}/"
        return sorted(unquote(uri).rpartition(mark)[2] for uri in whole.inputFiles())

    def manifests(self, session: SparkSession, name: str) -> list[Manifest]:
        """What of a table was compacted."""
        return in_force(self.complete_manifests(session, name))

    def complete_manifests(self, session: SparkSession, name: str) -> list[Manifest]:
        """All that were written whole, in force or not."""
        files, place = Files(session), self.manifest_place(name)
        contents = (files.read(place.child(file.name)) for file in files.below(place) if file.name.isdigit())
        read = (decode(content) for content in contents if content is not None)
        return [manifest for manifest in read if manifest is not None]

    def compacted(self, name: str) -> Location:
        """Where the rewritten files of a table are."""
        return self.location.child(f"compacted/{name}/data")

    def manifest_place(self, name: str) -> Location:
        """Where the manifests of a table are."""
        return self.location.child(f"compacted/{name}/manifests")

    def write_mart(self, name: str, frame: DataFrame) -> DataFrame:
        """Replace a mart, and return what is stored. Raises StorageError if it cannot be written."""
        return write_table(self.place(f"marts/{name}"), frame)

    def must_have_mart(self, name: str) -> None:
        """Before a session is started: raises ConfigError if this directory is a local one without this mart. Elsewhere
        :meth:`mart` finds out."""
        if self.location.local is not None and not (self.location.local / "marts" / name).is_dir():
            raise self._no_mart(name)

    def _no_mart(self, name: str) -> ConfigError:
        return ConfigError(f"{self.location}: there is no mart {name}; run `slotreeve spark marts` first")

    def mart(self, session: SparkSession, name: str) -> DataFrame:
        """A mart. Raises ConfigError if there is none; StorageError: it cannot be reached."""
        if not self.has(session, f"marts/{name}"):
            raise self._no_mart(name)
        from pyspark.errors import PySparkException

        try:
            return session.read.parquet(self.place(f"marts/{name}"))
        except PySparkException:
            raise ConfigError(
                f"{self.location}: the mart {name} is not whole; run `slotreeve spark marts` again"
            ) from None


def _no_warehouse(location: Location) -> ConfigError:
    return ConfigError(f"{location}: there is no such warehouse; `slotreeve spark ingest` makes one")
