"""The traces that an option names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slotreeve_cli.spark_options import names

if TYPE_CHECKING:
    from slotreeve_spark.compare.balancers import BalancerQuestion
    from slotreeve_spark.compare.traces import MembershipTrace
    from slotreeve_spark.session import SparkSession


@dataclass(frozen=True)
class TraceSource:
    """Where traces come from.

    Attributes:
        given: read from a file.
        kinds: names of generated ones.
        warehouse: of the recorded one; None if it is not asked for.
    """

    given: tuple[MembershipTrace, ...] = ()
    kinds: tuple[str, ...] = ()
    warehouse: str | None = None

    @classmethod
    def of(cls, text: str) -> TraceSource:
        """As the option says: ``generated``, names with semicolons, a file, or ``recorded:WAREHOUSE``.

        Raises:
            ConfigError, ModelError: the file has no traces, or there is no such warehouse with what a trace is made of.
        """
        from slotreeve_spark.compare.traces import KINDS, read_traces

        word, _, warehouse = text.partition(":")
        if word == "recorded":
            from slotreeve_spark.pipeline.warehouse import Warehouse

            Warehouse.existing(warehouse or "warehouse").must_have_mart("slot_history")
            return cls(kinds=tuple(KINDS), warehouse=warehouse or "warehouse")
        if Path(text).is_file():
            return cls(tuple(read_traces(Path(text))), tuple(KINDS))
        return cls(kinds=tuple(KINDS) if text == "generated" else names(text, "--traces", ";"))

    def recorded(self, session: SparkSession, asked: BalancerQuestion) -> BalancerQuestion:
        """The question itself, or with the recorded trace. Raises ConfigError: there is none."""
        if self.warehouse is None:
            return asked
        from slotreeve_spark.pipeline.history import recorded_trace
        from slotreeve_spark.pipeline.warehouse import Warehouse

        return replace(asked, traces=(recorded_trace(session, Warehouse.existing(self.warehouse)),))
