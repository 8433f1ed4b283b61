"""Bugs of the SQL of the lock election, that must be found without a database."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

from slotreeve_election_mysql.dialect import Dialect
from slotreeve_election_mysql.statements import Batch, Statements

from tests.simulation.planting import Patch, replaced

Plant = Callable[[Dialect], Patch]
BUGS: dict[str, Plant] = {}


def bug(what: str) -> Callable[[Plant], Plant]:
    """Add the bug that the function plants in a dialect."""

    def add(plant: Plant) -> Plant:
        assert what not in BUGS
        BUGS[what] = plant
        return plant

    return add


def reworded(name: str, old: str, new: str) -> Patch:
    """Let the statements of a method have another text."""
    original: Callable[..., Batch] = getattr(Statements, name)

    def statements(self: Statements, *arguments: object) -> Batch:
        batch = original(self, *arguments)
        assert any(old in each.text for each in batch), f"{name} has no {old!r}"
        return tuple(replace(each, text=each.text.replace(old, new)) for each in batch)

    vars(statements)["__signature__"] = inspect.signature(original)  # it passes on whatever the original takes
    return replaced(Statements, name, statements)


def without_setting(dialect: Dialect, word: str) -> Patch:
    """Let a session set everything but this."""
    original = dialect.session_settings

    def settings(timeout_seconds: float, idle_seconds: float) -> list[str]:
        return [each for each in original(timeout_seconds, idle_seconds) if word not in each.lower()]

    # A frozen value.
    return patch.dict(dialect.__dict__, {"session_settings": settings})


@bug("a row that has expired is renewed")
def _expired_row_renewed(dialect: Dialect) -> Patch:
    return reworded("renew", f" AND {dialect.remaining} > 0", "")


@bug("whoever has a later term releases the row")
def _any_later_term_releases(_dialect: Dialect) -> Patch:
    return reworded("release", "term = %s", "term <= %s")


@bug("a session has whatever isolation is the default")
def _isolation_not_set(dialect: Dialect) -> Patch:
    return without_setting(dialect, "isolation")


@bug("a row that has not expired is taken over")
def _taken_before_expiry(dialect: Dialect) -> Patch:
    return reworded("take_over", f"{dialect.remaining} <= 0", f"{dialect.remaining} <= duration")


@bug("a take-over does not compare the renewals")
def _take_over_without_renewals(_dialect: Dialect) -> Patch:
    return reworded("take_over", "AND term_duration = %s", "AND term_duration >= %s")


@bug("a write does not lock the row")
def _write_without_lock(_dialect: Dialect) -> Patch:
    return reworded("hold", " FOR UPDATE", "")


@bug("a write without an answer is not waited for")
def _settles_at_once(_dialect: Dialect) -> Patch:
    return reworded("settled_index", " FOR UPDATE", "")


@bug("the meta state of every cluster in the table is read")
def _of_any_cluster(_dialect: Dialect) -> Patch:
    return reworded("page", "lock_name = %s", "lock_name <> %s")
