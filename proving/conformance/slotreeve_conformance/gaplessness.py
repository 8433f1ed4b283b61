"""Whether what a node knew was always what the database held at some revision, without a gap (goal I17). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slotreeve.ports import Versioned

Change = tuple[int, str, Versioned]
"""Revision, key, and what was stored."""
Contents = Mapping[str, Versioned]


def gap(committed: Sequence[Change], node: str, copies: Iterable[Contents]) -> str | None:
    """The first copy of a node that never was the whole state of the database, described; None if there is none.

    ``committed``: all changes that the database committed, in its order. ``copies``: what the node held, one after the
    other; they must not go back.
    """
    for (revision, *_), expected in zip(committed, range(1, len(committed) + 1), strict=True):
        if revision != expected:
            return f"the database has revision {revision} in the place of {expected}"
    numbers = {(key, held.version): revision for revision, key, held in committed}
    reached = 0
    for copy in copies:
        unknown = [key for key, held in copy.items() if (key, held.version) not in numbers]
        if unknown:
            return f"{node} holds {unknown}, which the database never committed: {copy}"
        revision = max((numbers[key, held.version] for key, held in copy.items()), default=0)
        if revision < reached:
            return f"{node} went back from revision {reached} to {revision}"
        reached = revision
        whole = {key: held for _, key, held in committed[:revision]}
        if whole != dict(copy):
            lacking = {key for key in whole if copy.get(key) != whole[key]}
            return f"{node} knows revision {revision}, and lacks or has another change of {sorted(lacking)}"
    return None
