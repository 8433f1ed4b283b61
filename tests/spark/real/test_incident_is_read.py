"""An incident is read from the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from slotreeve_spark.pipeline.warehouse import Warehouse
from slotreeve_spark.seed.collect import recorded_incident
from slotreeve_spark.seed.facts import MemberEvent, RegistrationFact, SeedLimits, What

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.spark.soak.test_incident import SPAN, ingested_incident

pytestmark = pytest.mark.spark


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return ingested_incident(spark, tmp_path)


def test_an_incident_is_read_with_what_was_alive_before_it(spark: SparkSession, store: Warehouse) -> None:
    found = recorded_incident(spark, store, SPAN, SeedLimits())
    assert found.seconds == 60.0
    assert (found.slots, found.replicas) == (4, 2)
    assert found.members == (
        MemberEvent(-9.0, True, "session-1", "session"),
        MemberEvent(9.0, False, "session-1", "session", "connection lost"),
    )
    assert [(life.node, life.is_meta, life.is_session) for life in found.processes] == [
        ("meta-1", True, False),
        ("session-1", False, True),
    ]
    assert [(change.at, change.leader) for change in found.leaders] == [(-9.0, "meta-1")]
    assert [each.service for each in found.services] == ["a", "b", "z"]
    assert {what: n for what, n in found.services[0].counts.items() if n} == {
        What.ALIVE: 2,
        What.REPUBLISHED: 1,
        What.RETURNED: 1,
        What.EXPIRED: 2,
    }
    assert found.clients == ("old", "quiet", "new")
    assert found.facts == (
        RegistrationFact(0.0, What.ALIVE, "old", "a", "session-1", 2),
        RegistrationFact(0.0, What.ALIVE, "quiet", "z", "session-1", 1),
        RegistrationFact(2.0, What.PUBLISHED, "new", "b", "session-1", 2),
        RegistrationFact(3.0, What.RETURNED, "old", "a", "session-1", 1),
        RegistrationFact(10.0, What.EXPIRED, "old", "a", "session-1", 2),
    )
