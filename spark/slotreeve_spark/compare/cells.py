"""Cells: independent pieces of work, one task of Spark's each, whose failures are rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from slotreeve_spark.compare.guard import CellLimits, PluginFailed, TimedOut, in_child

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True)
class CellResult(Generic[T]):
    """What came of a cell: a value, or an error.

    Attributes:
        status: ``ok``, ``failed`` or ``timed out``.
        error: one line; None where all is well.
    """

    status: str
    value: T | None = None
    error: str | None = None


def run_cells(
    session: SparkSession,
    cells: Sequence[C],
    work: Callable[[C], T],
    row: Callable[[C, CellResult[T]], dict[str, object]],
    columns: str,
    limits: CellLimits,
) -> DataFrame:
    """A frame of one row a cell: ``row(cell, what came of work(cell))``, in the order of ``columns``.

    Cell ``i`` is partition ``i``, so Spark schedules, retries and spreads cells as tasks. The work runs in a process
    of its own within ``limits``: whatever it does costs this cell only.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    described = StructType.fromDDL(columns)
    assert isinstance(described, StructType)
    schema = to_arrow_schema(described)
    shared = session.sparkContext.broadcast(list(cells))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                cell = shared.value[number]
                made = row(cell, _result(functools.partial(work, cell), limits))
                yield pa.RecordBatch.from_pylist([made], schema=schema)

    return session.range(0, len(cells), 1, len(cells)).mapInArrow(run, columns)


def _result(work: Callable[[], T], limits: CellLimits) -> CellResult[T]:
    try:
        return CellResult("ok", in_child(work, limits))
    except TimedOut as error:
        return CellResult("timed out", error=str(error))
    except PluginFailed as error:
        return CellResult("failed", error=str(error))
