"""What the commands of ``slotreeve spark`` have in common: options, the wheels of plugins, the session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotreeve_cli.options import is_terminal

if TYPE_CHECKING:
    from slotreeve_spark.session import SparkSession

MasterOption = Annotated[
    str,
    typer.Option("--master", envvar="SLOTREEVE_SPARK_MASTER", help="Where Spark runs: local[2], spark://HOST:PORT."),
]
ConfOption = Annotated[list[str], typer.Option("--conf", help="A setting of Spark's, key=value; repeatable.")]
OutOption = Annotated[
    Path, typer.Option("--out", help="Directory for Parquet tables and the HTML report, a local or mounted one.")
]
WheelOption = Annotated[
    list[Path], typer.Option("--plugin-wheel", help="Ship this wheel to the executors; repeatable.")
]
WarehouseOption = Annotated[
    str, typer.Option("--warehouse", "-w", help="Directory of the pipeline's tables: a path, s3a://..., hdfs://...")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, max=86_400, help="Seconds after which a cell is given up.")
]
MemoryOption = Annotated[
    int, typer.Option("--memory", min=16, max=10_000_000, help="Megabytes of memory after which a cell is given up.")
]
EvenWithinOption = Annotated[
    float,
    typer.Option("--even-within", min=0.0, help="A balancer ends even within so many fair shares of a server."),
]
WEIGHTS = "moves=1,uneven_share=1,unready_slot_seconds=1"
WeightsOption = Annotated[str, typer.Option("--weights", help="What a recommendation weighs, FIGURE=NUMBER.")]
SeedsOption = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 .. N-1 of everything random.")]

# Spark takes seconds to start: whatever can be found wrong without it is found before.


def must_be_fit() -> None:
    """Call it before importing anything else of the Spark side. Raises ConfigError if Spark cannot run here."""
    from slotreeve_spark import doctor

    doctor.must_be_fit()


def opened_wheels(wheels: list[Path]) -> list[Path]:
    """The wheels' plugins are known to this process from now on; what to ship. Raises ConfigError."""
    must_be_fit()
    from slotreeve_spark.shipping import open_wheels

    return open_wheels(wheels)


def say(text: str) -> None:
    """A line about the progress of a job, for people who wait."""
    typer.echo(text, err=True)


@contextmanager
def spark_session(master: str, conf: list[str], copies: Sequence[Path] = ()) -> Iterator[SparkSession]:
    """A Spark session with the opened wheels shipped; stopped at the end. Spark's own progress bar on a terminal."""
    from slotreeve_spark.session import open_session
    from slotreeve_spark.shipping import ship

    settings = {"spark.ui.showConsoleProgress": str(is_terminal()).lower()} | dict(_pair(each) for each in conf)
    typer.echo(f"starting Spark on {master}", err=True)
    session = open_session(master, settings)
    try:
        ship(session, copies)
        yield session
    finally:
        session.stop()


def _pair(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise typer.BadParameter(f"--conf {setting}: expected key=value, e.g. --conf spark.executor.memory=2g")
    return key, value


def names(text: str, option: str, separator: str = ",") -> tuple[str, ...]:
    """The names in an option's text. Raises BadParameter: there is none."""
    found = tuple(name.strip() for name in text.split(separator) if name.strip())
    if not found:
        raise typer.BadParameter(f"{option} {text}: expected at least one name")
    return found


def numbers(text: str, option: str, least: int = 1) -> list[int]:
    """The numbers in an option's text. Raises BadParameter: one is none, or less than ``least``."""
    try:
        found = [int(number) for number in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < least:
        raise typer.BadParameter(f"{option} {text}: expected whole numbers from {least} on with commas, e.g. 256,1024")
    return found
