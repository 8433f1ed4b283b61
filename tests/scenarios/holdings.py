"""What a server or client holds: the sizes of all its collections, to see what grows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from types import MethodType

OURS = "slotreeve"
NOT_OF_A_PROCESS = ("slotreeve_simulator", "slotreeve_conformance", "slotreeve_transport_memory")
"""The modules of what is around a simulated process."""


def holdings(root: object) -> Counter[str]:
    """How much the collections hold that are reached from ``root``, by class and attribute; those of one attribute of
    all objects together. ``[]`` behind it: in what that collection holds. A deque of a bounded length is left out."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[object, str]] = [(root, "")]
    while waiting:
        found, place = waiting.pop()
        if id(found) in seen or isinstance(found, str | bytes | int | float | type | None):
            continue
        seen.add(id(found))
        if isinstance(found, deque) and found.maxlen is not None:
            continue
        if isinstance(found, Mapping | Set | Sequence | deque):
            sizes[place] += len(found)
            inner = [*found, *found.values()] if isinstance(found, Mapping) else list(found)
            waiting += [(one, f"{place}[]") for one in inner]
        elif isinstance(found, MethodType):
            waiting.append((found.__self__, place))
        else:
            waiting += _attributes(found)
    return sizes


def _attributes(found: object) -> Iterator[tuple[object, str]]:
    kind = type(found)
    module = kind.__module__
    if not module.startswith(OURS) or module.startswith(NOT_OF_A_PROCESS):
        return
    names = set(getattr(found, "__dict__", ()))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    for name in sorted(names):
        if not name.startswith("__") and hasattr(found, name):
            yield getattr(found, name), f"{kind.__name__}.{name}"


def growing(series: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """What has grown from each of these looks to the next one."""
    counts = {name: [sizes.get(name, 0) for sizes in series] for name in series[-1]}
    return {name: sizes for name, sizes in counts.items() if all(earlier < later for earlier, later in pairwise(sizes))}
