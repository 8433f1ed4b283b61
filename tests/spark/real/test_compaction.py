"""A large day is compacted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_spark.pipeline.compact import plan, publish, rewrite
from slotreeve_spark.pipeline.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.spark.soak.test_compact_in_spark import ids, ingested_days


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return ingested_days(spark, tmp_path)


@pytest.mark.spark
def test_a_day_that_is_large_becomes_several_files_in_order(spark: SparkSession, store: Warehouse) -> None:
    job, *_ = plan(spark, store, "cleaned", file_bytes=1)
    assert job.parts > 1
    assert rewrite(spark, store, job) > 1
    assert publish(spark, store, job)
    assert len(ids(spark, store)) == 6
