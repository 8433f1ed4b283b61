"""Where the time of tests goes, as tables in Markdown: ``python -m tests.lanes.durations var/check.jsonl ...``.

The files are written by the plugin ``tests.lanes.progress``: by ``./run check`` and ``./run test`` below ``var/``, by a
soak in the folder of its page.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.lanes.soak import part_of

MOST_ROWS = 12


def table_of(name: str, progress: Path) -> str:
    """The modules of a run that take longest, and the rest of them in one row. Waiting counts as work."""
    seconds = part_of(name, progress, 0.0).seconds_of
    took: dict[str, float] = {}
    tests = Counter(test.partition("::")[0] for test in seconds)
    for test, each in seconds.items():
        module = test.partition("::")[0]
        took[module] = took.get(module, 0.0) + each
    order = sorted(took, key=lambda module: -took[module])
    rows = [(f"`{module}`", tests[module], took[module]) for module in order[:MOST_ROWS]]
    rest = order[MOST_ROWS:]
    rows.append((f"{len(rest)} others", sum(tests[each] for each in rest), sum(took[each] for each in rest)))
    total = sum(took.values()) or 1.0
    lines = [f"| {name} | tests | seconds | share |", "|---|---|---|---|"]
    lines += [f"| {what} | {count} | {each:.0f} | {100 * each / total:.0f} % |" for what, count, each in rows]
    return "\n".join([*lines, f"| all | {sum(tests.values())} | {total:.0f} | 100 % |"])


if __name__ == "__main__":
    print("\n\n".join(table_of(Path(name).stem, Path(name)) for name in sys.argv[1:]))
