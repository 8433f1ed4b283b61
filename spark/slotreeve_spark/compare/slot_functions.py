"""Slot functions compared on the same keys: spread, collisions, speed, and what moves when the slots change in number.

One pass over the keys: each task counts the keys of every slot for every function and number of slots, a few arrays of
integers, whatever the number of keys. Spark adds the counts up; the statistics are of the sums, so that they are the
same on any number of cores.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from slotreeve.errors import ConfigError, PluginError
from slotreeve.offers import Port
from slotreeve.ports import BatchSlotFunction, SlotFunction

from slotreeve_spark import shipping
from slotreeve_spark.compare import chances
from slotreeve_spark.compare.guard import CellLimits, PluginFailed, alarm, description_of, in_child
from slotreeve_spark.compare.keys import Keys, generated
from slotreeve_spark.compare.slot_columns import ColumnarSlotFunction, KeyColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Slots = NDArray[np.int64]
PROBE_KEYS = 1_000
COMPILE_SECONDS = 30
"""A function that is compiled may take so long to be built, before its own time begins."""
COUNTED, MOVED, TIMED, BROKEN = "counted", "moved", "timed", "broken"
COUNTS = "measure string, function string, slots int, slots_after int, slot int, value long, error string"
"""Of the partial counts. ``counted``: value keys are in the slot. ``moved``: value keys have another slot when there
are ``slots_after``. ``timed``: value nanoseconds of processor time were spent. ``broken``: the function failed, error
says how."""

SPREADS = (
    "function string, plugin string, slots int, keys long, mean double, fewest long, most long, most_over_mean double, "
    "variation double, chi_square double, p_value double, empty long, empty_expected double, collisions long, "
    "collisions_expected double, nanoseconds_per_key double, keys_per_second_per_core double, error string"
)
"""Of the results: one row for each function and number of slots.

variation: coefficient of variation (standard deviation over mean). p_value: how likely a random spread is at least as
uneven; very near 0 is too uneven, very near 1 too even for chance. collisions: pairs of keys in the same slot.
The last two figures are measured, everything else is counted and the same on every run.
"""
MOVES = "function string, slots int, slots_after int, keys long, moved long, moved_share double, least_share double"
"""One row for each function and each step to the next greater number of slots. least_share: what a function that moves
as few keys as possible would move."""


@dataclass(frozen=True)
class SlotFunctionQuestion:
    """What is to be compared.

    Attributes:
        functions: names of slot functions.
        slots: numbers of slots, ascending.
        timeout_seconds: for one function on one batch of keys.
    """

    functions: tuple[str, ...]
    slots: tuple[int, ...]
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not self.slots or list(self.slots) != sorted(set(self.slots)) or self.slots[0] < 1:
            raise ConfigError(f"--slots {', '.join(map(str, self.slots))}: expected ascending numbers from 1 on")
        shipping.must_be_known(Port.SLOT_FUNCTION, self.functions)


def probe(session: SparkSession, asked: SlotFunctionQuestion) -> dict[str, str]:
    """The functions that do not work on the executors, and why: one small task for each, in a process of its own."""
    functions = asked.functions

    def try_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                problem = _problem(functions[number], asked)
                yield pa.record_batch({"function": [functions[number]], "error": pa.array([problem], pa.string())})

    rows = session.range(0, len(functions), 1, len(functions)).mapInArrow(try_out, "function string, error string")
    return {row.function: row.error for row in rows.collect() if row.error is not None}


def _problem(function: str, asked: SlotFunctionQuestion) -> str | None:
    keys = _KeyBatch(pa.array([*generated(0, PROBE_KEYS).to_pylist(), "", "\u00e4\u4e16\U0001f600"]))

    def try_keys() -> None:
        built = {slots: _build(function, slots) for slots in asked.slots}
        best = {slots: _best(one, slots) for slots, one in built.items()}
        with alarm(asked.timeout_seconds):
            for slots, one in built.items():
                _must_be_whole([one.slot_of(key) for key in keys.texts])
                one_by_one = _one_by_one(one, slots)(keys)
                if not np.array_equal(one_by_one, _one_by_one(one, slots)(keys)):
                    raise PluginError("it gives the same key different slots")
                if isinstance(one, BatchSlotFunction) and not np.array_equal(one_by_one, _in_a_list(one, slots)(keys)):
                    raise PluginError("its slots_of gives keys other slots than its slot_of")
                if not np.array_equal(one_by_one, best[slots](keys)):
                    raise PluginError("its columns give keys other slots than its slot_of")

    try:
        in_child(try_keys, CellLimits(COMPILE_SECONDS + asked.timeout_seconds))
    except PluginFailed as error:
        return str(error)
    return None


def count(keys: Keys, asked: SlotFunctionQuestion) -> DataFrame:
    """Counts of all keys, added up, in the columns of :data:`COUNTS`. Rows do not grow with the keys.

    Raises nothing of a plugin's: a function that fails has a ``broken`` row.
    """
    expand = keys.expand

    def tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tallies = [_Tally(name, asked) for name in asked.functions]
        for batch in batches:
            for array in expand(batch):
                keys = _KeyBatch(array)
                for each in tallies:
                    each.add(keys)
        yield from (each.rows() for each in tallies)

    return (
        keys.frame.mapInArrow(tally, COUNTS)
        .groupBy("measure", "function", "slots", "slots_after", "slot", "error")
        .sum("value")
        .withColumnRenamed("sum(value)", "value")
    )


@dataclass
class _Tally:
    """One function's counts in one task."""

    function: str
    asked: SlotFunctionQuestion
    error: str | None = None
    counts: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    moved: dict[tuple[int, int], int] = field(default_factory=dict)
    nanoseconds: dict[int, int] = field(default_factory=dict)
    _built: dict[int, Callable[[_KeyBatch], Slots]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._built = {slots: _best(_build(self.function, slots), slots) for slots in self.asked.slots}
        except (Exception, SystemExit) as error:  # noqa: BLE001 - of a third party's
            self.error = description_of(error)
        self.counts = {slots: np.zeros(slots, np.int64) for slots in self.asked.slots}
        self.nanoseconds = dict.fromkeys(self.asked.slots, 0)
        self.moved = dict.fromkeys(zip(self.asked.slots, self.asked.slots[1:], strict=False), 0)

    def add(self, keys: _KeyBatch) -> None:
        """Count these keys, unless the function has failed before."""
        if self.error is not None:
            return
        before: tuple[int, NDArray[np.int64]] | None = None
        try:
            with alarm(self.asked.timeout_seconds):
                for slots, slots_of in self._built.items():
                    began = time.thread_time_ns()
                    found = slots_of(keys)
                    self.nanoseconds[slots] += time.thread_time_ns() - began
                    self.counts[slots] += np.bincount(found, minlength=slots)
                    if before is not None:
                        self.moved[before[0], slots] += int(np.count_nonzero(before[1] != found))
                    before = slots, found
        except (Exception, SystemExit) as error:  # noqa: BLE001 - of a third party's
            self.error = description_of(error)

    def rows(self) -> pa.RecordBatch:
        """In the columns of :data:`COUNTS`."""
        if self.error is not None:
            return _rows(BROKEN, self.function, [0], [0], [0], [0], self.error)
        slots = [n for n, counts in self.counts.items() for _ in counts]
        slot = np.concatenate([np.arange(n) for n in self.counts])
        batches = [
            _rows(COUNTED, self.function, slots, [0] * len(slots), slot, np.concatenate(list(self.counts.values()))),
            _rows(
                TIMED,
                self.function,
                list(self.nanoseconds),
                [0] * len(self.nanoseconds),
                [0] * len(self.nanoseconds),
                list(self.nanoseconds.values()),
            ),
            _rows(
                MOVED,
                self.function,
                [a for a, _ in self.moved],
                [b for _, b in self.moved],
                [0] * len(self.moved),
                list(self.moved.values()),
            ),
        ]
        return pa.concat_batches(batches)


def _rows(
    measure: str,
    function: str,
    slots: Sequence[int],
    after: Sequence[int],
    slot: Sequence[int] | NDArray[np.int64],
    value: Sequence[int] | NDArray[np.int64],
    error: str | None = None,
) -> pa.RecordBatch:
    number = len(slots)
    return pa.record_batch(
        {
            "measure": pa.array([measure] * number, pa.string()),
            "function": pa.array([function] * number, pa.string()),
            "slots": pa.array(slots, pa.int32()),
            "slots_after": pa.array(after, pa.int32()),
            "slot": pa.array(slot, pa.int32()),
            "value": pa.array(value, pa.int64()),
            "error": pa.array([error] * number, pa.string()),
        }
    )


class _KeyBatch:
    """Keys from Arrow: as Python's text or bytes, made when first asked for, or as they are."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @functools.cached_property
    def column(self) -> KeyColumn:
        return KeyColumn.of(self._array)

    @functools.cached_property
    def texts(self) -> NDArray[np.object_]:
        return self._array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    @functools.cached_property
    def octets(self) -> list[bytes]:
        return self._array.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _build(function: str, slots: int) -> SlotFunction:
    built = shipping.build(Port.SLOT_FUNCTION, function, slots)
    assert isinstance(built, SlotFunction)
    return built


def _one_by_one(function: SlotFunction, slots: int) -> Callable[[_KeyBatch], Slots]:
    slot_of = function.slot_of
    return lambda keys: _checked(np.fromiter(map(slot_of, keys.texts), np.int64, len(keys)), keys, slots)


def _in_a_list(function: BatchSlotFunction, slots: int) -> Callable[[_KeyBatch], Slots]:
    slots_of = function.slots_of
    return lambda keys: _checked(_must_be_whole(slots_of(keys.octets)), keys, slots)


def _must_be_whole(answers: Sequence[int]) -> Slots:
    """The slots as an array. Raises PluginError: they are no whole numbers."""
    found = np.asarray(answers)
    if found.size and found.dtype.kind not in "iu":
        raise PluginError(f"it answers {answers[0]!r}; expected the number of a slot")
    return found.astype(np.int64)


def _best(function: SlotFunction, slots: int) -> Callable[[_KeyBatch], Slots]:
    """The fastest way that the function offers: a column, many keys at once, or one after the other."""
    columns = function.columns() if isinstance(function, ColumnarSlotFunction) else None
    if columns is not None:
        return lambda keys: _checked(columns.slots_of(keys.column.octets, keys.column.offsets), keys, slots)
    if isinstance(function, BatchSlotFunction):
        return _in_a_list(function, slots)
    return _one_by_one(function, slots)


def _checked(found: Slots, keys: _KeyBatch, slots: int) -> Slots:
    """The slots, if they are slots. Raises PluginError."""
    if len(found) != len(keys):
        raise PluginError(f"it answers {len(found)} slots for {len(keys)} keys")
    if found.size and (found.min() < 0 or found.max() >= slots):
        wrong = found[(found < 0) | (found >= slots)][0]
        raise PluginError(f"it answers slot {wrong}; there are {slots}, from 0 on")
    return found


def spreads(counts: DataFrame, asked: SlotFunctionQuestion, broken: dict[str, str]) -> DataFrame:
    """The results in the columns of :data:`SPREADS`, from :func:`count`; ``broken`` is from :func:`probe`."""
    session = counts.sparkSession

    def judge(table: pa.Table) -> pa.Table:
        return _judged(table)

    judged = counts.where(counts.measure.isin(COUNTED, TIMED)).groupBy("function", "slots").applyInArrow(judge, SPREADS)
    failed = counts.where(counts.measure == BROKEN).groupBy("function").agg({"error": "min"})
    failed = failed.withColumnRenamed("min(error)", "error")
    lost = pa.table({"function": pa.array(broken, pa.string()), "error": pa.array(broken.values(), pa.string())})
    failed = failed.unionByName(session.createDataFrame(lost))
    whole = judged.drop("error").join(failed.select("function"), "function", "left_anti")
    return whole.unionByName(failed, allowMissingColumns=True).orderBy("slots", "function")


def _judged(table: pa.Table) -> pa.Table:
    rows = table.to_pydict()
    function, slots = rows["function"][0], rows["slots"][0]
    counts = np.zeros(slots, np.int64)
    nanoseconds = 0
    for measure, slot, value in zip(rows["measure"], rows["slot"], rows["value"], strict=True):
        if measure == COUNTED:
            counts[slot] = value
        else:
            nanoseconds += value
    keys = int(counts.sum())
    mean = keys / slots
    statistic = chances.chi_square(counts)
    each = nanoseconds / keys if keys else 0.0
    return pa.Table.from_pylist(
        [
            {
                "function": function,
                "plugin": shipping.source_of(Port.SLOT_FUNCTION, function),
                "slots": slots,
                "keys": keys,
                "mean": mean,
                "fewest": int(counts.min()),
                "most": int(counts.max()),
                "most_over_mean": int(counts.max()) / mean if keys else None,
                "variation": float(counts.std()) / mean if keys else None,
                "chi_square": statistic,
                "p_value": chances.p_value(statistic, slots - 1) if slots > 1 else 1.0,
                "empty": int(np.count_nonzero(counts == 0)),
                "empty_expected": chances.expected_empty(keys, slots),
                "collisions": chances.pairs(counts),
                "collisions_expected": chances.expected_pairs(keys, slots),
                "nanoseconds_per_key": each,
                "keys_per_second_per_core": 1e9 / each if each else None,
                "error": None,
            }
        ],
        schema=_SPREADS_ARROW,
    )


_SPREADS_ARROW = pa.schema(
    [
        (name, {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "double": pa.float64()}[kind])
        for name, kind in (column.split() for column in SPREADS.split(", "))
    ]
)


def moves(counts: DataFrame) -> DataFrame:
    """What moves with the number of slots, in the columns of :data:`MOVES`, from :func:`count`."""
    from pyspark.sql import functions as f

    keys = counts.where(counts.measure == COUNTED).groupBy("function", "slots").agg(f.sum("value").alias("keys"))
    moved = counts.where(counts.measure == MOVED).select("function", "slots", "slots_after", "value")
    broken = counts.where(counts.measure == BROKEN).select("function")
    return (
        moved.join(keys, ["function", "slots"])
        .join(broken, "function", "left_anti")
        .select(
            "function",
            "slots",
            "slots_after",
            "keys",
            f.col("value").alias("moved"),
            f.try_divide(f.col("value").cast("double"), f.col("keys")).alias("moved_share"),
            (1 - f.col("slots") / f.col("slots_after")).alias("least_share"),
        )
        .orderBy("slots", "function")
    )
