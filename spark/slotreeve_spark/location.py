"""Directories that Spark reaches: local ones, and those of any file system that Hadoop has (s3a, hdfs, abfs)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotreeve.errors import ConfigError, SlotreeveError, StorageError

from slotreeve_spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATTERN = frozenset("*?[]{}\\")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")
MODULES = {"s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "gs": "gcs-connector"}
"""By scheme: the library that speaks it, where Spark does not bring it along."""
_NO_ACCESS = ("AccessDenied", "AccessControlException", "NoAuth", "Forbidden", "status code: 403", "InvalidAccessKeyId")
_NO_STORE = ("UnknownStore", "NoSuchBucket", "bucket does not exist", "container does not exist")


@dataclass(frozen=True)
class Location:
    """A directory or file as a person wrote it: a local path, or a URI such as ``s3a://bucket/warehouse``.

    It is text, because a :class:`~pathlib.Path` makes ``s3a:/bucket`` of ``s3a://bucket``.
    """

    text: str

    @classmethod
    def of(cls, given: str | Path) -> Location:
        """What was given, without slashes at its end.

        Raises:
            ConfigError: it is empty, or a URI with one slash where two must be.
        """
        text = str(given)
        if not text.strip():
            raise ConfigError("an empty path: expected a directory, or a URI such as s3a://bucket/warehouse")
        scheme = _SCHEME.match(text)
        if scheme and scheme[1] != "file" and "://" not in text:
            raise ConfigError(f"{text}: a URI begins with two slashes, e.g. {scheme[1]}://bucket/warehouse")
        return cls(text.rstrip("/") or "/")

    def plain(self) -> Location:
        """The location itself, for a directory of tables or logs. Raises ConfigError: Spark would take it as a pattern,
        and read others that match."""
        if found := sorted({*self.text} & PATTERN):
            raise ConfigError(f"{self.text}: Spark takes {' '.join(found)} as a pattern; expected a name without them")
        return self

    @property
    def scheme(self) -> str:
        """``file`` for a local path."""
        found = _SCHEME.match(self.text)
        return found[1].lower() if found else "file"

    @property
    def local(self) -> Path | None:
        """The path on this machine; None if the location is elsewhere."""
        return Path(re.sub("^file:/+", "/", self.text)) if self.scheme == "file" else None

    @property
    def uri(self) -> str:
        """What Spark is given. A local path is told apart from one of the cluster's default file system."""
        return self.text if self.local is None else f"file://{self.local.absolute()}"

    def child(self, name: str) -> Location:
        """Something in this directory."""
        return Location(f"{self.text.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class File:
    """A file of a directory: its name below that directory, bytes, and milliseconds since 1970 of the last change."""

    name: str
    size: int
    changed_ms: int


class Files:
    """The file systems that a session reaches.

    Every method raises:
        ConfigError: Spark lacks the library for the location's scheme, or there is no such file system.
        StorageError: it is not reached, or refuses.
    """

    def __init__(self, session: SparkSession) -> None:
        # The JVM behind a session has no types in Python.
        self._jvm: Any = session.sparkContext._jvm
        self._conf: Any = session._jsc.hadoopConfiguration()

    def exists(self, location: Location) -> bool:
        """Whether there is such a file or directory."""
        with _Explained(self, location):
            system, path = self._open(location)
            return bool(system.exists(path))

    def make(self, location: Location) -> None:
        """Make the directory, and those above it, where they are missing."""
        with _Explained(self, location):
            system, path = self._open(location)
            if not system.mkdirs(path):
                raise StorageError(f"{location}: cannot be made a directory")

    def below(self, location: Location) -> list[File]:
        """All files at any depth; none if there is no such directory."""
        with _Explained(self, location):
            system, path = self._open(location)
            if not system.exists(path):
                return []
            root = str(system.makeQualified(path).toUri().getPath()).rstrip("/") + "/"
            found, each = list[File](), system.listFiles(path, True)
            while each.hasNext():
                status = each.next()
                name = str(status.getPath().toUri().getPath()).removeprefix(root)
                found.append(File(name, int(status.getLen()), int(status.getModificationTime())))
            return found

    def read(self, location: Location) -> bytes | None:
        """The content of a small file; None if it cannot be read whole: it is missing, torn, or being written."""
        from py4j.protocol import Py4JJavaError

        with _Explained(self, location):
            system, path = self._open(location)
            try:
                stream = system.open(path)
                try:
                    return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
                finally:
                    stream.close()
            except Py4JJavaError as error:
                if any(name in str(error) for name in ("FileNotFoundException", "ChecksumException", "EOFException")):
                    return None
                raise

    def create(self, location: Location, content: bytes) -> bool:
        """Write a small file that does not exist yet; False if there is one of that name, which stays as it is."""
        from py4j.protocol import Py4JJavaError

        with _Explained(self, location):
            system, path = self._open(location)
            try:
                stream = system.create(path, False)
            except Py4JJavaError as error:
                if "AlreadyExists" in str(error):
                    return False
                raise
            stream.write(bytearray(content))
            stream.close()
            return True

    def delete(self, location: Location) -> None:
        """Delete a file, or a directory with everything in it, if it exists."""
        with _Explained(self, location):
            system, path = self._open(location)
            system.delete(path, True)

    def hadoop_version(self) -> str:
        """Of the Hadoop that Spark brings along."""
        return str(self._jvm.org.apache.hadoop.util.VersionInfo.getVersion())

    def _open(self, location: Location) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(location.uri)
        return path.getFileSystem(self._conf), path


class _Explained:
    """Makes one of our errors of what Hadoop raises in the block."""

    def __init__(self, files: Files, location: Location) -> None:
        self._files, self._location = files, location

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        from py4j.protocol import Py4JError, Py4JJavaError

        if isinstance(error, Py4JJavaError):
            raise explained(self._location, error, self._files.hadoop_version()) from None
        if isinstance(error, Py4JError):
            raise StorageError(f"{self._location}: cannot be reached: {first_line(error)}") from None


def explained(location: Location, error: BaseException, hadoop: str) -> SlotreeveError:
    """The error of ours for one of Hadoop's about a location.

    Args:
        hadoop: version of the Hadoop that Spark brings along.
    """
    text, scheme = str(error), location.scheme
    setting = f"--conf spark.hadoop.fs.{scheme}..."
    if "UnsupportedFileSystemException" in text or "No FileSystem for scheme" in text or "ClassNotFound" in text:
        library = MODULES.get(scheme)
        if library is None:
            return ConfigError(
                f"{location}: Spark has no file system for {scheme}://; expected a local path, hdfs://, or with its "
                "library s3a:// or abfs://"
            )
        package = f"org.apache.hadoop:{library}:{hadoop}" if library != "gcs-connector" else "its GCS connector"
        return ConfigError(
            f"{location}: Spark lacks what speaks {scheme}://; pass --conf spark.jars.packages={package}, or its jars "
            f"with --conf spark.jars=... ({first_line(error)})"
        )
    if "URISyntaxException" in text or "IllegalArgumentException" in text:
        return ConfigError(f"{location}: is no location that Spark understands: {first_line(error)}")
    if any(word in text for word in _NO_STORE) or ("FileNotFoundException" in text and "ucket" in text):
        return ConfigError(f"{location}: there is no such bucket or container; create it first: {first_line(error)}")
    if any(word in text for word in _NO_ACCESS):
        advice = f"check the credentials: {setting}" if location.local is None else "check who may write there"
        return StorageError(f"{location}: access is refused; {advice} ({first_line(error)})")
    advice = f"; check the endpoint: {setting}" if location.local is None else ""
    return StorageError(f"{location}: cannot be reached: {first_line(error)}{advice}")
