"""A Spark session fit for these jobs: the driver's own Python on the executors, Arrow on, and errors a person can act
on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve.errors import ConfigError

from slotreeve_spark.doctor import must_be_fit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession

LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
BATCH_ROWS = 16_384
"""Rows of an Arrow batch between the JVM and Python; a task holds a few batches at a time, never its partition."""

_DEFAULTS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_LOCAL_ONLY = {"spark.driver.bindAddress", "spark.driver.host"}


def open_session(master: str, conf: Mapping[str, str], app_name: str = "slotreeve", quiet: bool = True) -> SparkSession:
    """The running Spark session, or a new one on ``master`` (``local[2]``, ``spark://host:7077``, ...) with ``conf``.

    Executors use the interpreter of this process unless ``PYSPARK_PYTHON`` names another. ``conf`` is stronger than
    the defaults of these jobs; Java options are added to theirs. On clusters the driver's address is left to Spark.

    Raises:
        ConfigError: Java, pyspark, pandas or pyarrow is missing or too old, or Spark does not start with these
            settings; the message names the remedy.
    """
    must_be_fit()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = master.startswith("local")
    settings = {key: value for key, value in _DEFAULTS.items() if local or key not in _LOCAL_ONLY} | dict(conf)
    if quiet:  # the JVM prints warnings before a session can set its level
        options = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {settings.get(JAVA_OPTIONS, '')}"
        settings[JAVA_OPTIONS] = options.strip()
    builder = SparkSession.Builder().master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError, ValueError) as error:
        raise ConfigError(
            f"Spark does not start on {master!r}: {first_line(error)}; see `slotreeve spark doctor`"
        ) from None
    except Exception as error:  # noqa: BLE001 - py4j hands over whatever the JVM threw
        raise ConfigError(
            f"Spark does not start on {master!r}: {first_line(error)}; check --master and --conf"
        ) from None
    if quiet:
        session.sparkContext.setLogLevel("ERROR")
    return session


def first_line(error: BaseException) -> str:
    """The first line of an error of Spark's or Java's that has content, without the stack."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix(": ") for line in lines if line and not line.startswith(("at ", "An error occurred"))]
    return causes[0][:300] if causes else type(error).__name__
