"""The comparison of slot functions on small input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_slotfunc.crc32c import Crc32c
from slotreeve_slotfunc.md5 import Md5
from slotreeve_spark.compare.slot_functions import SlotFunctionQuestion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.spark.soak.test_slot_function_comparison import counted

pytestmark = pytest.mark.spark


def test_the_counts_are_those_of_a_single_process(spark: SparkSession, tmp_path: Path) -> None:
    keys = [f"com.example.Service{n}#@#\u00e4" for n in range(5_000)]
    file = tmp_path / "keys.txt"
    file.write_text("\n".join(keys), encoding="utf-8")
    expected = Counter[tuple[str, int, int]]()
    for slots in (100, 256):
        expected.update(("crc32c", slots, Crc32c(slots).slot_of(key)) for key in keys)
        expected.update(("md5", slots, Md5(slots).slot_of(key)) for key in keys)
    assert counted(spark, str(file), SlotFunctionQuestion(("crc32c", "md5"), (100, 256))) == dict(expected)
