"""Bugs of the FLE election that only the history of the meta state shows; the scenario ``writes`` must find them.

The election suite plants the same ones (``tests/conformance/fle_bugs.py``), and more.
"""

from __future__ import annotations

import tests.conformance.fle_bugs  # noqa: F401 - adds its bugs
from tests.conformance.election_bugs import BUGS as ELECTION_BUGS
from tests.simulation.planting import bug

FIRST_SEEDS = {
    "commit_without_majority": 2,
    "committed_before_logged": 0,
    "nothing_waits_for_the_disk": 22,
    "serves_before_its_history_is_committed": 0,
    "abandoned_writes_are_stored": 0,
    "early_conflict": 0,
    "any_version_will_do": 0,
    "leads_on_without_a_quorum": 3,
}
"""The first seed to try of each, by the name of the bug."""

for _name, _first in FIRST_SEEDS.items():
    bug(ELECTION_BUGS[_name].what, "writes", _first)(ELECTION_BUGS[_name].make)
